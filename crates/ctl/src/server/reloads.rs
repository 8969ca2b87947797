//! The configuration of a run as its server has it, and the changes that were asked for.

use std::sync::{Arc, Mutex as Lock, PoisonError};

use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::configuration::Configuration;

weir_telemetry::counters! {
    /// Changes of the configuration that were asked for.
    #[derive(Clone, Debug, Default)]
    pub(super) struct ReloadCounts {
        /// Changes of the configuration that were taken.
        pub(super) reloads: Counter<Times>,
        /// Those that were refused: a file was wrong, or a restart is needed.
        pub(super) reloads_refused: Counter<Times>,
    }
}

/// `None` where this way of running takes no other configuration.
pub(super) type Place = Option<Box<dyn Configuration>>;

/// The configuration of a run, which changes once at a time.
#[derive(Debug)]
pub(super) struct Reloads {
    configuration: Arc<Mutex<Place>>,
    counts: Lock<ReloadCounts>,
}

impl Reloads {
    pub(super) fn of(configuration: Place) -> Reloads {
        Reloads {
            configuration: Arc::new(Mutex::new(configuration)),
            counts: Lock::default(),
        }
    }

    pub(super) fn counts(&self) -> ReloadCounts {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.clone()
    }

    pub(super) fn count(&self, what: impl FnOnce(&mut ReloadCounts)) {
        what(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The configuration, once nobody else changes it.
    pub(super) async fn place(&self) -> OwnedMutexGuard<Place> {
        Arc::clone(&self.configuration).lock_owned().await
    }

    /// Tells the operator where nobody waits for an answer.
    pub(super) async fn tell(&self, text: &str) {
        if let Some(configuration) = &*self.configuration.lock().await {
            configuration.tell(text);
        }
    }
}
