//! The book of a run's sets, as its server has it.

use std::sync::{Mutex, PoisonError};

use weir_graph::SetDefinition;

use crate::sets::{Book, SetCounts};

/// The book of a run's sets; one changes them at a time.
#[derive(Debug)]
pub(super) struct Sets {
    book: Mutex<Book>,
    /// Changes go to all processes in one order.
    pub(super) turn: tokio::sync::Mutex<()>,
}

impl Sets {
    pub(super) fn of(book: Book) -> Sets {
        Sets {
            book: Mutex::new(book),
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// Looks into the book, or changes it.
    pub(super) fn with<T>(&self, what: impl FnOnce(&mut Book) -> T) -> T {
        what(&mut self.book.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Names and counts of all sets.
    pub(super) fn counts(&self) -> Vec<(String, SetCounts)> {
        self.with(|book| {
            let numbers = book.numbers();
            let counts = numbers.map(|of| (of.definition.set.name.to_string(), of.counts));
            counts.collect()
        })
    }

    /// Why the sets of a changed file can't be taken.
    pub(super) fn refusals(&self, definitions: &[SetDefinition]) -> Vec<String> {
        self.with(|book| book.refusals(definitions))
    }
}
