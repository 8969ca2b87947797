//! weir runs stateful network functions: the program.

fn main() {}
