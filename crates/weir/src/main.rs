//! The program with the stock functions.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    weir::main_with(&[])
}
