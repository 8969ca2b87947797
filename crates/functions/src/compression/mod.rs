//! The functions `payload-compressor` and `payload-decompressor`: the two ends of a link that is
//! dearer than computing.
//!
//! `format` says what a coded payload looks like and knows no packets; `segment` says which
//! packets are looked at and gives them another payload; the functions put both together.

mod compressor;
mod decompressor;
mod format;
mod segment;
mod selection;
#[cfg(test)]
mod tests;

pub use compressor::{PayloadCompressor, Settings as CompressorSettings};
pub use decompressor::{PayloadDecompressor, Settings as DecompressorSettings};
pub use format::{Coded, Decoder, Encoder, Fault, MAGIC, Marks};
pub use selection::Towards;
