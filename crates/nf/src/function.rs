//! The contract itself: a function, and the flow and the burst that it is called
//! with. They are in one file because their types name each other.

use core::marker::PhantomData;

use std::net::IpAddr;

use serde::de::DeserializeOwned;
use weir_packet::{Direction, FlowKey, Packet, Prefix, Side};
use weir_telemetry::Label;

use crate::NamedSet;
use crate::host::{MAX_LABELS, NO_FLOW, Opened, Work};
use crate::{
    Buffer, BufferPool, Context, Descriptor, Event, FlowInfo, Needs, Scope, SetUp, SettingsError,
    Shown, State, Stats, Tracked, WorkSpace,
};

/// A network function: code and settings that all flows share, without any
/// state of its own. `&self` everywhere and `Sync` make hidden state a compile
/// error; what must be remembered is in [`NetworkFunction::State`].
///
/// docs/writing-an-nf.md leads through an example; the design is that of
/// NFActor (§3: new flow state, process, end of flow, preferred owner).
pub trait NetworkFunction: Sized + Send + Sync + 'static {
    /// Settings in the chain file; `Default` if it gives none.
    type Settings: DeserializeOwned + schemars::JsonSchema + Default;
    /// State per flow (or scope key); `()` for none.
    type State: State;
    /// Counters per flow (or scope key); `()` for none.
    type Stats: Stats;
    /// State of each flow beside a wider scope's [`NetworkFunction::State`], all zeros at first;
    /// `()` for none. A guard that counts half-open connections per client keeps here whether this
    /// one is counted.
    type FlowState: State;

    /// Description of the function: its needs and effects, before any settings.
    const DESCRIPTOR: Descriptor;

    /// Builds the function from checked settings.
    ///
    /// # Errors
    ///
    /// A [`SettingsError`] that names the setting, what is wrong and the fix.
    fn new(settings: Self::Settings, set_up: &mut SetUp<'_>) -> Result<Self, SettingsError>;

    /// The state of a flow when its first packet reaches this function; by
    /// default all zeros.
    ///
    /// # Errors
    ///
    /// A reason: the packet is dropped under it, and the next packet of the
    /// flow asks again.
    fn open(
        &self,
        packet: &Packet<'_>,
        flow: &FlowInfo<'_>,
        cx: &mut Context<'_>,
    ) -> Result<Self::State, DropReason> {
        let _ = (packet, flow, cx);
        Ok(<Self::State as zerocopy::FromZeros>::new_zeroed())
    }

    /// One packet with its flow's state. A function that keeps none needs only
    /// [`NetworkFunction::without_flow`].
    #[inline]
    fn process(
        &self,
        packet: &mut Packet<'_>,
        flow: &mut Flow<'_, Self>,
        cx: &mut Context<'_>,
    ) -> Verdict {
        let _ = flow;
        self.without_flow(packet, cx)
    }

    /// A burst of at most 64 packets, in order. Override it where work can be
    /// shared between packets; the default calls [`NetworkFunction::process`]
    /// for each (inlined: there is one indirect call per function and burst).
    #[inline]
    fn process_burst(&self, burst: &mut Burst<'_, Self>, cx: &mut Context<'_>) {
        burst.for_each(self, cx);
    }

    /// A packet that belongs to no flow (ARP, a fragment whose first part was
    /// never seen, anything that is not IP). A function that needs no flows
    /// gets every packet here.
    #[inline]
    fn without_flow(&self, packet: &mut Packet<'_>, cx: &mut Context<'_>) -> Verdict {
        let _ = (packet, cx);
        Verdict::Pass
    }

    /// A flow that has reached this function ends: `flow` has its own state and
    /// that of its scope key, which may be changed. Called before
    /// [`NetworkFunction::close`] where the flow is the last of its scope key, and
    /// where the scope is the flow. `cx` takes events, not packets.
    fn flow_end(&self, flow: &mut Flow<'_, Self>, why: CloseReason, cx: &mut Context<'_>) {
        let _ = (flow, why, cx);
    }

    /// The flow (or the last flow of a scope key) has ended; leased resources
    /// are given back here. `cx` takes events, not packets. Where the scope is
    /// wider there is no flow any more: [`Flow::flow_state`] is all zeros.
    fn close(&self, flow: &mut Flow<'_, Self>, why: CloseReason, cx: &mut Context<'_>) {
        let _ = (flow, why, cx);
    }

    /// Packets that share one state under these settings. The default is the descriptor's scope; a
    /// function overrides it if a setting decides (NAT mapping per client port or per connection).
    fn scope(&self) -> Scope {
        Self::DESCRIPTOR.scope
    }

    /// True if it may drop under these settings. The default is that it may
    /// where the descriptor names reasons; a function overrides it where a
    /// setting decides. Counters that are named like reasons then count what
    /// passes.
    fn drops(&self) -> bool {
        !Self::DESCRIPTOR.drops.is_empty()
    }

    /// Labels that it may give under these settings: bit `n` is
    /// `Verdict::Label(n)`. The default is all of the descriptor's; a function
    /// overrides it where a setting decides. Plans are shown without the links
    /// of the others; packets take them all the same.
    fn labels_used(&self) -> u64 {
        u64::MAX
    }

    /// Addresses that it stands for under these settings: those to which others
    /// send although no host has them, such as a NAT's external addresses and
    /// a load balancer's virtual ones. Where weir is a router it answers for
    /// them on the link and gives the function what is sent to them. The
    /// default is none.
    fn owns(&self) -> Vec<Owned> {
        Vec::new()
    }

    /// Sets of the chain file into which it looks under these settings ([`SetUp::set`]). The
    /// default is none.
    fn sets(&self) -> Vec<NamedSet> {
        Vec::new()
    }

    /// True if a host that sends from `source` on `side` is the client of its connections,
    /// under these settings. weir asks where it did not see a TCP connection begin and its
    /// ports look like those of a server's segment. The default leaves it to the ports.
    fn is_client(&self, source: IpAddr, side: Side) -> bool {
        let _ = (source, side);
        false
    }

    /// Key of a scope of its own ([`crate::Scope::Own`]), from the first
    /// packet of a flow. `None` puts the flow in a scope by itself.
    fn scope_key(&self, packet: &Packet<'_>, flow: &FlowInfo<'_>) -> Option<FlowKey> {
        let _ = (packet, flow);
        None
    }

    /// Memory to work in, one per runtime, so that no packet costs an
    /// allocation; [`Context::with_work_space`] gives it out.
    fn work_space(&self) -> WorkSpace {
        WorkSpace::NONE
    }

    /// The runtime on which this flow should live, if not where it is.
    fn preferred_owner(&self, state: &Self::State, cluster: &Cluster<'_>) -> Option<RuntimeId> {
        let _ = (state, cluster);
        None
    }

    /// Refuses to take the place of `before`, a function of the same kind under other settings,
    /// while packets flow (`weir reload`, docs/reload.md). By default it takes it: open flows go
    /// on with the states that they have. A function whose states mean something under their own
    /// settings alone (the number of a rule, say) keeps a generation of these in its states, and
    /// looks again where it is another, or refuses here. Its counters go on, and its
    /// [`NetworkFunction::work_space`] begins anew.
    ///
    /// # Errors
    ///
    /// A [`SettingsError`] that names the setting that can't change, and why.
    fn replaces(&self, before: &Self) -> Result<(), SettingsError> {
        let _ = before;
        Ok(())
    }

    /// Tells what is remembered of a flow field by field, for whoever traces a
    /// packet or looks at a flow: in the words of the manual, with names for
    /// numbers that stand for something. The default tells nothing, and the
    /// bytes are shown.
    fn show(&self, state: &Self::State, stats: &Self::Stats, shown: &mut Shown) {
        let _ = (state, stats, shown);
    }

    /// The same for what is remembered of the flow beside a wider scope's state.
    fn show_flow(&self, state: &Self::FlowState, shown: &mut Shown) {
        let _ = (state, shown);
    }

    /// Makes a state of this version from one of an older `version`; `None`
    /// refuses it.
    fn upgrade(&self, version: u16, old: &[u8]) -> Option<Self::State> {
        let _ = (version, old);
        None
    }

    /// The same for [`NetworkFunction::FlowState`].
    fn upgrade_flow(&self, version: u16, old: &[u8]) -> Option<Self::FlowState> {
        let _ = (version, old);
        None
    }
}

