//! Messages between processes, beside data frames.
//!
//! Messages are idempotent: each may come twice, late, or from a process that
//! is thought dead. Over rings they travel as they are; between processes they
//! are encoded and ride on reliable streams. Batches of many units share a
//! frame there.

use weir_nf::host::AliasRequest;
use weir_nf::{PoolId, PortLease};
use weir_packet::{Disposition, FlowKey, LinkType, Side, Time};

use crate::delta::FORM;
use crate::ids::{Clock, RuntimeId, UnitId, View};

/// The source of a new view's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// There is none: the unit's first view, or, with `after_loss`, the first
    /// one after all its holders died.
    Nothing {
        /// The flow may be in the middle of a connection.
        after_loss: bool,
    },
    /// Planned: `source` applies up to the base in view `old`, then sends.
    Planned {
        /// Owner of the last settled view.
        source: RuntimeId,
    },
    /// After a failure: the new owner resumes from its own actor of view `old`
    /// (as owner or replica), or from that of a logger, `source`.
    Resumed {
        /// Owner or replica of the last settled view: the new owner or a logger.
        source: RuntimeId,
    },
}

/// A view is open (switch → its owner), repeated until it is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// The unit.
    pub unit: UnitId,
    /// The new view.
    pub view: View,
    /// The last settled view; [`View::NONE`] where there was none.
    pub old: View,
    /// Packets after this clock belong to the view.
    pub base: Clock,
    /// Last clock let out when the message was sent: outputs up to it are
    /// done with.
    pub out: Clock,
    /// How the owner comes by the state.
    pub origin: Origin,
    /// The runtime that keeps a copy from now on.
    pub replica: Option<RuntimeId>,
    /// Packets from one state for the replica to the next
    /// ([`crate::settings::Replication::Every`]); the outputs go to the switch
    /// directly then. 0: each burst's state and outputs go to the replica, which
    /// passes the outputs on.
    pub every: u32,
}

/// How a planned move brings the state to the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MoveMode {
    /// The source sends as soon as it has applied the base (NFActor).
    #[default]
    Push,
    /// The target asks first.
    Pull,
    /// The source sends an early snapshot, then copies of the packets that
    /// change state, which the target applies without output (OpenNF+).
    Reprocess,
}

/// One thing that a packet caused: the packet as it left, an emitted packet,
/// or notes ([`weir_runtime::notes`]); or that it was dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its kind.
    pub disposition: Disposition,
    /// Ingress time of the packet.
    pub time: Time,
    /// Ingress number of the packet.
    pub sequence: u64,
    /// Flags ([`weir_packet::frame_flags`]).
    pub flags: u8,
    /// Side of the ingress port.
    pub side: Side,
    /// Ingress port.
    pub port: u8,
    /// How the bytes begin.
    pub link: LinkType,
    /// Link type as its capture file names it.
    pub dlt: u16,
    /// Bytes the packet had on the wire.
    pub wire_len: u32,
    /// Functions that the packet has passed ([`weir_packet::FrameMeta::path`]).
    pub path: u32,
    /// The bytes; none of a packet that was dropped.
    pub bytes: Vec<u8>,
}

/// Everything one packet caused: design §7's entry, without its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The packet's number.
    pub clock: Clock,
    /// Side parts first, the packet's own part last.
    pub parts: Vec<Part>,
}

/// Bytes of a part's form beside its packet.
const PART: usize = 35;
/// Bytes of an entry's form beside its parts: its clock and their number.
const ENTRY: usize = 12;

impl Entry {
    /// Bytes that it takes in a message.
    pub fn wire_len(&self) -> usize {
        let parts = self.parts.iter();
        ENTRY + parts.map(|part| PART + part.bytes.len()).sum::<usize>()
    }
}

/// Octets of a state that have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The first one's place.
    pub at: u32,
    /// Their new content.
    pub bytes: Vec<u8>,
}

