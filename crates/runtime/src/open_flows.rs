//! Open flows, for those who look at an engine that runs: one by one, by the
//! numbers of their records, so that a look at many can be spread over time.

use weir_nf::host::Timeouts;
use weir_nf::{CloseReason, Phase, Shown, ShownField, shown_id};
use weir_packet::{Direction, FlowKey, Frame, FramePool, Time};

use crate::flows::FlowTable;
use crate::functions::RunNode;
use crate::runtime::Runtime;
use crate::stages::Kind;

/// An open flow as it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFlow {
    /// Number of its record: one flow's, as long as it is open.
    pub record: u32,
    /// Its number: the `flow_id` of events. No other flow of the run's chain has it.
    pub id: u64,
    /// Its key.
    pub key: FlowKey,
    /// Direction of the client's packets relative to the key.
    pub client: Direction,
    /// Phase of the connection.
    pub phase: Phase,
    /// Its packets.
    pub packets: u64,
    /// Time of its first packet.
    pub opened: Time,
    /// Time of its last packet.
    pub last_seen: Time,
    /// Idle time after which it ends, in milliseconds; `None` for never.
    pub idle_ms: Option<u32>,
}

/// A further name of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowName {
    /// The key that packets have under this name. Of an open one, the other
    /// end's address and port are zero.
    pub key: FlowKey,
    /// Direction of the client's packets relative to it.
    pub client: Direction,
    /// Holds for packets from anywhere to the client's end.
    pub open: bool,
}

/// The state that a function keeps of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// Name of the function in the chain, and its kind.
    pub function: String,
    /// Kind of function.
    pub kind: &'static str,
    /// The scope of the state: `flow`, or a wider one.
    pub scope: String,
    /// False where no packet of the flow (or its scope) has reached it: the
    /// rest is empty.
    pub opened: bool,
    /// Version of the state's layout.
    pub version: u16,
    /// The state field by field, as the function tells it.
    pub fields: Vec<ShownField>,
    /// Bytes of the state.
    pub state: Vec<u8>,
    /// Bytes of the counters beside it.
    pub stats: Vec<u8>,
    /// Bytes in each of its side buffers.
    pub buffers: Vec<usize>,
}

impl Runtime {
    /// Name of the chain.
    pub fn chain(&self) -> &str {
        self.functions.chain()
    }

    /// Time of the latest packet.
    pub fn now(&self) -> Time {
        Time(self.now)
    }

    /// One more than the highest number that a flow's record has had.
    pub fn flow_records(&self) -> u32 {
        self.table.as_ref().map_or(0, |t| t.flows.used())
    }

    /// The flow in this record, if one is open there.
    pub fn open_flow(&self, record: u32) -> Option<OpenFlow> {
        let flows = &self.table.as_ref()?.flows;
        if !flows.is_live(record) {
            return None;
        }
        let head = flows.blocks.head(record);
        let opened = flows.cold.get(record as usize).map(|cold| cold.opened);
        Some(OpenFlow {
            record,
            id: shown_id(head.id),
            key: head.key,
            client: head.client_direction(),
            phase: head.phase(),
            packets: head.clock,
            opened: Time(opened.unwrap_or(head.last_seen)),
            last_seen: Time(head.last_seen),
            idle_ms: (head.idle_ms != Timeouts::NEVER).then_some(head.idle_ms),
        })
    }

    /// The further names of the flow in this record: its own and those of its
    /// units.
    pub fn flow_names(&self, record: u32) -> Vec<FlowName> {
        let Some(table) = &self.table else {
            return Vec::new();
        };
        let Some(cold) = table.flows.cold.get(record as usize) else {
            return Vec::new();
        };
        let (mut link, mut parent) = (cold.aliases, cold.parent);
        let mut scopes = table.scopes.iter();
        let mut names = Vec::new();
        loop {
            names.extend(table.aliases_from(link).map(|alias| FlowName {
                key: alias.key,
                client: alias.client,
                open: alias.open,
            }));
            let unit = parent.checked_sub(1).zip(scopes.next());
            let Some((unit, scope)) = unit else {
                return names;
            };
            let Some(cold) = scope.records.cold.get(unit as usize) else {
                return names;
            };
            (link, parent) = (cold.aliases, cold.parent);
        }
    }

    /// True where this record is that flow's: also in a later stage, which has
    /// the records' numbers from the first one.
    pub fn holds_flow(&self, record: u32, id: u64) -> bool {
        let Some(table) = &self.table else {
            return false;
        };
        table.flows.is_live(record) && shown_id(table.flows.blocks.head(record).id) == id
    }

