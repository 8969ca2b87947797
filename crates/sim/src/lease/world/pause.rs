//! Pauses of a process: it stands still, and messages wait for it.

/// Whether a process stands still, and the messages that wait, each with its sender's place.
#[derive(Clone, Debug)]
pub(super) struct Pause<T> {
    is_on: bool,
    stops: u32,
    waits: Vec<(usize, T)>,
}

impl<T> Pause<T> {
    pub(super) fn new() -> Pause<T> {
        Pause {
            is_on: false,
            stops: 0,
            waits: Vec::new(),
        }
    }

    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// The number of pauses so far.
    pub(super) fn stops(&self) -> u32 {
        self.stops
    }

    /// Begins a pause, and gives its number; `None` where one is on.
    pub(super) fn begin(&mut self) -> Option<u32> {
        if self.is_on {
            return None;
        }
        self.is_on = true;
        self.stops += 1;
        Some(self.stops)
    }

    /// Ends the pause of this number: the messages that have waited.
    pub(super) fn end(&mut self, stops: u32) -> Option<Vec<(usize, T)>> {
        if !self.is_on || self.stops != stops {
            return None;
        }
        self.is_on = false;
        Some(std::mem::take(&mut self.waits))
    }

    /// Has a message wait for the end of the pause.
    pub(super) fn keep(&mut self, place: usize, message: T) {
        self.waits.push((place, message));
    }

    /// The process has ended: nothing waits any more.
    pub(super) fn clear(&mut self) {
        self.is_on = false;
        self.waits.clear();
    }
}
