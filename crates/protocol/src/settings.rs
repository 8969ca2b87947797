//! Settings of a switch and of a runtime's actors, from their driver.

use crate::flowlets::FlowletSettings;
use crate::ids::RuntimeId;
use crate::plant::Plant;

/// Default of `repeat_within`: 1 ms, for a thread may well not run for so long;
/// and 100 ms, for one process that does not answer delays the repetitions for
/// all.
const REPEAT_WITHIN: (u64, u64) = (1_000_000, 100_000_000);

/// When a replica gets the state (design §7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replication {
    /// Never: a death loses the owner's units. Moves stay exact.
    #[default]
    None,
    /// With each burst, before its outputs leave.
    EachBurst,
    /// Every so many packets (at least 2), at closes, and when a while has passed
    /// since the first of them. Outputs leave at once; the switch keeps the
    /// packets whose effects no replica holds, and a new owner applies them again
    /// without output. See [`Replication::for_chain`].
    Every(u32),
}

impl Replication {
    /// The replication that a chain gets. Packets are applied again only where that
    /// gives the same state (`is_replayable`: no function takes what flows share)
    /// and where the switch keeps copies of them: otherwise each burst is
    /// replicated, which loses nothing either.
    pub const fn for_chain(self, is_replayable: bool, kept: u32) -> Replication {
        match self {
            Replication::Every(n) if n < 2 || !is_replayable || kept == 0 => Replication::EachBurst,
            other => other,
        }
    }

    /// Packets from one state to the next; 0 where each burst has one, or none.
    pub(crate) const fn period(self) -> u32 {
        match self {
            Replication::Every(n) => n,
            Replication::None | Replication::EachBurst => 0,
        }
    }
}

impl core::fmt::Display for Replication {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Replication::None => f.write_str("none"),
            Replication::EachBurst => f.write_str("each-burst"),
            Replication::Every(n) => write!(f, "every-{n}"),
        }
    }
}

impl core::str::FromStr for Replication {
    type Err = String;

    /// `none`, `each-burst`, or `every-` and a number from 2 on.
    fn from_str(text: &str) -> Result<Replication, String> {
        match text {
            "none" => Ok(Replication::None),
            "each-burst" => Ok(Replication::EachBurst),
            _ => {
                let number = text.strip_prefix("every-").and_then(|n| n.parse().ok());
                let number = number.filter(|n| *n >= 2);
                number.map(Replication::Every).ok_or_else(|| {
                    "there are none, each-burst, and every-N with N from 2 on".to_owned()
                })
            }
        }
    }
}

/// How a switch gives new units to runtimes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dispatch {
    /// In turn.
    #[default]
    RoundRobin,
    /// To the one with the fewest units.
    LeastLoaded,
    /// By a hash of the unit's key: the same unit goes to the same runtime
    /// while the set of runtimes stays.
    Hash,
}

/// Settings of a switch. Times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct SwitchSettings {
    /// Its generation: higher than that of any switch before it, from 1.
    pub generation: u16,
    /// See [`Replication`].
    pub replication: Replication,
    /// See [`Dispatch`].
    pub dispatch: Dispatch,
    /// Units are given to runtimes anew at each flowlet, by load, instead of by `dispatch`.
    pub flowlets: Option<FlowletSettings>,
    /// Packets kept for repeating, in all. When they are used up, packets are
    /// dropped before they are numbered (`unacked_full`). 0 keeps none: what
    /// is lost on the way is replaced by `Lost`.
    pub kept: u32,
    /// Most views open and not settled.
    pub window: u32,
    /// Time after which what was not answered is sent again, before a round trip
    /// was measured: from then on ten round trips.
    pub repeat_after: u64,
    /// Shortest and longest such time, once there is a measurement. Without an
    /// answer the time doubles with each round of repetitions.
    pub repeat_within: (u64, u64),
    /// Packets of unknown units held while a restarted switch gathers claims.
    pub recovery_held: u32,
    /// Pieces of a runtime's answer that a restarted switch asks for at a time: neither the queues
    /// between them nor the time in which a runtime says nothing else grow with its units.
    pub pieces: u32,
    /// Frames of the switch's pool that are left for entries: no copy of a packet
    /// is kept while twice as many are free or fewer, no tick numbered and
    /// nothing repeated while as many are.
    pub reserve: u32,
    /// Tells owners and replicas what was let out. Needed where they keep
    /// outputs ([`ActorSettings::keep_outputs`]). Off only where the path is
    /// [lossless](SwitchSettings::lossless).
    pub acknowledge: bool,
    /// The paths to runtimes lose nothing but by a death: what a runtime misses is on its way.
    /// The path is not measured. Packets, and what opens and ends views and units, are sent again
    /// as a last resort alone, after [`LAST_RESORT`] times as long.
    pub lossless: bool,
    /// A planted bug.
    pub plant: Option<Plant>,
}

