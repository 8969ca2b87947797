//! A runtime's actors with real engines, in small exchanges that are written
//! out: the test plays the switch.

mod ahead;
mod bed;
mod compare;
mod ends;
mod failure;
mod first;
mod functions;
mod leases;
mod loggers;
mod long;
mod panics;
mod periodic;
mod planned;
mod refusals;
mod replica;
mod reprocess;
mod restart;
