//! A death that is to come.

use weir_packet::Frame;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doom {
    /// Frames and messages that the runtime still says, once it is there.
    pub(super) says: usize,
    pub(super) is_due: bool,
    /// When the switch hears of it, and when another one starts.
    pub(super) notice: u64,
    pub(super) restart: Option<u64>,
}

impl Doom {
    /// The frames that the runtime can't say any more: they stay in its hands.
    pub(super) fn cut(&mut self, frames: &mut Vec<Frame>) -> Vec<Frame> {
        if !self.is_due {
            return Vec::new();
        }
        let says = self.says.min(frames.len());
        self.says -= says;
        frames.split_off(says)
    }

    /// True where the runtime still says one more message. Once it lacks the time for one it
    /// says nothing more.
    pub(super) fn may_say(&mut self) -> bool {
        let may = !self.is_due || self.says > 0;
        self.says = self.says.saturating_sub(usize::from(self.is_due));
        may
    }
}