/// A flow with the state that `N` keeps of it.
#[derive(Debug)]
pub struct Flow<'a, N: NetworkFunction> {
    /// The state; writing to it marks it changed.
    pub state: Tracked<'a, N::State>,
    /// State of this flow alone, beside a wider scope's state; writing to it marks it changed.
    pub flow_state: Tracked<'a, N::FlowState>,
    /// The counters, outside change tracking.
    pub stats: &'a mut N::Stats,
    /// The flow itself.
    pub info: FlowInfo<'a>,
    pub(crate) buffers: &'a mut [u64],
    pub(crate) buffers_changed: &'a mut bool,
}

/// The side buffers of a flow, for reading ([`Flow::event`]).
#[derive(Clone, Copy, Debug)]
pub struct SideBuffers<'a> {
    handles: &'a [u64],
    pool: &'a BufferPool,
}

impl<'a> SideBuffers<'a> {
    /// Bytes of side buffer `index`; empty where there is none.
    pub fn get(&self, index: usize) -> &'a [u8] {
        self.handles
            .get(index)
            .map_or(&[], |&handle| self.pool.bytes(handle))
    }
}

impl<N: NetworkFunction> Flow<'_, N> {
    /// The same flow, for a shorter time, as [`Packet::reborrow`] gives the packet.
    #[inline(always)]
    pub fn reborrow(&mut self) -> Flow<'_, N> {
        Flow {
            state: self.state.reborrow(),
            flow_state: self.flow_state.reborrow(),
            stats: self.stats,
            info: self.info,
            buffers: self.buffers,
            buffers_changed: self.buffers_changed,
        }
    }

    /// Side buffer `index`, below [`crate::Descriptor::buffers`]; `None` for
    /// any other. While it is held the context can't be used otherwise; the
    /// state can ([`Flow::parts`] gives both at once).
    pub fn buffer<'b>(&'b mut self, index: usize, cx: &'b mut Context<'_>) -> Option<Buffer<'b>> {
        let handle = self.buffers.get_mut(index)?;
        Some(
            cx.buffers
                .open(handle, N::DESCRIPTOR.buffer_bytes, self.buffers_changed),
        )
    }

    /// Bytes of side buffer `index` for reading; empty where there is none.
    pub fn buffered<'b>(&self, index: usize, cx: &'b Context<'_>) -> &'b [u8] {
        self.buffers
            .get(index)
            .map_or(&[], |&handle| cx.buffers.bytes(handle))
    }

    /// State and side buffer `index` together.
    pub fn parts<'b>(
        &'b mut self,
        index: usize,
        cx: &'b mut Context<'_>,
    ) -> Option<(&'b mut N::State, Buffer<'b>)> {
        let handle = self.buffers.get_mut(index)?;
        let buffer = cx
            .buffers
            .open(handle, N::DESCRIPTOR.buffer_bytes, self.buffers_changed);
        Some((&mut self.state, buffer))
    }

    /// Starts an event about the packet at hand that may quote the flow's side
    /// buffers; its source is the sender of packets in `direction`. Like
    /// [`Context::event`] otherwise.
    pub fn event<'b>(
        &'b self,
        kind: &str,
        direction: Direction,
        cx: &'b mut Context<'_>,
    ) -> (Event<'b>, SideBuffers<'b>) {
        let cause = (cx.leases.packet, cx.silent());
        let mut event = cx
            .events
            .begin(kind, cx.now, &self.info.ids(), cx.sequence, cause);
        event.endpoints(self.info.key(), direction);
        let buffers = SideBuffers {
            handles: self.buffers,
            pool: cx.buffers,
        };
        (event, buffers)
    }
}

