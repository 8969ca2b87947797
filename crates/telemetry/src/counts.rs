//! Enums whose variants are counted: reasons of drops, things that happen.

use crate::Entry;

/// An enum whose variants are counted; [`labels!`](crate::labels) implements it.
pub trait Label: Copy + core::fmt::Debug + PartialEq + 'static {
    /// An array with one counter per variant.
    type Values: Clone + core::fmt::Debug + PartialEq + AsRef<[u64]> + AsMut<[u64]>;
    /// All counters at 0.
    const ZERO: Self::Values;
    /// All variants, in the order of their indices.
    const ALL: &'static [Self];
    /// Descriptions, in the order of the labels.
    const TABLE: &'static [Entry];

    /// From 0, dense.
    fn index(self) -> usize;

    /// Its description.
    fn entry(self) -> &'static Entry {
        &Self::TABLE[self.index()]
    }

    /// Name in reports, `snake_case`.
    fn name(self) -> &'static str {
        self.entry().name()
    }

    /// Its meaning, in a sentence for operators.
    fn meaning(self) -> &'static str {
        self.entry().meaning()
    }

    /// All names.
    fn names() -> impl Iterator<Item = &'static str> {
        Self::TABLE.iter().map(Entry::name)
    }

    /// The variant with this index.
    fn at(index: usize) -> Option<Self> {
        Self::ALL.get(index).copied()
    }

    /// The variant of this name.
    fn named(name: &str) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|label| label.name() == name)
    }
}

/// How often each of `K` was counted.
#[derive(Clone, PartialEq, Eq)]
pub struct Counts<K: Label> {
    values: K::Values,
}

impl<K: Label> Default for Counts<K> {
    fn default() -> Self {
        Counts { values: K::ZERO }
    }
}

impl<K: Label> Counts<K> {
    /// One more.
    #[inline]
    pub fn add(&mut self, what: K) {
        self.add_many(what, 1);
    }

    /// `n` more.
    #[inline]
    pub fn add_many(&mut self, what: K, n: u64) {
        let values = self.values.as_mut();
        if let Some(value) = values.get_mut(what.index()) {
            *value = value.wrapping_add(n);
        }
    }

    /// Replaces a count, where something else has counted.
    pub fn set(&mut self, what: K, n: u64) {
        self.values.as_mut()[what.index()] = n;
    }

    /// How often it was counted.
    #[inline]
    pub fn get(&self, what: K) -> u64 {
        self.values.as_ref()[what.index()]
    }

    /// The numbers, in the order of the indices.
    #[inline]
    pub fn values(&self) -> &[u64] {
        self.values.as_ref()
    }

    /// All, those that were never counted included.
    pub fn iter(&self) -> impl Iterator<Item = (K, u64)> + '_ {
        let values = self.values.as_ref().iter().copied();
        K::ALL.iter().copied().zip(values)
    }

    /// Those that were counted.
    pub fn counted(&self) -> impl Iterator<Item = (K, u64)> + '_ {
        self.iter().filter(|(_, n)| *n > 0)
    }

    /// Those that were counted, by their names.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.counted().map(|(what, n)| (what.name(), n))
    }

    /// All together, at most what a number holds.
    pub fn sum(&self) -> u64 {
        let values = self.values.as_ref().iter();
        values.fold(0, |sum, n| sum.saturating_add(*n))
    }

    /// Adds another's counts, each at most to what a number holds.
    pub fn merge(&mut self, other: &Counts<K>) {
        let values = self.values.as_mut().iter_mut();
        for (mine, theirs) in values.zip(other.values.as_ref()) {
            *mine = mine.saturating_add(*theirs);
        }
    }
}

/// Shows those that were counted, by name.
impl<K: Label> core::fmt::Debug for Counts<K> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_map().entries(self.named()).finish()
    }
}

/// Equal to a list of all that were counted, in the order of their indices.
impl<K: Label, const N: usize> PartialEq<[(K, u64); N]> for Counts<K> {
    fn eq(&self, other: &[(K, u64); N]) -> bool {
        self.counted().eq(other.iter().copied())
    }
}

impl<K: Label> FromIterator<(K, u64)> for Counts<K> {
    fn from_iter<I: IntoIterator<Item = (K, u64)>>(counts: I) -> Counts<K> {
        let mut all = Counts::default();
        for (what, n) in counts {
            all.add_many(what, n);
        }
        all
    }
}

