//! Benchmarks of weir.