/// The change of a unit's state by the packets of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateUpdate {
    /// Said by a replica to the switch: the state stays with the replica.
    Omitted,
    /// No function changed its state. The engine's part (flows' times,
    /// phase) changed: [`weir_runtime::Runtime::export_touch`].
    Touched(Vec<u8>),
    /// The whole state after the batch's last packet:
    /// [`weir_runtime::Runtime::export_unit`]; `None` where nothing is left.
    Full(Option<Vec<u8>>),
    /// The state after the batch's last packet, as changes of the one that the owner
    /// said last.
    Delta {
        /// The clock of that one.
        from: Clock,
        /// The changes, in order.
        changes: Vec<Change>,
    },
    /// As `Full`, and the batch has all entries of the view that are not known
    /// to be let out: what a replica may begin with. With less it would say
    /// that it holds the view, and could not go on where its owner dies.
    Whole(Option<Vec<u8>>),
    /// The same, but entries after `since` and before those of the batch went
    /// ahead of it, as [`Message::Outputs`]: all of them were too long for one
    /// message.
    Rest {
        /// The entries that are not known to be let out begin after this clock.
        since: Clock,
        /// The whole state.
        state: Option<Vec<u8>>,
    },
    /// As `Rest`, and the owner itself tells the switch its outputs: the replica
    /// keeps them, and says up to where it holds the state
    /// ([`Message::Stored`]).
    Apart {
        /// The entries that are not known to be let out begin after this clock.
        since: Clock,
        /// The whole state.
        state: Option<Vec<u8>>,
    },
}

/// Entries of consecutive clocks of one unit: owner → replica → switch, or
/// owner → switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryBatch {
    /// The unit.
    pub unit: UnitId,
    /// The view in which the packets were applied.
    pub view: View,
    /// The clock of `state`: that of the last entry, or of the actor where
    /// there is no entry (a new view's first word to its replica).
    pub clock: Clock,
    /// The unit's state after it.
    pub state: StateUpdate,
    /// The entries, in order; empty where only the state is sent.
    pub entries: Vec<Entry>,
}

/// Bytes of a batch's form beside its state and entries, at most.
const BATCH: usize = 48;

impl EntryBatch {
    /// Bytes that it takes in a message, a few more at most.
    pub fn wire_len(&self) -> usize {
        let state = match &self.state {
            StateUpdate::Omitted => 0,
            StateUpdate::Touched(bytes) => bytes.len(),
            StateUpdate::Delta { changes, .. } => {
                let lengths = changes.iter().map(|change| change.bytes.len() + FORM);
                lengths.sum()
            }
            StateUpdate::Full(state)
            | StateUpdate::Whole(state)
            | StateUpdate::Rest { state, .. }
            | StateUpdate::Apart { state, .. } => state.as_ref().map_or(0, Vec::len),
        };
        let entries = self.entries.iter();
        BATCH + state + entries.map(Entry::wire_len).sum::<usize>()
    }
}

/// The state of a unit on its way to another owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Last packet applied.
    pub clock: Clock,
    /// [`weir_runtime::Runtime::export_unit`]; `None`: the unit has no state
    /// there, which is an answer too.
    pub state: Option<Vec<u8>>,
    /// Entries up to this clock are known to be let out. Later ones before
    /// the first of `outputs` went ahead, as [`Message::Outputs`].
    pub since: Clock,
    /// Entries not known to be let out, or the last of them.
    pub outputs: Vec<Entry>,
}

/// A runtime's claim of a unit, for a switch that starts again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The unit.
    pub unit: UnitId,
    /// The view of the actor.
    pub view: View,
    /// True for the owner, false for the replica.
    pub owner: bool,
    /// Last packet applied (or stored).
    pub clock: Clock,
    /// False where nothing of the unit is left after that packet: it is over.
    /// There are no names then.
    pub state: bool,
    /// Key of the unit's coarsest scope; `None` where a unit is one flow.
    pub key: Option<FlowKey>,
    /// The unit's flows: key, and whether the client is the key's second end.
    pub flows: Vec<(FlowKey, bool)>,
    /// Their other names, each with the key of its flow.
    pub aliases: Vec<(FlowKey, AliasRequest)>,
}