/// The packets of a burst that reach a function, in order of arrival.
#[derive(Debug)]
pub struct Burst<'a, N> {
    work: Work<'a>,
    function: PhantomData<N>,
}

impl<'a, N: NetworkFunction> Burst<'a, N> {
    /// Wraps the engine's work for a function.
    pub fn new(work: Work<'a>) -> Burst<'a, N> {
        Burst {
            work,
            function: PhantomData,
        }
    }

    /// Bit i is set where packet i is to be worked on. A function that
    /// overrides [`NetworkFunction::process_burst`] gives each of them a
    /// verdict.
    pub fn mask(&self) -> u64 {
        self.work.mask
    }

    /// Packet `i` (a set bit of [`Burst::mask`]) without its flow.
    #[inline]
    pub fn packet(&mut self, i: usize) -> Packet<'_> {
        let (meta, room) = self.work.memory.split_mut(&mut self.work.frames[i]);
        Packet::new(meta, room, &mut self.work.headers[i])
    }

    /// Verdict on packet `i`.
    #[inline]
    pub fn verdict(&mut self, i: usize, verdict: Verdict) {
        let bit = 1u64 << i;
        let outcome = &mut *self.work.outcome;
        match verdict {
            Verdict::Pass => outcome.labels[0] |= bit,
            Verdict::Label(label) => outcome.labels[usize::from(label) % MAX_LABELS] |= bit,
            Verdict::Turn => outcome.turned |= bit,
            Verdict::Drop(reason) => {
                outcome.dropped |= bit;
                outcome.reasons[i] = reason.number();
            }
        }
    }

