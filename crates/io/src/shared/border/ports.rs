//! A border between two stages: what is given to it and what is taken from it
//! may be on two threads, and a third one looks after it.
//!
//! They share it under a lock, which is taken once per burst.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use weir_packet::Frame;

use super::Border;
use crate::stage::{Pressure, Refused, StageInput, StageOutput};

/// A border that several threads have.
#[derive(Clone, Debug)]
pub struct SharedBorder(Arc<Mutex<Border>>);

impl SharedBorder {
    /// The border itself. A thread that died while it had it leaves it as it
    /// was: its parts are each whole at any time.
    pub fn lock(&self) -> MutexGuard<'_, Border> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end in front of a tenant.
#[derive(Debug)]
pub struct BorderOutput {
    border: SharedBorder,
    pressure: Pressure,
}

/// The end behind it.
#[derive(Debug)]
pub struct BorderInput(SharedBorder);

/// A border as ports between stages, and for who looks after it.
pub fn ports(border: Border) -> (BorderOutput, BorderInput, SharedBorder) {
    let border = SharedBorder(Arc::new(Mutex::new(border)));
    let output = BorderOutput {
        border: border.clone(),
        pressure: Pressure::default(),
    };
    (output, BorderInput(border.clone()), border)
}

impl StageOutput for BorderOutput {
    fn give(&mut self, frames: &mut Vec<Frame>) -> usize {
        if frames.is_empty() {
            return 0;
        }
        let offered = frames.len();
        let given = self.border.lock().give(frames, Instant::now());
        self.pressure.after(offered, given);
        given
    }

    fn room(&self) -> usize {
        self.border.lock().room()
    }

    fn is_gone(&self) -> bool {
        false
    }

    fn refused(&self) -> Refused {
        self.pressure.refused()
    }
}

impl Drop for BorderOutput {
    fn drop(&mut self) {
        self.border.lock().close();
    }
}

impl StageInput for BorderInput {
    fn take(&mut self, into: &mut Vec<Frame>, max: usize) -> usize {
        self.0.lock().take(into, max)
    }

    fn waiting(&self) -> usize {
        self.0.lock().waiting()
    }

    fn is_over(&self) -> bool {
        self.0.lock().is_over()
    }
}
