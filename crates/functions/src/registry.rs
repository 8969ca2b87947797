//! The list of stock functions.

use weir_nf::host::Kind;

const KINDS: &[Kind] = &[];

/// All stock functions, in the order of their names.
pub fn kinds() -> &'static [Kind] {
    KINDS
}

/// The stock function called `name`.
pub fn find(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.descriptor.name == name)
}
