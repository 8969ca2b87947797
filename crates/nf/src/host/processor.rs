//! A function behind one indirect call.

use core::any::Any;
use std::net::IpAddr;
use std::sync::Arc;

use weir_packet::{FlowKey, Packet, Side};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::{Blocks, Slot, StageLayout, Work};
use crate::NamedSet;
use crate::{
    Burst, CloseReason, Cluster, Context, Descriptor, Flow, FlowInfo, NetworkFunction, Owned,
    RuntimeId, Scope, SetUp, SettingsError, Shown, State, Tracked, WorkSpace,
};

/// A function as the engine sees it, whatever its types.
pub trait Processor: Send + Sync {
    /// The function's descriptor.
    fn descriptor(&self) -> &'static Descriptor;
    /// Version, size of its state and of its counters, in bytes.
    fn state(&self) -> StateLayout;
    /// Takes its place in the blocks of its scope.
    fn place(&self, layout: &mut StageLayout) -> Slot;
    /// Takes its place in the flows' own blocks; `scoped` says that its scope is
    /// wider.
    fn place_flow(&self, layout: &mut StageLayout, slot: &mut Slot, scoped: bool);
    /// Works on a burst.
    fn run(&self, work: Work<'_>, cx: &mut Context<'_>);
    /// Ends the flow in block `flow`, where a packet of it has reached the
    /// function; `scoped` are the blocks of a wider scope and the flow's in them.
    /// Where there are none, its state ends too.
    fn flow_end(
        &self,
        flows: &mut Blocks,
        flow: u32,
        scoped: Option<(&mut Blocks, u32)>,
        slot: &Slot,
        why: CloseReason,
        cx: &mut Context<'_>,
    );
    /// Ends the state of a wider scope that is open in `block`.
    fn close(
        &self,
        blocks: &mut Blocks,
        block: u32,
        slot: &Slot,
        why: CloseReason,
        cx: &mut Context<'_>,
    );
    /// Packets that share one state, under the function's settings.
    fn scope(&self) -> Scope;
    /// True if it may drop, under the function's settings.
    fn drops(&self) -> bool;
    /// Labels that it may give, under the function's settings: bit `n` is
    /// `Verdict::Label(n)`.
    fn labels_used(&self) -> u64;
    /// Addresses that it stands for, under the function's settings.
    fn owns(&self) -> Vec<Owned>;
    /// Sets of the chain file into which it looks, under the function's settings.
    fn sets(&self) -> Vec<NamedSet>;
    /// True if a host that sends from `source` on `side` is the client of its connections.
    fn is_client(&self, source: IpAddr, side: Side) -> bool;
    /// Key of a scope of its own.
    fn scope_key(&self, packet: &Packet<'_>, flow: &FlowInfo<'_>) -> Option<FlowKey>;
    /// The function's work space in one runtime.
    fn work_space(&self) -> WorkSpace;
    /// The runtime on which the flow should live.
    fn preferred_owner(
        &self,
        blocks: &mut Blocks,
        block: u32,
        slot: &Slot,
        cluster: &Cluster<'_>,
    ) -> Option<RuntimeId>;
    /// Refuses to take the place of `before` while packets flow
    /// ([`NetworkFunction::replaces`]); one of another kind is refused, too.
    ///
    /// # Errors
    ///
    /// Why not.
    fn replaces(&self, before: &dyn Processor) -> Result<(), SettingsError>;
    /// The function itself, for [`Processor::replaces`].
    fn as_any(&self) -> &dyn Any;
    /// Tells a state and its counters field by field; bytes of another length
    /// than [`Processor::state`] says, and what the function does not tell,
    /// are shown as they are.
    fn show(&self, state: &[u8], stats: &[u8], shown: &mut Shown);
    /// Tells what is remembered of a flow beside a wider scope's state.
    fn show_flow(&self, state: &[u8], shown: &mut Shown);
    /// Writes the state of this version made from `old` of `version`; false
    /// where it is refused.
    fn upgrade(&self, version: u16, old: &[u8], place: &mut [u8]) -> bool;
    /// The same for what is remembered of a flow.
    fn upgrade_flow(&self, version: u16, old: &[u8], place: &mut [u8]) -> bool;
}

