//! Ports of weir: capture files, traffic generator, memory.

#![deny(unsafe_code)]

pub mod capture;
mod cycles;
pub mod generator;
mod pages;
pub mod port;

pub use cycles::cycles;
pub use pages::advise_large_pages;
