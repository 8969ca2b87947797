//! Ports of weir: capture files, traffic generator, memory.

pub mod capture;
pub mod generator;
