//! Named counts: what happened how often. Each transition and each failure
//! case of the protocol has one, so that a simulation can show that all of
//! them were reached.

/// Declares an enum of things to count, each with its name in reports.
macro_rules! countable {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant,)+ }

        impl $crate::counts::Countable for $name {
            const ALL: &'static [$name] = &[$($name::$variant,)+];

            fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)+ }
            }

            fn number(self) -> usize {
                self as usize
            }
        }
    };
}
pub(crate) use countable;

/// An enum of things to count.
pub trait Countable: Copy + 'static {
    /// All of them, in order of their numbers.
    const ALL: &'static [Self];

    /// Name in reports, `snake_case`.
    fn name(self) -> &'static str;

    /// From 0, dense.
    fn number(self) -> usize;
}

/// How often each of `K` happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts<K> {
    values: Vec<u64>,
    kind: core::marker::PhantomData<K>,
}

impl<K: Countable> Default for Counts<K> {
    fn default() -> Self {
        Counts {
            values: vec![0; K::ALL.len()],
            kind: core::marker::PhantomData,
        }
    }
}

impl<K: Countable> Counts<K> {
    /// One more.
    #[inline]
    pub fn add(&mut self, what: K) {
        self.add_many(what, 1);
    }

    /// `n` more.
    #[inline]
    pub fn add_many(&mut self, what: K, n: u64) {
        if let Some(value) = self.values.get_mut(what.number()) {
            *value += n;
        }
    }

    /// How often it happened.
    pub fn get(&self, what: K) -> u64 {
        self.values.get(what.number()).copied().unwrap_or(0)
    }

    /// All, those that never happened included.
    pub fn iter(&self) -> impl Iterator<Item = (K, u64)> + '_ {
        K::ALL.iter().copied().zip(self.values.iter().copied())
    }

    /// Adds another's counts.
    pub fn merge(&mut self, other: &Counts<K>) {
        for (mine, theirs) in self.values.iter_mut().zip(&other.values) {
            *mine += theirs;
        }
    }
}
