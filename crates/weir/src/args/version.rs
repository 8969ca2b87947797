//! The words of `weir version`.

use clap::Args as ClapArgs;

use super::Format;

/// The words of `weir version`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Version {
    /// How it is printed
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) output: Format,
}
