//! The contract itself.

use std::net::IpAddr;

use serde::de::DeserializeOwned;
use weir_packet::{FlowKey, Packet, Prefix, Side};
use weir_telemetry::Label;

use crate::{
    Burst, Context, Descriptor, Flow, FlowInfo, Scope, SetUp, SettingsError, Shown, State, Stats,
    WorkSpace,
};

/// A network function: code and settings that all flows share, without any
/// state of its own. `&self` everywhere and `Sync` make hidden state a compile
/// error; what must be remembered is in [`NetworkFunction::State`].
///
/// docs/writing-an-nf.md leads through an example; the design is that of
/// NFActor (§3: new flow state, process, end of flow, preferred owner).
pub trait NetworkFunction: Sized + Send + Sync + 'static {
    /// What the chain file may say; `Default` where it says nothing.
    type Settings: DeserializeOwned + schemars::JsonSchema + Default;
    /// What is remembered per flow (or scope key); `()` for nothing.
    type State: State;
    /// Counters per flow (or scope key); `()` for none.
    type Stats: Stats;
    /// What is remembered of each flow beside a wider scope's
    /// [`NetworkFunction::State`], all zeros at first; `()` for nothing. A guard
    /// that counts half-open connections per client keeps here whether this one
    /// is counted.
    type FlowState: State;

    /// What weir must know beforehand.
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

    /// What keeps one state together under these settings. The default is what
    /// the descriptor says; a function overrides it where a setting decides
    /// (NAT mapping per client port or per connection).
    fn scope(&self) -> Scope {
        Self::DESCRIPTOR.scope
    }

    /// Whether it may drop under these settings. The default is that it may
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

    /// Whether a host that sends from `source` on `side` is the client of its connections,
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

/// What becomes of a packet.
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
    pub(crate) const fn number(self) -> u8 {
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
