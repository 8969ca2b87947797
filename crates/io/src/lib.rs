//! Ports of weir: capture files, traffic generator, interfaces of this machine,
//! memory.

#![deny(unsafe_code)]

pub mod capture;
mod cycles;
pub mod generator;
pub mod live;
mod pages;
pub mod port;
mod sys;

pub use cycles::cycles;
pub use pages::advise_large_pages;