    /// The states of each function of the stage for the flow in this record.
    /// A function that another stands for has that one's.
    pub fn remembered(&self, record: u32) -> Vec<Remembered> {
        let Some(table) = &self.table else {
            return Vec::new();
        };
        if !table.flows.is_live(record) {
            return Vec::new();
        }
        let nodes = self.functions.nodes();
        let remembered = nodes.iter().map(|node| {
            let keeper = node.same_as.and_then(|n| nodes.get(n)).unwrap_or(node);
            let mut found = Remembered {
                function: node.name.clone(),
                kind: node.processor.descriptor().name,
                scope: keeper.processor.scope().describe(),
                opened: false,
                version: keeper.processor.state().version,
                fields: Vec::new(),
                state: Vec::new(),
                stats: Vec::new(),
                buffers: Vec::new(),
            };
            if let Some(block) = self.block_of(table, keeper, record) {
                self.show_state(table, keeper, record, block, &mut found);
            }
            found
        });
        remembered.collect()
    }

    /// The block with a function's state for the flow in this record, if it is open.
    fn block_of<'t>(&self, table: &'t FlowTable, node: &RunNode, record: u32) -> Option<&'t [u8]> {
        let (records, place) = match node.scope {
            None => (&table.flows, record),
            Some(scope) => {
                let unit = match self.plan.fed() {
                    Some(fed) => fed.unit_of(record, scope),
                    None => table.unit_of(record, scope),
                };
                (&table.scopes.get(scope)?.records, unit?)
            }
        };
        let is_open =
            records.is_live(place) && records.blocks.head(place).opened & node.slot.bit != 0;
        is_open.then(|| records.blocks.bytes(place))
    }

    /// Fills in the state of a function that is in this block.
    fn show_state(
        &self,
        table: &FlowTable,
        node: &RunNode,
        record: u32,
        block: &[u8],
        found: &mut Remembered,
    ) {
        let (slot, layout) = (&node.slot, node.processor.state());
        let part = |start: u32, len: u32| {
            let part = block.get(start as usize..(start + len) as usize);
            part.unwrap_or(&[])
        };
        let state = part(slot.state, layout.bytes);
        let stats = part(slot.stats, layout.stats_bytes);
        let mut shown = Shown::default();
        node.processor.show(state, stats, &mut shown);
        found.fields = shown.into_fields();
        if table.flows.blocks.head(record).opened & slot.flow_bit != 0 {
            let own = table.flows.blocks.bytes(record);
            let start = slot.flow_state as usize;
            let own = own.get(start..start + layout.flow_bytes as usize);
            // `show_flow` replaces its argument, so it gets one of its own.
            let mut beside = Shown::default();
            node.processor.show_flow(own.unwrap_or(&[]), &mut beside);
            found.fields.extend(beside.into_fields());
        }
        let handles = part(slot.buffers, slot.buffer_count * 8).chunks_exact(8);
        found.opened = true;
        (found.state, found.stats) = (state.to_vec(), stats.to_vec());
        found.buffers = handles
            .map(|handle| handle.try_into().map_or(0, u64::from_ne_bytes))
            .map(|handle| self.world.buffers.bytes(handle).len())
            .collect();
    }

    /// True if flows can be ended from outside here: not under a switch, which
    /// numbers what ends, nor in a later stage, which is told.
    pub fn can_end_flows(&self) -> bool {
        self.follow.is_none() && self.plan.kind() != Kind::Later
    }

    /// Under a switch: the unit of the flow in this record, whose end the switch
    /// is to be asked for.
    pub fn unit_under_switch(&self, record: u32) -> Option<u64> {
        let follow = self.follow.as_ref()?;
        follow.units.unit_of(record).map(|unit| unit.id)
    }

    /// Ends the flow in this record if it is the one of this id, as if it had
    /// been idle too long: functions are told, names and what was leased go
    /// back. Notices for the later stages of a plan are added to `output`.
    /// False where it is not there, or can't be ended from outside
    /// ([`Runtime::can_end_flows`]).
    pub fn end_open_flow(
        &mut self,
        pool: &mut FramePool,
        record: u32,
        id: u64,
        output: &mut Vec<Frame>,
    ) -> bool {
        let here = self.open_flow(record).is_some_and(|flow| flow.id == id);
        if !here || !self.can_end_flows() {
            return false;
        }
        if self.plan.kind() == Kind::First {
            // Earlier notices come first.
            if !self.tell(pool, output) {
                return false;
            }
        }
        self.end_flow(pool, record, CloseReason::Ended);
        if self.plan.kind() == Kind::First {
            self.tell(pool, output);
        }
        self.drop_asked(pool);
        true
    }
}
