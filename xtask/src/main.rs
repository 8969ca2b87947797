//! Checks of the house: layers, file sizes, dependencies.

fn main() {}