/// Version and sizes of a function's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateLayout {
    /// Version of the state.
    pub version: u16,
    /// Bytes of the state.
    pub bytes: u32,
    /// Bytes of the counters.
    pub stats_bytes: u32,
    /// Side buffers.
    pub buffers: u8,
    /// Version of what is remembered of a flow beside a wider scope's state.
    pub flow_version: u16,
    /// Bytes of it.
    pub flow_bytes: u32,
}

struct Bound<N>(N);

impl<N: NetworkFunction> Processor for Bound<N> {
    fn descriptor(&self) -> &'static Descriptor {
        const { &N::DESCRIPTOR }
    }

    fn state(&self) -> StateLayout {
        StateLayout {
            version: N::State::VERSION,
            bytes: core::mem::size_of::<N::State>() as u32,
            stats_bytes: core::mem::size_of::<N::Stats>() as u32,
            buffers: N::DESCRIPTOR.buffers,
            flow_version: N::FlowState::VERSION,
            flow_bytes: core::mem::size_of::<N::FlowState>() as u32,
        }
    }

    fn place(&self, layout: &mut StageLayout) -> Slot {
        layout.add::<N::State, N::Stats>(N::DESCRIPTOR.buffers)
    }

    fn place_flow(&self, layout: &mut StageLayout, slot: &mut Slot, scoped: bool) {
        layout.add_flow_state::<N::FlowState>(slot, scoped);
    }

    fn run(&self, work: Work<'_>, cx: &mut Context<'_>) {
        self.0.process_burst(&mut Burst::new(work), cx);
    }

    fn flow_end(
        &self,
        flows: &mut Blocks,
        flow: u32,
        scoped: Option<(&mut Blocks, u32)>,
        slot: &Slot,
        why: CloseReason,
        cx: &mut Context<'_>,
    ) {
        let Some((blocks, block)) = scoped else {
            let opened = flows.open::<N::State, N::Stats, N::FlowState>(flow, slot);
            if opened.head.opened & slot.bit != 0 {
                opened.head.opened &= !slot.bit;
                let head = &*opened.head;
                let info = FlowInfo::new(head, head.client_direction(), head.id, head.clock);
                cx.end_of(flow, head.id, head.clock);
                let mut parts = Parts::of(opened.state, opened.stats, opened.buffers);
                let mut ended = parts.flow::<N>(opened.flow_state, info);
                self.0.flow_end(&mut ended, why, cx);
                self.0.close(&mut ended, why, cx);
                parts.release(cx);
            }
            return;
        };
        let (head, flow_state) = flows.open_flow::<N::FlowState>(flow, slot);
        let opened = blocks.open::<N::State, N::Stats, ()>(block, slot);
        if head.opened & slot.flow_bit == 0 || opened.head.opened & slot.bit == 0 {
            return;
        }
        head.opened &= !slot.flow_bit;
        let (unit, clock) = (opened.head.id, opened.head.clock);
        let info = FlowInfo::new(head, head.client_direction(), unit, clock);
        cx.end_of(flow, unit, clock);
        let mut parts = Parts::of(opened.state, opened.stats, opened.buffers);
        self.0
            .flow_end(&mut parts.flow::<N>(flow_state, info), why, cx);
        if parts.changed {
            opened.head.changed |= slot.bit;
        }
    }

    fn close(
        &self,
        blocks: &mut Blocks,
        block: u32,
        slot: &Slot,
        why: CloseReason,
        cx: &mut Context<'_>,
    ) {
        let opened = blocks.open::<N::State, N::Stats, ()>(block, slot);
        if opened.head.opened & slot.bit == 0 {
            return;
        }
        opened.head.opened &= !slot.bit;
        let info = FlowInfo::of_unit(opened.head);
        cx.end_of(block, opened.head.id, opened.head.clock);
        let mut parts = Parts::of(opened.state, opened.stats, opened.buffers);
        let mut none = N::FlowState::new_zeroed();
        self.0.close(&mut parts.flow::<N>(&mut none, info), why, cx);
        parts.release(cx);
    }

    fn scope(&self) -> Scope {
        self.0.scope()
    }

    fn drops(&self) -> bool {
        self.0.drops()
    }

    fn labels_used(&self) -> u64 {
        self.0.labels_used()
    }

    fn owns(&self) -> Vec<Owned> {
        self.0.owns()
    }

    fn sets(&self) -> Vec<NamedSet> {
        self.0.sets()
    }

    fn is_client(&self, source: IpAddr, side: Side) -> bool {
        self.0.is_client(source, side)
    }

    fn scope_key(&self, packet: &Packet<'_>, flow: &FlowInfo<'_>) -> Option<FlowKey> {
        self.0.scope_key(packet, flow)
    }

    fn work_space(&self) -> WorkSpace {
        self.0.work_space()
    }

    fn preferred_owner(
        &self,
        blocks: &mut Blocks,
        block: u32,
        slot: &Slot,
        cluster: &Cluster<'_>,
    ) -> Option<RuntimeId> {
        let opened = blocks.open::<N::State, N::Stats, ()>(block, slot);
        if opened.head.opened & slot.bit == 0 {
            return None;
        }
        self.0.preferred_owner(opened.state, cluster)
    }

    fn replaces(&self, before: &dyn Processor) -> Result<(), SettingsError> {
        match before.as_any().downcast_ref::<N>() {
            Some(before) => self.0.replaces(before),
            None => Err(SettingsError::new(
                "",
                "a function of another kind was here",
            )),
        }
    }

    fn as_any(&self) -> &dyn Any {
        &self.0
    }

    fn show(&self, state: &[u8], stats: &[u8], shown: &mut Shown) {
        let typed = (
            N::State::read_from_bytes(state),
            N::Stats::read_from_bytes(stats),
        );
        let mut told = Shown::default();
        if let (Ok(state), Ok(stats)) = &typed {
            self.0.show(state, stats, &mut told);
        }
        if told.is_empty() {
            for (name, bytes) in [("state", state), ("stats", stats)] {
                if !bytes.is_empty() {
                    told.bytes(name, bytes);
                }
            }
        }
        *shown = told;
    }

    fn show_flow(&self, state: &[u8], shown: &mut Shown) {
        let mut told = Shown::default();
        if let Ok(state) = N::FlowState::read_from_bytes(state) {
            self.0.show_flow(&state, &mut told);
        }
        if told.is_empty() && !state.is_empty() {
            told.bytes("flow_state", state);
        }
        *shown = told;
    }

    fn upgrade(&self, version: u16, old: &[u8], place: &mut [u8]) -> bool {
        let new = if version == N::State::VERSION {
            N::State::read_from_bytes(old).ok()
        } else {
            self.0.upgrade(version, old)
        };
        match new {
            Some(state) => state.write_to(place).is_ok(),
            None => false,
        }
    }

    fn upgrade_flow(&self, version: u16, old: &[u8], place: &mut [u8]) -> bool {
        let new = if version == N::FlowState::VERSION {
            N::FlowState::read_from_bytes(old).ok()
        } else {
            self.0.upgrade_flow(version, old)
        };
        new.is_some_and(|state| state.write_to(place).is_ok())
    }
}