impl Default for SwitchSettings {
    fn default() -> SwitchSettings {
        SwitchSettings {
            generation: 1,
            replication: Replication::None,
            dispatch: Dispatch::RoundRobin,
            flowlets: None,
            kept: 16_384,
            window: 1_000,
            repeat_after: 10_000_000,
            repeat_within: REPEAT_WITHIN,
            recovery_held: 4_096,
            pieces: 64,
            reserve: 64,
            acknowledge: true,
            lossless: false,
            plant: None,
        }
    }
}

/// Settings of a runtime's actors. Times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct ActorSettings {
    /// The runtime's id: one start of a process.
    pub id: RuntimeId,
    /// It is a logger: it keeps copies of the units of all runtimes, and owns none. Its
    /// engine gets no packet and has no flow; it reads names out of states.
    pub is_logger: bool,
    /// Packets held in all for units whose state is not there yet. When they
    /// are used up, the copies of the flow that holds most go first: the
    /// switch sends them again.
    pub held: u32,
    /// Keeps outputs until the switch says that they were let out. May be off
    /// only where the path to the switch loses nothing and dies with it (rings
    /// in one process).
    pub keep_outputs: bool,
    /// The driver keeps data frames that [`crate::Actors::frames`] leaves, and gives them again:
    /// no packet is taken that the pool has no frames for. Off where the driver can't wait, and
    /// packets are repeated.
    pub waits: bool,
    /// As in [`SwitchSettings::lossless`]. Packets that nobody has asked for yet are held
    /// until somebody does: nobody would send them again.
    pub lossless: bool,
    /// Time after which what was not answered is sent again, before a round trip
    /// was measured: from then on ten round trips.
    pub repeat_after: u64,
    /// Shortest and longest such time, once there is a measurement. Without an
    /// answer the time doubles with each round of repetitions.
    pub repeat_within: (u64, u64),
    /// Bytes of outputs in one message, at most; one entry that is longer goes
    /// alone.
    pub longest: usize,
    /// Bytes of a unit's outputs that one repetition sends, at most.
    pub at_once: usize,
    /// Bytes of one entry and of a unit's state, at most: an entry that is longer
    /// loses its emitted packets (`emitted_too_long`), a unit whose state is
    /// longer stays where it is, without replica (`state_too_long`).
    pub most: usize,
    /// Bytes of states that were sent ahead of flowlets ([`crate::Message::Ahead`]), at most;
    /// the oldest go first.
    pub ahead: usize,
    /// A planted bug.
    pub plant: Option<Plant>,
}

/// How much longer than other things a packet is waited for on a path that loses nothing: it
/// may well queue for long, and to send it again would make the queue longer.
pub const LAST_RESORT: u64 = 100;

/// See [`ActorSettings::longest`].
const LONGEST: usize = 1 << 20;
/// See [`ActorSettings::at_once`].
const AT_ONCE: usize = 4 << 20;
/// See [`ActorSettings::most`].
const MOST: usize = 4 << 20;
/// See [`ActorSettings::ahead`].
const AHEAD: usize = 64 << 20;
/// Bytes of messages' forms beside outputs and states.
const FORMS: usize = 64 << 10;

// Messages sent at once fit into a stream whose queue is empty, and each
// message of it is one that a stream takes.
const _: () = {
    let stream = crate::stream::StreamSettings::DEFAULT;
    assert!(LONGEST <= MOST, "an entry may go alone");
    assert!(2 * MOST + FORMS <= stream.longest, "an entry with a state");
    assert!(AT_ONCE + 2 * MOST + FORMS <= stream.queue, "one repetition");
};

impl Default for ActorSettings {
    fn default() -> ActorSettings {
        ActorSettings {
            id: RuntimeId(0),
            is_logger: false,
            held: 4_096,
            keep_outputs: true,
            waits: false,
            lossless: false,
            repeat_after: 10_000_000,
            repeat_within: REPEAT_WITHIN,
            longest: LONGEST,
            at_once: AT_ONCE,
            most: MOST,
            ahead: AHEAD,
            plant: None,
        }
    }
}
