//! Lists the states of all functions, for tests that compare runs.

use weir_nf::shown_id;
use weir_packet::FlowKey;

use crate::runtime::Runtime;

/// One state of one function.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FunctionState {
    /// Name of the function in the chain; with ` of the flow` for what it
    /// remembers of a flow beside a wider scope's state.
    pub function: String,
    /// Key of the flow, or of the function's scope, as six words.
    pub key: [u64; 6],
    /// Number of the flow, or of the function's scope key: the `flow_id`, or the
    /// `unit_id`, of events.
    pub id: u64,
    /// Bytes of the state.
    pub state: Vec<u8>,
    /// Bytes of the counters beside it.
    pub stats: Vec<u8>,
    /// Contents of the side buffers.
    pub buffers: Vec<Vec<u8>>,
}

impl FunctionState {
    /// The key.
    pub fn key(&self) -> FlowKey {
        FlowKey::from_words(self.key)
    }
}

impl Runtime {
    /// All states that are open now, sorted by function and key. A function
    /// that another stands for has that one's; one that remembers nothing of a
    /// flow has none.
    pub fn states(&self) -> Vec<FunctionState> {
        let mut states = Vec::new();
        let Some(table) = &self.table else {
            return states;
        };
        for node in self.functions.nodes() {
            let keeper = node
                .same_as
                .and_then(|n| self.functions.nodes().get(n))
                .unwrap_or(node);
            let records = match keeper.scope {
                None => &table.flows,
                Some(scope) => &table.scopes[scope].records,
            };
            let (slot, layout) = (&keeper.slot, keeper.processor.state());
            if layout.flow_bytes > 0 {
                for flow in table.flows.live() {
                    let head = table.flows.blocks.head(flow);
                    if head.opened & slot.flow_bit != 0 {
                        let block = table.flows.blocks.bytes(flow);
                        states.push(FunctionState {
                            function: format!("{} of the flow", node.name),
                            key: head.key.to_words(),
                            id: shown_id(head.id),
                            state: part(block, slot.flow_state, layout.flow_bytes).to_vec(),
                            stats: Vec::new(),
                            buffers: Vec::new(),
                        });
                    }
                }
            }
            if layout.bytes == 0 && layout.stats_bytes == 0 && slot.buffer_count == 0 {
                continue;
            }
            for record in records.live() {
                let head = records.blocks.head(record);
                if head.opened & slot.bit == 0 {
                    continue;
                }
                let block = records.blocks.bytes(record);
                let handles = part(block, slot.buffers, slot.buffer_count * 8).chunks_exact(8);
                let buffers = handles.map(|handle| {
                    let handle = handle.try_into().map_or(0, u64::from_ne_bytes);
                    self.world.buffers.bytes(handle).to_vec()
                });
                states.push(FunctionState {
                    function: node.name.clone(),
                    key: head.key.to_words(),
                    id: shown_id(head.id),
                    state: part(block, slot.state, layout.bytes).to_vec(),
                    stats: part(block, slot.stats, layout.stats_bytes).to_vec(),
                    buffers: buffers.collect(),
                });
            }
        }
        states.sort();
        states
    }
}

/// A part of a block; empty where it is not in it.
fn part(block: &[u8], start: u32, len: u32) -> &[u8] {
    let part = block.get(start as usize..(start + len) as usize);
    part.unwrap_or(&[])
}