/// State of a function under one scope key, and the marks of its changes, while a flow or the
/// scope key ends.
struct Parts<'a, S, T> {
    state: &'a mut S,
    stats: &'a mut T,
    buffers: &'a mut [u64],
    changed: bool,
    flow_changed: bool,
    buffers_changed: bool,
}

impl<'a, S, T> Parts<'a, S, T> {
    fn of(state: &'a mut S, stats: &'a mut T, buffers: &'a mut [u64]) -> Parts<'a, S, T> {
        Parts {
            state,
            stats,
            buffers,
            changed: false,
            flow_changed: false,
            buffers_changed: false,
        }
    }

    fn flow<'f, N>(
        &'f mut self,
        flow_state: &'f mut N::FlowState,
        info: FlowInfo<'f>,
    ) -> Flow<'f, N>
    where
        N: NetworkFunction<State = S, Stats = T>,
    {
        Flow {
            state: Tracked::new(self.state, &mut self.changed),
            flow_state: Tracked::new(flow_state, &mut self.flow_changed),
            stats: self.stats,
            info,
            buffers: self.buffers,
            buffers_changed: &mut self.buffers_changed,
        }
    }

    /// Gives the side buffers back.
    fn release(self, cx: &mut Context<'_>) {
        for handle in self.buffers {
            cx.buffers.release(handle);
        }
    }
}

