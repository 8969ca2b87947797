//! The central way to move flows, for comparison with the distributed one: state and
//! packets of a moving flow pass through a controller that buffers them.
//!
//! This is OpenNF's loss-free and order-preserving move, with its optimisations *late
//! locking* (a flow's packets are held from when its own state is asked for, not from
//! the start of the whole move) and *early release* (they go on as soon as its own state
//! is in), in place of the way of [`weir_protocol::actors`], where the source sends the
//! state to the target itself. Benchmarks and this crate's tests use it.
//!
//! # Why it is a fair opponent
//!
//! Switch, actors and engine are the same and do not know of it. The driver (or the
//! simulator) leads what belongs to a moving unit through the controller, and nothing
//! else:
//!
//! | OpenNF | here |
//! |---|---|
//! | `enableEvents`, `getPerflow` at the source | the switch's [`Message::Closed`] passes through: apply up to c, then export |
//! | the source's events: packets that came after the export | the switch's frames of the new view, held here in the order of their clocks |
//! | `putPerflow` at the target | the switch's [`Message::Open`], held here until now, and the source's [`Message::State`] |
//! | buffered events are flushed to the target | the held frames, right behind |
//! | the forwarding rule changes | the unit's later frames are no longer held |
//!
//! OpenNF needs a second phase before the rule changes, as frames that come from the
//! switch may overtake those that come from the controller. Where the controller passes
//! frames on in the queue that the switch uses anyway ([`Controller::from_switch`] takes
//! them out of it, [`Controller::outbox`] puts them back), none can; where queues differ
//! the target puts them in order by their clocks, as it always does.
//!
//! The model leaves out costs of the original, and so is faster: nothing is encoded
//! as text, nothing waits for a rule of a hardware switch, packets are not copied.
//!
//! # Use
//!
//! After each call of the switch, and before anything of its outbox is carried out:
//! [`Controller::from_switch`]. Messages from runtime to runtime:
//! [`Controller::from_runtime`]. After both, [`Controller::outbox`] is carried out
//! *before* the switch's. Moves are asked for as ever (`Switch::move_units`), in mode
//! push.

#[cfg(test)]
mod moves;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use weir_packet::{Frame, FramePool};
use weir_protocol::message::{Open, Origin};
use weir_protocol::switch::{DataQueue, SwitchOutbox};
use weir_protocol::{Clock, Message, Peer, RuntimeId, UnitId, View};
use weir_telemetry::{Counts, labels};

labels! {
    /// Counters of a controller.
    pub enum Central: Counter<Times> {
        /// Units whose move began.
        Moves = "moves",
        /// Units whose state and packets went on to the target.
        Released = "released",
        /// Moves that another view of the unit ended before the state was here.
        Superseded = "superseded",
        /// Bytes of state that passed.
        StateBytes = "state_bytes",
        /// Packets held.
        Held = "held",
        /// Packets that were here already: the switch had sent them again.
        Duplicates = "duplicates",
        /// Packets not held because all places were taken: the switch sends them again.
        Overflowed = "overflowed",
        /// Held packets that went back because their move was superseded.
        Abandoned = "abandoned",
    }
}

/// Actions of a controller, in this order: messages, then frames.
#[derive(Debug, Default)]
pub struct CentralOutbox {
    /// From whom (as the receiver is to see it), to whom, what.
    pub messages: Vec<(Peer, Peer, Message)>,
    /// Held frames that go on, a queue per runtime.
    pub queues: Vec<DataQueue>,
}

/// A unit on its way.
#[derive(Debug)]
struct Moving {
    /// The switch's message to the target, in its last form.
    open: Open,
    to: RuntimeId,
    /// Frames of the new view in order of their clocks, until the state is here.
    held: VecDeque<(Clock, Frame)>,
    /// The state has been passed on.
    released: bool,
}