    /// Bit i is set where packet i is the first of its flow, in the chain as a whole: its state is
    /// about to be opened.
    #[inline]
    pub fn firsts(&self) -> u64 {
        let places = (0..64).zip(self.work.places.iter());
        let firsts = places.filter(|(_, place)| place.clock <= 1 && place.flow != NO_FLOW);
        firsts.fold(0, |mask, (i, _)| mask | 1u64 << i) & self.work.mask
    }

    /// All packets pass.
    #[inline]
    pub fn pass_all(&mut self) {
        self.work.outcome.labels[0] |= self.work.mask;
    }

    /// The packets of `mask` pass; bits outside [`Burst::mask`] do nothing.
    #[inline]
    pub fn pass(&mut self, mask: u64) {
        self.work.outcome.labels[0] |= mask & self.work.mask;
    }

    /// Works on packet `i` (a set bit of [`Burst::mask`]) as
    /// [`Burst::for_each`] does, for a function that treats the common packets
    /// of a burst itself and leaves the others to its per-packet calls.
    #[inline]
    pub fn step(&mut self, i: usize, function: &N, cx: &mut Context<'_>) {
        let verdict = if self.work.scoped.is_some() {
            self.judge::<true>(i, function, cx)
        } else {
            self.judge::<false>(i, function, cx)
        };
        self.verdict(i, verdict);
    }

    /// Calls the function packet by packet: opens states where needed, then
    /// [`NetworkFunction::process`], or [`NetworkFunction::without_flow`].
    #[inline]
    pub fn for_each(&mut self, function: &N, cx: &mut Context<'_>) {
        if self.work.scoped.is_some() {
            self.each::<true>(function, cx);
        } else {
            self.each::<false>(function, cx);
        }
    }

    #[inline(always)]
    fn each<const WIDER: bool>(&mut self, function: &N, cx: &mut Context<'_>) {
        let mut left = self.work.mask;
        let mut passed = 0;
        while left != 0 {
            let i = left.trailing_zeros() as usize;
            match self.judge::<WIDER>(i, function, cx) {
                Verdict::Pass => passed |= left & left.wrapping_neg(),
                other => self.verdict(i, other),
            }
            left &= left - 1;
        }
        self.pass(passed);
    }

    #[inline(always)]
    fn judge<const WIDER: bool>(
        &mut self,
        i: usize,
        function: &N,
        cx: &mut Context<'_>,
    ) -> Verdict {
        if matches!(N::DESCRIPTOR.needs, Needs::Flow) {
            self.one::<WIDER>(i, function, cx)
        } else {
            let mut packet = self.packet(i);
            cx.at(i, &packet);
            function.without_flow(&mut packet, cx)
        }
    }

