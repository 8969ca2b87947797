//! Named sets of addresses that change while packets flow (docs/sets.md).

use core::fmt;
use std::sync::Arc;

use weir_packet::AddressSet;

/// A set of a chain file. Clones are the same set.
#[derive(Clone)]
pub struct NamedSet {
    /// Its name.
    pub name: Arc<str>,
    /// What is in it at the moment.
    pub set: Arc<AddressSet>,
}

/// The name alone: what is in it changes.
impl fmt::Debug for NamedSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.name)
    }
}

/// The sets of a chain file, in its order. Clones share them: all engines of a process look into
/// the same ones.
#[derive(Clone, Default)]
pub struct Sets(Arc<[NamedSet]>);

impl fmt::Debug for Sets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter()).finish()
    }
}

impl FromIterator<NamedSet> for Sets {
    fn from_iter<I: IntoIterator<Item = NamedSet>>(sets: I) -> Sets {
        Sets(sets.into_iter().collect())
    }
}

impl Sets {
    /// All, in order.
    pub fn iter(&self) -> core::slice::Iter<'_, NamedSet> {
        self.0.iter()
    }

    /// The set of this number.
    pub fn get(&self, number: usize) -> Option<&NamedSet> {
        self.0.get(number)
    }

    /// The set of this name.
    pub fn named(&self, name: &str) -> Option<&NamedSet> {
        self.0.iter().find(|set| *set.name == *name)
    }

    /// True where there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