/// Most ports in one [`Message::PortsDoubted`].
pub const DOUBTS: usize = 256;

/// Most claims in one piece of an answer.
pub const CLAIMS: usize = 64;

/// The units that a move concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// This many of those that a runtime owns.
    Number(u32),
    /// All that a runtime owns.
    All,
    /// Units with a flow in this space.
    Space(FlowSpace),
    /// The unit under this flow or scope key.
    Key(FlowKey),
}

/// Part of all flows; an empty list takes all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowSpace {
    /// Prefixes, one of which holds one of the flow's addresses.
    pub prefixes: Vec<weir_packet::Prefix>,
    /// Ranges of ports, one of which holds one of the flow's ports.
    pub ports: Vec<(u16, u16)>,
    /// IP protocol numbers.
    pub protocols: Vec<u8>,
}

/// A report of a runtime's load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// Packets taken in since the start.
    pub packets: u64,
    /// Packets lost at its input since the start.
    pub drops: u64,
    /// Units owned now.
    pub units: u32,
    /// Parts in a thousand of the time that it was busy lately.
    pub busy: u32,
}

/// Everything that is not a data frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    // ---- switch → runtime
    /// A view is open.
    Open(Open),
    /// View `old` ends after clock `at`: apply no further, then send the state
    /// to `to` for view `new` (in mode push without being asked). Repeated
    /// until `new` is settled.
    Closed {
        /// The unit.
        unit: UnitId,
        /// The view that ends.
        old: View,
        /// Its last clock.
        at: Clock,
        /// The view that follows.
        new: View,
        /// Its owner.
        to: RuntimeId,
        /// How the state gets there.
        mode: MoveMode,
    },
    /// Forget all views of the unit below this one; with `ended` the unit is
    /// over and `below` is above all its views. Repeated until it is answered
    /// ([`Message::Forgotten`]).
    Forget {
        /// The unit.
        unit: UnitId,
        /// The lowest view worth keeping.
        below: View,
        /// The end was granted.
        ended: bool,
    },
    /// Outputs up to `out` are let out: they need not be kept.
    Out {
        /// The unit.
        unit: UnitId,
        /// The view whose keeper is meant.
        view: View,
        /// Last clock let out.
        out: Clock,
    },
    /// Send an early snapshot to `to`, then ask for the move.
    Prepare {
        /// The unit.
        unit: UnitId,
        /// The current view.
        view: View,
        /// The next owner.
        to: RuntimeId,
    },
    /// The unit is quiet: send a copy of its state after packet `clock` to each of these
    /// ([`Message::Ahead`]), if that is the last packet applied.
    SendAhead {
        /// The unit.
        unit: UnitId,
        /// The current view.
        view: View,
        /// The last packet.
        clock: Clock,
        /// Runtimes that are likely to own the unit next.
        to: Vec<RuntimeId>,
    },
    /// A switch of this generation has started: fence older ones and claim
    /// what you have. Repeated.
    Recover {
        /// Its generation.
        generation: u16,
        /// The first piece of the answer that it misses.
        from: u32,
        /// Pieces that it takes at most: it asks on when they are there.
        most: u32,
    },

    // ---- runtime → switch, and owner → replica
    /// Entries to let out, or to store and pass on.
    Entries(Vec<EntryBatch>),
    /// The new view's state is held (by its replica, or by an owner without).
    Held {
        /// The unit.
        unit: UnitId,
        /// The view.
        view: View,
    },
    /// The state after packet `clock` is held by the view's replica, which is told
    /// every so many packets (replica → switch); the switch needs packets up to
    /// there no more (switch → owner, the answer).
    Stored {
        /// The unit.
        unit: UnitId,
        /// The view.
        view: View,
        /// The state's clock.
        clock: Clock,
    },
    /// Please move the unit.
    Move {
        /// The unit.
        unit: UnitId,
        /// The view that the sender knows as current.
        view: View,
        /// The new owner.
        to: RuntimeId,
        /// How.
        mode: MoveMode,
    },
    /// May the unit end? Its state is empty after clock `clock`.
    End {
        /// The unit.
        unit: UnitId,
        /// The asking owner's view.
        view: View,
        /// Its clock.
        clock: Clock,
    },
    /// Something in the unit is due: please number a tick.
    Tick {
        /// The unit.
        unit: UnitId,
        /// The asking owner's view.
        view: View,
    },
    /// There is a gap: send again what comes after `after`.
    Repeat {
        /// The unit.
        unit: UnitId,
        /// The view.
        view: View,
        /// Last clock applied.
        after: Clock,
    },
    /// The view can't be taken over (no room, another layout): treated as a
    /// failure of the sender for this unit, without suspicion.
    Refuse {
        /// The unit.
        unit: UnitId,
        /// The view.
        view: View,
        /// Why.
        why: Refusal,
    },
    /// The answer to [`Message::Forget`]: no view of the unit below this one is
    /// here any more.
    Forgotten {
        /// The unit.
        unit: UnitId,
        /// As in the question.
        below: View,
    },
    /// A piece of the answer to [`Message::Recover`], which is complete when
    /// all its pieces are there, in whatever order they come. An answer without
    /// claims is one empty piece.
    Claims {
        /// The generation it answers.
        generation: u16,
        /// Number of this piece, from 0.
        piece: u32,
        /// Number of all pieces, at least 1.
        pieces: u32,
        /// The sender's units; at most [`CLAIMS`].
        claims: Vec<Claim>,
        /// In the first piece: runtimes that the switch before suspected.
        suspected: Vec<RuntimeId>,
    },

    // ---- runtime → runtime
    /// Send the state of view `old` at clock `at` for view `new`. Repeated.
    Pull {
        /// The unit.
        unit: UnitId,
        /// The view to take it from.
        old: View,
        /// The view it is for.
        new: View,
        /// Its base.
        at: Clock,
    },
    /// The state of view `old` for view `new`.
    State {
        /// The unit.
        unit: UnitId,
        /// The view it was taken from.
        old: View,
        /// The view it is for; of an early snapshot [`View::NONE`].
        new: View,
        /// The state, its clock and outputs.
        image: Image,
    },
    /// A copy of a unit's state, in case that the receiver is its next owner: it need not ask
    /// then. All outputs up to the image's clock are let out. It may be forgotten at any time.
    Ahead {
        /// The unit.
        unit: UnitId,
        /// The view it was taken from.
        view: View,
        /// The state and its clock; no outputs.
        image: Image,
    },
    /// Entries not known to be let out, ahead of the state that they belong to:
    /// all together are too long for one message. The receiver keeps them for a
    /// while; it may get them again, and in any order.
    Outputs {
        /// The unit.
        unit: UnitId,
        /// The view they were made in.
        view: View,
        /// Entries of consecutive clocks.
        entries: Vec<Entry>,
    },
    /// After an early snapshot: a packet that changed the state, to be applied
    /// without output.
    Copy {
        /// The unit.
        unit: UnitId,
        /// The view it was applied in.
        old: View,
        /// Its number.
        clock: Clock,
        /// The number of the change before it (the snapshot's clock, for the
        /// first).
        after: Clock,
        /// The packet as it came in.
        packet: Part,
    },
    /// Ends a reprocessing: the state is that after the last copy, at `clock`.
    Copied {
        /// The unit.
        unit: UnitId,
        /// The view it was applied in.
        old: View,
        /// The view it is for.
        new: View,
        /// The base of `new`.
        clock: Clock,
        /// The number of the last change.
        changed: Clock,
        /// The engine's own state of the flows at `clock`
        /// ([`weir_runtime::Runtime::export_touch`]).
        touched: Vec<u8>,
        /// Entries not known to be let out.
        outputs: Vec<Entry>,
    },

    /// Is your copy of the unit after packet `clock` the state with this digest? It follows that
    /// state on its way. Answered by [`Message::Compared`].
    Compare {
        /// The unit.
        unit: UnitId,
        /// The view.
        view: View,
        /// The state's clock.
        clock: Clock,
        /// SipHash-1-3, with a key of zeros, of the exported state.
        digest: u64,
        /// Number of the comparison, for the answer.
        round: u32,
    },
    /// The answer.
    Compared {
        /// The unit.
        unit: UnitId,
        /// The view.
        view: View,
        /// As in the question.
        round: u32,
        /// The result.
        found: Comparison,
    },

    // ---- leases of port blocks: switch ↔ runtime
    /// More ports of a pool are needed.
    LeaseWanted {
        /// The pool.
        pool: PoolId,
    },
    /// A block is leased to the receiver.
    LeaseGranted {
        /// The pool.
        pool: PoolId,
        /// Number of the address in the pool.
        address: u16,
        /// Number of the block.
        block: u16,
    },
    /// A port of the receiver's block is free again, unless an entry that is not let out has
    /// leased it anew: the receiver asks then ([`Message::PortsDoubted`]).
    PortFreed {
        /// The pool.
        pool: PoolId,
        /// The port.
        lease: PortLease,
    },

    /// The views in which these ports were leased are over, or their switch has
    /// started again, or calls free what is leased anew: which of them are leased? Repeated.
    PortsDoubted {
        /// The pool.
        pool: PoolId,
        /// At most [`DOUBTS`], each with the unit that leased it: the entry in which it did
        /// may be let out yet, or the switch before this one may have done so.
        doubts: Vec<(PortLease, Option<UnitId>)>,
    },
    /// The answer.
    PortsKnown {
        /// The pool.
        pool: PoolId,
        /// Ports nobody has: their entries are never let out.
        free: Vec<PortLease>,
        /// Leased ports: [`Message::PortFreed`] comes when their last name goes.
        leased: Vec<PortLease>,
    },

    // ---- coordinator → switch or runtime, and back
    /// Say your load (NFActor's PollWorkload).
    PollWorkload,
    /// The answer.
    Workload(Workload),
    /// The runtimes that may own units (NFActor's NotifyClusterCfg).
    NotifyClusterCfg {
        /// Ids.
        runtimes: Vec<RuntimeId>,
    },
    /// Move units of `from` to `to` (NFActor's SetMigrationTarget).
    SetMigrationTarget {
        /// The runtime that gives.
        from: RuntimeId,
        /// The runtime that takes.
        to: RuntimeId,
        /// The units to move.
        what: Selection,
        /// How.
        mode: MoveMode,
    },
    /// The runtime that keeps copies of `of`'s units (NFActor's SetReplica).
    SetReplica {
        /// The owner.
        of: RuntimeId,
        /// The replica; `None` lets the switch choose by rotation.
        replica: Option<RuntimeId>,
    },
    /// A process is dead or thought so (NFActor's Recover): a switch opens new
    /// views where it was owner, replica or source, and tells the runtimes, which
    /// remember it for a switch that starts again.
    Suspect {
        /// Id.
        runtime: RuntimeId,
    },
}

/// The result of comparing a replica's copy with the state that its owner sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// They are the same.
    Equal,
    /// They differ.
    Differs,
    /// The copy is of another clock.
    Behind,
    /// There is no copy that the asking owner feeds.
    Missing,
}

/// Why a runtime does not take a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Flow table or buffers are full.
    Full,
    /// The snapshot is of another layout, or can't be upgraded.
    Layout,
    /// The snapshot is damaged.
    Corrupt,
    /// The state that a resumed view needs is not here.
    NoState,
    /// The state is too long for a message
    /// ([`crate::settings::ActorSettings::most`]).
    TooLong,
}
