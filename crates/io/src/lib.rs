//! Ports of weir: capture files, traffic generator, interfaces of this machine,
//! memory; and those between the stages of a plan, in one process or several.

#![deny(unsafe_code)]

pub mod capture;
mod cycles;
mod datagrams;
pub mod emulate;
pub mod generator;
mod idle;
pub mod live;
pub mod machine;
mod pages;
pub mod port;
pub mod shared;
pub mod stage;
mod sys;
mod waker;

pub use cycles::cycles;
pub use datagrams::Datagrams;
pub use idle::{Idle, IdlePolicy, Nap};
pub use pages::advise_large_pages;
pub use waker::Waker;