    /// One packet with its flow, whose state is opened first where needed.
    #[inline(always)]
    fn one<const WIDER: bool>(&mut self, i: usize, function: &N, cx: &mut Context<'_>) -> Verdict {
        let work = &mut self.work;
        let place = &work.places[i];
        let (meta, room) = work.memory.split_mut(&mut work.frames[i]);
        let mut packet = Packet::new(meta, room, &mut work.headers[i]);
        let flow = place.flow;
        if flow == NO_FLOW {
            cx.at(i, &packet);
            return function.without_flow(&mut packet, cx);
        }
        let bit = work.slot.bit;
        let (head, state, stats, buffers, flow_state, mut flow_head, clock);
        match &mut work.scoped {
            Some((scoped, units)) if WIDER => {
                let block: Opened<'_, N::State, N::Stats, ()> =
                    scoped.open(units[i].unit, &work.slot);
                (head, state, stats, buffers) =
                    (block.head, block.state, block.stats, block.buffers);
                let own = work.blocks.open_flow::<N::FlowState>(flow, &work.slot);
                (flow_head, flow_state) = (Some(own.0), own.1);
                clock = units[i].clock;
            }
            _ => {
                let block: Opened<'_, N::State, N::Stats, N::FlowState> =
                    work.blocks.open(flow, &work.slot);
                (head, state, stats, buffers) =
                    (block.head, block.state, block.stats, block.buffers);
                (flow_head, flow_state) = (None, block.flow_state);
                clock = place.clock;
            }
        }
        let time = packet.time();
        cx.of(i, &packet, flow, head.id);
        let first = match &flow_head {
            None => head.opened & bit == 0,
            Some(flow_head) => flow_head.opened & work.slot.flow_bit == 0,
        };
        if head.opened & bit == 0 {
            let about = flow_head.as_deref().unwrap_or(head);
            let info = FlowInfo::at(about, place, time, head.id, clock).first_here(first);
            match function.open(&packet, &info, cx) {
                Ok(new) => *state = new,
                Err(reason) => return Verdict::Drop(reason),
            }
            head.opened |= bit;
            head.changed |= bit;
            work.outcome.changed |= 1 << i;
        }
        if let Some(flow_head) = &mut flow_head
            && first
        {
            flow_head.opened |= work.slot.flow_bit;
            work.outcome.changed |= 1 << i;
        }
        let (mut changed, mut buffers_changed, mut flow_changed) = (false, false, false);
        let verdict = {
            let about = flow_head.as_deref().unwrap_or(head);
            let info = FlowInfo::at(about, place, time, head.id, clock).first_here(first);
            let mut flow: Flow<'_, N> = Flow {
                state: Tracked::new(state, &mut changed),
                flow_state: Tracked::new(flow_state, &mut flow_changed),
                stats,
                info,
                buffers,
                buffers_changed: &mut buffers_changed,
            };
            function.process(&mut packet, &mut flow, cx)
        };
        if changed | buffers_changed {
            head.changed |= bit;
            work.outcome.changed |= 1 << i;
        }
        if flow_changed {
            flow_head.unwrap_or(head).changed |= work.slot.flow_bit;
            work.outcome.changed |= 1 << i;
        }
        verdict
    }
}

/// Addresses that a function stands for ([`NetworkFunction::owns`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owned {
    /// Which.
    pub addresses: Prefix,
    /// First and last port on which it serves there. Ports that it leases
    /// ([`crate::SetUp::lease`]) need not be among them.
    pub ports: Option<(u16, u16)>,
    /// The side on which others send to them; both where there is none.
    pub side: Option<Side>,
}

/// Disposition of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// On, by the first link.
    Pass,
    /// On, by the link with this label (1 is the first of
    /// [`Descriptor::labels`]).
    Label(u8),
    /// Out, counted under the reason.
    Drop(DropReason),
    /// Back through the chain from its start as if received on the other side:
    /// a NAT's hairpin (RFC 4787 §6). A packet turns once; a second time it is
    /// dropped as `turned_twice`.
    Turn,
}

/// One of the reasons in [`Descriptor::drops`], made from the enum that has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropReason(u8);

impl DropReason {
    /// Its place in [`Descriptor::drops`].
    const fn number(self) -> u8 {
        self.0
    }
}

impl<L: Label> From<L> for DropReason {
    #[inline(always)]
    fn from(reason: L) -> DropReason {
        DropReason(reason.index() as u8)
    }
}

weir_telemetry::labels! {
    /// Why a flow ended.
    pub enum CloseReason: Counter<Flows> {
        /// TCP closed it: both FINs acknowledged.
        Finished = "finished",
        /// TCP reset it.
        Reset = "reset",
        /// No packet for as long as its time-out.
        Idle = "timeout",
        /// Evicted: the table was full and it was idle for longest.
        Evicted = "evicted",
        /// The same addresses and ports began a new connection.
        Reused = "reused",
        /// weir stops.
        Shutdown = "shutdown",
        /// An operator ended it.
        Ended = "ended",
    }
}

const _: () = {
    let mut number = 0;
    while number < CloseReason::ALL.len() {
        assert!(CloseReason::ALL[number] as usize == number, "in order");
        number += 1;
    }
};

/// One start of one runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuntimeId(pub u32);

/// The runtimes that run this stage, as far as this one knows.
#[derive(Clone, Copy, Debug)]
pub struct Cluster<'a> {
    /// The runtime that asks.
    pub here: RuntimeId,
    /// All runtimes of the stage in the order of their ids.
    pub runtimes: &'a [RuntimeId],
}