/// The controller: one for all units, so that everything passes through one place.
#[derive(Debug)]
pub struct Controller {
    /// Actions for the driver.
    pub outbox: CentralOutbox,
    /// By a unit's place: the view whose frames are held here; [`View::NONE`]: none's.
    /// One comparison per frame for all units that do not move.
    holding: Vec<View>,
    moving: BTreeMap<UnitId, Moving>,
    /// Units with frames held (or to be held).
    waiting: usize,
    held: u32,
    most_held: u32,
    /// Most frames held at once, in all.
    places: u32,
    /// Frames of the queue at hand, so that its memory is used again.
    scratch: Vec<Frame>,
    counts: Counts<Central>,
}

impl Controller {
    /// A controller that holds at most `places` packets at once, in all.
    pub fn new(places: u32) -> Controller {
        Controller {
            outbox: CentralOutbox::default(),
            holding: Vec::new(),
            moving: BTreeMap::new(),
            waiting: 0,
            held: 0,
            most_held: 0,
            places,
            scratch: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// The number of times that each event happened.
    pub fn counts(&self) -> &Counts<Central> {
        &self.counts
    }

    /// Packets held now.
    pub fn held(&self) -> u32 {
        self.held
    }

    /// Most packets that were held at once.
    pub fn most_held(&self) -> u32 {
        self.most_held
    }

    /// Takes out of the switch's outbox what belongs to moving units: orders to take
    /// over a state that is not here yet, and packets that come after it. All else
    /// stays there, in order.
    pub fn from_switch(&mut self, pool: &mut FramePool, outbox: &mut SwitchOutbox) {
        outbox.messages.retain(|(to, message)| match (to, message) {
            (Peer::Runtime(to), Message::Open(open)) => self.opens(pool, *to, open),
            (_, Message::Forget { unit, below, ended }) => {
                self.forgets(pool, *unit, *below, *ended);
                true
            }
            _ => true,
        });
        if self.waiting == 0 {
            return;
        }
        for queue in &mut outbox.queues {
            self.frames(pool, queue.to, &mut queue.frames);
        }
    }

    /// Takes frames that are to be held out of those on their way to `to`.
    pub fn frames(&mut self, pool: &mut FramePool, to: RuntimeId, frames: &mut Vec<Frame>) {
        if self.waiting == 0 {
            return;
        }
        let mut coming = core::mem::take(&mut self.scratch);
        core::mem::swap(frames, &mut coming);
        for frame in coming.drain(..) {
            let meta = pool.memory().meta(&frame);
            let holding = self.holding.get(UnitId(meta.unit).slot() as usize);
            let goes_on = holding.is_none_or(|view| *view == View::NONE || view.0 != meta.view);
            let frame = if goes_on {
                Some(frame)
            } else {
                self.hold(pool, to, frame)
            };
            frames.extend(frame);
        }
        self.scratch = coming;
    }

    /// A message from one runtime to another.
    pub fn from_runtime(&mut self, from: RuntimeId, to: RuntimeId, message: Message) {
        let ready = match &message {
            Message::State {
                unit, new, image, ..
            } => {
                let bytes = image.state.as_ref().map_or(0, Vec::len);
                self.counts.add_many(Central::StateBytes, bytes as u64);
                self.moving
                    .get(unit)
                    .is_some_and(|moving| {
                        moving.open.view == *new && moving.to == to && !moving.released
                    })
                    .then_some(*unit)
            }
            _ => None,
        };
        if let Some(unit) = ready {
            self.release(unit, (Peer::Runtime(from), message));
        } else {
            let way = (Peer::Runtime(from), Peer::Runtime(to));
            self.outbox.messages.push((way.0, way.1, message));
        }
    }

    /// A view opens; false where that is to be said later.
    fn opens(&mut self, pool: &mut FramePool, to: RuntimeId, open: &Open) -> bool {
        let known = self.moving.get_mut(&open.unit);
        if let Some(known) = known {
            if known.open.view == open.view {
                // Said again, with a later `out`.
                known.open = *open;
                return known.released;
            }
            if known.open.view > open.view {
                return true;
            }
            self.drop_move(pool, open.unit);
        }
        if !matches!(open.origin, Origin::Planned { .. }) {
            return true;
        }
        self.counts.add(Central::Moves);
        self.moving.insert(
            open.unit,
            Moving {
                open: *open,
                to,
                held: VecDeque::new(),
                released: false,
            },
        );
        let place = open.unit.slot() as usize;
        if self.holding.len() <= place {
            self.holding.resize(place + 1, View::NONE);
        }
        if let Some(view) = self.holding.get_mut(place) {
            *view = open.view;
        }
        self.waiting += 1;
        false
    }

    /// The switch says that views are over: a settled move need not be known any more.
    fn forgets(&mut self, pool: &mut FramePool, unit: UnitId, below: View, ended: bool) {
        let over = |moving: &Moving| {
            let settled = moving.released && below >= moving.open.view;
            settled || below > moving.open.view || ended
        };
        if self.moving.get(&unit).is_some_and(over) {
            self.drop_move(pool, unit);
        }
    }

    /// Holds a frame, or gives it back.
    fn hold(&mut self, pool: &mut FramePool, to: RuntimeId, frame: Frame) -> Option<Frame> {
        let meta = pool.memory().meta(&frame);
        let (unit, view, clock) = (UnitId(meta.unit), View(meta.view), Clock(meta.clock));
        let Some(moving) = self
            .moving
            .get_mut(&unit)
            .filter(|moving| !moving.released && moving.to == to && moving.open.view == view)
        else {
            return Some(frame);
        };
        let place = moving.held.partition_point(|(held, _)| *held < clock);
        if moving
            .held
            .get(place)
            .is_some_and(|(held, _)| *held == clock)
        {
            self.counts.add(Central::Duplicates);
            pool.give(frame);
        } else if self.held >= self.places {
            self.counts.add(Central::Overflowed);
            pool.give(frame);
        } else {
            moving.held.insert(place, (clock, frame));
            self.counts.add(Central::Held);
            self.held += 1;
            self.most_held = self.most_held.max(self.held);
        }
        None
    }

    /// The state is here: the target hears that it owns the unit, gets the state, and
    /// what came meanwhile.
    fn release(&mut self, unit: UnitId, (from, state): (Peer, Message)) {
        let Some(moving) = self.moving.get_mut(&unit) else {
            return;
        };
        moving.released = true;
        let to = Peer::Runtime(moving.to);
        let switch = Peer::Switch(moving.open.view.generation());
        let open = (switch, to, Message::Open(moving.open));
        self.outbox.messages.push(open);
        self.outbox.messages.push((from, to, state));
        self.held -= moving.held.len() as u32;
        let frames = moving.held.drain(..).map(|(_, frame)| frame);
        match self
            .outbox
            .queues
            .iter_mut()
            .find(|queue| queue.to == moving.to)
        {
            Some(queue) => queue.frames.extend(frames),
            None => self.outbox.queues.push(DataQueue {
                to: moving.to,
                frames: frames.collect(),
            }),
        }
        self.counts.add(Central::Released);
        self.stop_holding(unit);
    }

    /// Forgets a move, done or not.
    fn drop_move(&mut self, pool: &mut FramePool, unit: UnitId) {
        let Some(moving) = self.moving.remove(&unit) else {
            return;
        };
        if moving.released {
            return;
        }
        self.counts.add(Central::Superseded);
        self.counts
            .add_many(Central::Abandoned, moving.held.len() as u64);
        self.held -= moving.held.len() as u32;
        for (_, frame) in moving.held {
            pool.give(frame);
        }
        self.stop_holding(unit);
    }

    fn stop_holding(&mut self, unit: UnitId) {
        if let Some(view) = self.holding.get_mut(unit.slot() as usize) {
            *view = View::NONE;
        }
        self.waiting -= 1;
    }
}
