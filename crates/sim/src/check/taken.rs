//! Packets that a restarted switch took for applied, although no switch has let them out.

use weir_protocol::View;
use weir_protocol::message::{Entry, Part};

use super::numbered::Numbered;

/// The packets of a unit that are taken, until something is let out after the restart.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    /// The state of the reference when the last entry was let out.
    pub(crate) state: Option<Vec<u8>>,
    /// The clock of that entry.
    pub(crate) out: u64,
    /// The packets after it.
    pub(crate) applied: Vec<TakenPacket>,
}

impl Taken {
    /// Somebody has made this of a number, perhaps of one of those.
    pub(crate) fn note(&mut self, view: View, made: &Entry) {
        let place = made.clock.0.checked_sub(self.out + 1);
        let packet = place.and_then(|place| self.applied.get_mut(place as usize));
        if let Some(packet) = packet {
            packet.note(view, made);
        }
    }
}

/// A packet of those.
#[derive(Clone, Debug)]
pub(crate) struct TakenPacket {
    known: Numbered,
    /// What was made of it, by view. One owner may have had the packet where another was told
    /// that it is lost, and the next restart may take the other one's claim.
    made_in: Vec<(View, Entry)>,
    /// What is taken for applied, and what was made of it.
    pub(crate) part: Part,
    pub(crate) made: Entry,
    /// Views in which it was lost after all, and with them in those that go on from them.
    pub(crate) lost: Vec<View>,
}

impl TakenPacket {
    /// The packet as view `of` has it; `None` where nobody applied it in that view. `origin`
    /// gives the view from which one goes on.
    pub(crate) fn new(
        origin: impl Fn(View) -> Option<View>,
        of: View,
        known: Numbered,
        made_in: Vec<(View, Entry)>,
    ) -> Option<TakenPacket> {
        let made = made_of(origin, of, &made_in)?.clone();
        Some(TakenPacket {
            part: known.applied(&made)?,
            known,
            made_in,
            made,
            lost: Vec::new(),
        })
    }

    /// Somebody has made this of it.
    fn note(&mut self, view: View, made: &Entry) {
        if self.made_in.iter().all(|(of, _)| *of != view) {
            self.made_in.push((view, made.clone()));
        }
    }

    /// Another claim is taken: the packet is what the owner of view `of` had. True where
    /// another entry than before was made of it.
    pub(crate) fn take_of(&mut self, origin: impl Fn(View) -> Option<View>, of: View) -> bool {
        let made = made_of(origin, of, &self.made_in);
        let other = made.filter(|made| **made != self.made);
        let Some((part, made)) = other.and_then(|made| Some((self.known.applied(made)?, made)))
        else {
            return false;
        };
        self.made = made.clone();
        self.part = part;
        true
    }
}

/// What was made in a view, or in one that it goes on from.
fn made_of(
    origin: impl Fn(View) -> Option<View>,
    of: View,
    made_in: &[(View, Entry)],
) -> Option<&Entry> {
    let mut views = std::iter::successors(Some(of), |view| origin(*view));
    views.find_map(|view| Some(&made_in.iter().find(|(of, _)| *of == view)?.1))
}
