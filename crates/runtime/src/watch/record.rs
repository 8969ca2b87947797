//! The trace of a packet.

use weir_nf::ShownField;
use weir_packet::dissect::HeaderField;
use weir_packet::{FlowKey, Side, Time};

/// A field before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldChange {
    /// Its name.
    pub name: String,
    /// The old value; `None` if the field did not exist.
    pub before: Option<String>,
    /// The new value; `None` if the field no longer exists.
    pub after: Option<String>,
}

/// A packet on its way through one runtime, once. A packet that is turned, one
/// that waits, and one that goes through several stages have several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketTrace {
    /// Name of the chain.
    pub chain: String,
    /// Number of the runtime's first function in the chain.
    pub first_function: u8,
    /// Ingress time.
    pub time: Time,
    /// Number of the ingress port.
    pub port: u8,
    /// The side it comes from.
    pub side: Side,
    /// Its number at the ingress port, from 1.
    pub sequence: u64,
    /// Its second way through the chain, or its first after it has waited.
    pub again: bool,
    /// It was applied under a switch: its unit, number and view.
    pub under_switch: bool,
    /// The packet in one line, as it came.
    pub summary: String,
    /// Its headers, as it came.
    pub headers: Vec<HeaderField>,
    /// The `malformed.` reason, if the packet is malformed.
    pub malformed: Option<String>,
    /// Its flow.
    pub flow: Option<FlowTrace>,
    /// Flows that ended before it could enter its own: how many, why.
    pub ended: Vec<(&'static str, u64)>,
    /// Functions in order.
    pub steps: Vec<Step>,
    /// Disposition of the packet.
    pub disposition: DispositionTrace,
    /// The packet in one line, as it leaves.
    pub leaves: Option<String>,
    /// Cycles from its arrival to its leave, by the clock that the driver gave;
    /// looking on is part of it.
    pub cycles: u64,
}

/// The flow of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowTrace {
    /// Key: ends as of the flow's first packet.
    pub key: FlowKey,
    /// Number of the flow: the `flow_id` of events.
    pub id: u64,
    /// The packet's number in its flow, as the stage counts.
    pub clock: u64,
    /// Record in the table.
    pub record: u32,
    /// The packet has opened it.
    pub is_new: bool,
    /// The packet goes from client to server.
    pub to_server: bool,
    /// Phase of the connection before the packet, and after it.
    pub phase: (Option<&'static str>, &'static str),
}

/// One function's work on a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Name of the function in the chain.
    pub function: String,
    /// Its kind.
    pub nf: &'static str,
    /// It was not called: the verdict of this earlier one stands for its own.
    pub same_as: Option<String>,
    /// Verdict of the function.
    pub verdict: StepVerdict,
    /// Fields of headers that it changed, and what it changed beside them.
    pub changed: Vec<FieldChange>,
    /// The fields of its flow state that changed.
    pub state: Vec<FieldChange>,
    /// All that it remembers afterwards, where that was asked for.
    pub full_state: Vec<ShownField>,
    /// Its counters that grew, and by how much.
    pub counters: Vec<(&'static str, u64)>,
    /// Events that it wrote, as JSON.
    pub events: Vec<String>,
    /// Packets that it made.
    pub made: Vec<Made>,
    /// Further names of the flow that it asked for.
    pub aliases: Vec<FlowKey>,
    /// Cycles spent in it.
    pub cycles: u64,
}

/// A packet that a function made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// The packet in one line.
    pub summary: String,
    /// The side on which it leaves.
    pub towards: Side,
}

/// A function's verdict and where it leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepVerdict {
    /// On by a link.
    On {
        /// `pass`, or the link's label.
        label: &'static str,
        /// The next function, or `out`.
        to: String,
    },
    /// Dropped, as counted in the report: `NAME.reason`.
    Dropped(String),
    /// Back through the chain, as from the other side.
    Turned,
    /// None, which is a fault of the function.
    Nothing,
}

/// Disposition of a packet in this runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DispositionTrace {
    /// It leaves on this side.
    Out(Side),
    /// It goes on in a later stage, at this function of the chain's plan.
    Later(u8),
    /// Dropped, under this reason.
    Dropped(String),
    /// It goes through the chain once more.
    Turned,
    /// A later fragment: it waits for the first one.
    Held,
}
