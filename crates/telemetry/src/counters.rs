//! Structs whose fields are counters.

use crate::Entry;

/// A struct of counters; [`counters!`](crate::counters!) implements it.
pub trait Counters {
    /// Descriptions of the fields, in their order.
    const TABLE: &'static [Entry];

    /// The fields, in the order of the table.
    fn values(&self) -> Vec<u64>;

    /// The fields, to be written.
    fn values_mut(&mut self) -> Vec<&mut u64>;

    /// Each field with what is said of it.
    fn entries(&self) -> impl Iterator<Item = (&'static Entry, u64)> {
        Self::TABLE.iter().zip(self.values())
    }

    /// Adds another's counters, each at most to what a number holds.
    fn add_counters(&mut self, other: &Self) {
        for (mine, theirs) in self.values_mut().into_iter().zip(other.values()) {
            *mine = mine.saturating_add(theirs);
        }
    }

    /// Takes values in the order of the table; false, and nothing is taken, where
    /// there are more or fewer of them.
    fn set_values(&mut self, values: &[u64]) -> bool {
        let all = values.len() == Self::TABLE.len();
        if all {
            for (mine, value) in self.values_mut().into_iter().zip(values) {
                *mine = *value;
            }
        }
        all
    }
}

/// Declares a struct of counters: `u64` fields with kind, unit and meaning.
///
/// A Prometheus name that the rule of [`Entry::metric`] does not give follows `as`.
/// Fields behind `and` are no counters. With `fields NAME` the list of counters is
/// exported as a macro: `NAME!(CALLBACK { ARGUMENTS })` expands to
/// `CALLBACK! { ARGUMENTS; FIELDS… }`, for types of others that have the same fields.
///
/// ```
/// weir_telemetry::counters! {
///     /// What a port counted.
///     #[derive(Clone, Debug, Default)]
///     pub struct Port {
///         /// Packets that came in.
///         pub packets: Counter<Packets>,
///         /// Packets in the queue now.
///         pub queued: Gauge<Packets> as "port_queue_packets",
///     } and {
///         /// Its name.
///         pub name: String,
///     }
/// }
/// use weir_telemetry::Counters;
///
/// let port = Port { packets: 2, ..Port::default() };
/// let shown: Vec<_> = port.entries().map(|(e, n)| (e.metric("port"), n)).collect();
/// assert_eq!(shown[0], ("port_packets_total".to_owned(), 2));
/// assert_eq!(shown[1], ("port_queue_packets".to_owned(), 0));
/// ```
#[macro_export]
macro_rules! counters {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident $(fields $list:ident)? {
            $(
                $(#[doc = $doc:literal])+
                $fvis:vis $field:ident : $kind:ident < $unit:ident > $(as $metric:literal)?,
            )+
        } $(and { $($rest:tt)* })?
    ) => {
        $(#[$meta])*
        $vis struct $name {
            $($(#[doc = $doc])+ $fvis $field: u64,)+
            $($($rest)*)?
        }

        impl $crate::Counters for $name {
            const TABLE: &'static [$crate::Entry] = &[$(
                $crate::entry!(stringify!($field), concat!($($doc),+), $kind, $unit)
                    $(.called($metric))?,
            )+];

            fn values(&self) -> Vec<u64> {
                vec![$(self.$field),+]
            }

            fn values_mut(&mut self) -> Vec<&mut u64> {
                vec![$(&mut self.$field),+]
            }
        }

        const _: () = assert!(
            $crate::check(<$name as $crate::Counters>::TABLE),
            concat!("the table of ", stringify!($name), " breaks a rule of weir_telemetry::check"),
        );

        $crate::export_fields! { ($) [$($list)?] $($field)+ }
    };
}

/// Makes the macro that hands a list of fields on.
#[doc(hidden)]
#[macro_export]
macro_rules! export_fields {
    (($dollar:tt) [] $($field:ident)+) => {};
    (($dollar:tt) [$list:ident] $($field:ident)+) => {
        /// Hands the names of these counters to another macro.
        #[macro_export]
        macro_rules! $list {
            ($dollar callback:ident { $dollar($dollar args:tt)* }) => {
                $dollar callback! { $dollar($dollar args)*; $($field)+ }
            };
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    counters! {
        /// Counts of a shelf.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        struct Shelf {
            /// Books that were put there.
            put: Counter<Times>,
            /// Books there now.
            books: Gauge<Times> as "shelf_size",
        } and {
            room: &'static str,
        }
    }

    #[test]
    fn values_follow_the_table() {
        let mut shelf = Shelf {
            put: 3,
            books: 2,
            room: "hall",
        };
        shelf.add_counters(&Shelf {
            put: u64::MAX,
            books: 1,
            room: "yard",
        });
        assert_eq!(
            shelf,
            Shelf {
                put: u64::MAX,
                books: 3,
                room: "hall"
            }
        );
        assert!(!shelf.set_values(&[1]), "a value is missing");
        assert!(shelf.set_values(&[1, 7]));
        let shown: Vec<_> = shelf
            .entries()
            .map(|(e, n)| (e.metric("shelf"), n))
            .collect();
        assert_eq!(
            shown,
            [
                ("shelf_put_total".to_owned(), 1),
                ("shelf_size".to_owned(), 7)
            ]
        );
    }
}