/// Declares an enum whose variants are counted.
///
/// ```
/// weir_telemetry::labels! {
///     /// Why a port lost a packet.
///     pub enum Lost: Counter<Packets> {
///         /// The queue was full.
///         Full = "full",
///         /// Octets that did not fit.
///         Cut = "cut": Counter<Bytes>,
///     }
/// }
/// use weir_telemetry::Counts;
///
/// let mut lost = Counts::<Lost>::default();
/// lost.add(Lost::Full);
/// assert_eq!(lost.named().collect::<Vec<_>>(), [("full", 1)]);
/// assert_eq!(Lost::Full.meaning(), "The queue was full.");
/// ```
#[macro_export]
macro_rules! labels {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident : $kind:ident < $unit:ident > {
            $(
                $(#[doc = $doc:literal])+
                $variant:ident = $text:literal $(: $own_kind:ident < $own_unit:ident >)?,
            )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $vis enum $name {
            $($(#[doc = $doc])+ $variant,)+
        }

        #[allow(dead_code)]
        impl $name {
            /// The name under which it is counted, `snake_case`.
            $vis const fn name(self) -> &'static str {
                <$name as $crate::Label>::TABLE[self as usize].name()
            }

            /// Its meaning, in a sentence for operators.
            $vis const fn meaning(self) -> &'static str {
                <$name as $crate::Label>::TABLE[self as usize].meaning()
            }
        }

        impl $crate::Label for $name {
            type Values = [u64; [$($text),+].len()];
            const ZERO: Self::Values = [0; [$($text),+].len()];
            const ALL: &'static [$name] = &[$($name::$variant),+];
            const TABLE: &'static [$crate::Entry] = &[$(
                $crate::entry!(
                    $text, concat!($($doc),+), $($own_kind, $own_unit;)? $kind, $unit
                ),
            )+];

            #[inline(always)]
            fn index(self) -> usize {
                self as usize
            }
        }

        const _: () = assert!(
            $crate::check(<$name as $crate::Label>::TABLE),
            concat!("the table of ", stringify!($name), " breaks a rule of weir_telemetry::check"),
        );
    };
}

/// An entry of a table: the kind and unit given first count.
#[doc(hidden)]
#[macro_export]
macro_rules! entry {
    ($name:expr, $doc:expr, $kind:ident, $unit:ident $(; $($default:tt)*)?) => {
        $crate::Entry::new($name, $crate::Kind::$kind, $crate::Unit::$unit, $doc)
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Unit};

    labels! {
        /// State of a letter.
        enum Letter: Counter<Messages> {
            /// It came
            /// to its reader.
            Read = "read",
            /// It lies in a box.
            Waiting = "waiting": Gauge<Messages>,
            /// Its octets.
            Length = "length": Counter<Bytes>,
        }
    }

    #[test]
    fn the_table_is_the_declaration() {
        assert_eq!(Letter::Read.meaning(), "It came to its reader.");
        let kinds: Vec<_> = Letter::TABLE.iter().map(|e| (e.kind(), e.unit())).collect();
        assert_eq!(
            kinds,
            [
                (Kind::Counter, Unit::Messages),
                (Kind::Gauge, Unit::Messages),
                (Kind::Counter, Unit::Bytes)
            ]
        );
        for (index, letter) in Letter::ALL.iter().enumerate() {
            assert_eq!(letter.index(), index);
            assert_eq!(Letter::at(index), Some(*letter));
            assert_eq!(Letter::named(letter.name()), Some(*letter));
        }
        assert_eq!((Letter::at(3), Letter::named("lost")), (None, None));
    }

    #[test]
    fn counts_add_up_by_label() {
        let mut counts = Counts::<Letter>::default();
        counts.add(Letter::Length);
        counts.add_many(Letter::Length, u64::MAX - 2);
        let more = Counts::from_iter([(Letter::Length, 5), (Letter::Read, 1)]);
        counts.merge(&more);
        assert_eq!(counts.get(Letter::Length), u64::MAX);
        assert_eq!(counts.sum(), u64::MAX);
        assert_eq!(counts.named().next(), Some(("read", 1)));
        assert_eq!(counts.get(Letter::Waiting), 0);
        assert_eq!(counts, [(Letter::Read, 1), (Letter::Length, u64::MAX)]);
        assert_ne!(counts, [(Letter::Read, 1)]);
        assert_eq!(counts.iter().count(), 3);
        counts.set(Letter::Length, 2);
        assert_eq!(format!("{counts:?}"), r#"{"read": 1, "length": 2}"#);
    }
}