/// A function that is ready to run, shared by all runtimes of a process.
pub type SharedProcessor = Arc<dyn Processor>;

/// Puts a function behind the engine's interface.
pub fn bind<N: NetworkFunction>(function: N) -> SharedProcessor {
    Arc::new(Bound(function))
}

/// A kind of function that chain files can name.
#[derive(Clone, Copy)]
pub struct Kind {
    /// The function's descriptor.
    pub descriptor: &'static Descriptor,
    /// Reads settings. The error carries the place in the file where the
    /// deserializer knows it.
    pub parse: fn(&mut dyn erased_serde::Deserializer<'_>) -> Result<Settings, erased_serde::Error>,
    /// The settings of an empty chain entry.
    pub default: fn() -> Settings,
    /// Builds the function from settings that `parse` or `default` gave.
    pub make: fn(Settings, &mut SetUp<'_>) -> Result<SharedProcessor, SettingsError>,
    /// JSON Schema of the settings.
    pub schema: fn(&mut schemars::SchemaGenerator) -> schemars::Schema,
    /// Versions of its state that it reads.
    pub state: Versions,
    /// The same of what it remembers of a flow beside a wider scope's state.
    pub flow_state: Versions,
}

/// Versions of a state that a function reads: from the oldest up to the one that it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The oldest: [`crate::State::OLDEST`].
    pub oldest: u16,
    /// The one that it writes: [`crate::State::VERSION`].
    pub newest: u16,
}

impl Versions {
    const fn of<S: State>() -> Versions {
        assert!(S::OLDEST <= S::VERSION, "no state is older than its oldest");
        Versions {
            oldest: S::OLDEST,
            newest: S::VERSION,
        }
    }
}

/// Settings of some function, read and typed.
pub type Settings = Box<dyn Any + Send>;

impl Kind {
    /// The kind of `N`.
    pub const fn of<N: NetworkFunction>() -> Kind
    where
        N::Settings: Send,
    {
        Kind {
            descriptor: const { &N::DESCRIPTOR },
            parse: |deserializer| {
                erased_serde::deserialize::<N::Settings>(deserializer)
                    .map(|s| Box::new(s) as Settings)
            },
            default: || Box::new(N::Settings::default()),
            make: |settings, set_up| match settings.downcast::<N::Settings>() {
                Ok(settings) => N::new(*settings, set_up).map(bind),
                Err(_) => Err(SettingsError::new(
                    "",
                    "these are the settings of another function",
                )),
            },
            schema: |generator| generator.subschema_for::<N::Settings>(),
            state: const { Versions::of::<N::State>() },
            flow_state: const { Versions::of::<N::FlowState>() },
        }
    }
}

impl core::fmt::Debug for Kind {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Kind").field(&self.descriptor.name).finish()
    }
}
