//! What a runtime counted.

/// Counts of one runtime, from its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Name of the chain.
    pub chain: String,
    /// Packets taken in.
    pub packets_in: u64,
    /// Their bytes (as captured).
    pub bytes_in: u64,
    /// Packets put out, emitted ones included.
    pub packets_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Packets that functions made.
    pub emitted: u64,
    /// Packets functions could not make: no frame was free.
    pub emits_lost: u64,
    /// Packets that wait in the runtime (fragments without their first one).
    pub held: u64,
    /// Packets dropped, by reason: `malformed.…`, an engine's reason, or
    /// `NAME.reason` of a function. Reasons without a packet are left out.
    pub drops: Vec<(String, u64)>,
    /// Malformed packets by reason, dropped or passed on.
    pub malformed: Vec<(String, u64)>,
    /// Flows.
    pub flows: FlowReport,
    /// Functions, in the order of the chain.
    pub functions: Vec<FunctionReport>,
    /// Events recorded.
    pub events: u64,
    /// Events lost because the buffer for them was full.
    pub events_lost: u64,
    /// Under a switch: aliases, ends and leases that found no frame to travel in.
    pub notes_lost: u64,
    /// Under a switch: ticks that ended nothing because no frame was free.
    pub ticks_lost: u64,
    /// Under a switch: later fragments whose first one was never seen.
    pub fragments_alone: u64,
    /// Under a switch: first fragments that found no place to be remembered.
    pub datagrams_forgotten: u64,
    /// Cycles spent outside functions: parsing, looking up, accounting.
    pub engine_cycles: u64,
}

impl Report {
    /// Packets dropped for all reasons.
    pub fn dropped(&self) -> u64 {
        self.drops.iter().map(|(_, n)| n).sum()
    }

    /// True where every packet is accounted for:
    /// `packets_in = packets_out − emitted + Σ drops + held`.
    pub fn balances(&self) -> bool {
        self.packets_in + self.emitted == self.packets_out + self.dropped() + self.held
    }
}

/// Flows of a runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowReport {
    /// True where the chain keeps flows.
    pub tracked: bool,
    /// Flows (both directions are one) opened since the start.
    pub seen: u64,
    /// Flows open now.
    pub active: u64,
    /// Units of wider scopes open now.
    pub units: u64,
    /// Aliases registered now.
    pub aliases: u64,
    /// Aliases that could not be had.
    pub aliases_refused: u64,
    /// Flows ended, by why.
    pub ended: Vec<(&'static str, u64)>,
    /// Ports leased now.
    pub leased: u64,
    /// Bytes of side buffers in use now.
    pub buffer_bytes: u64,
    /// Times a side buffer could not grow because the arena was used up.
    pub buffers_refused: u64,
}

/// One function's own counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionReport {
    /// Name in the chain.
    pub name: String,
    /// Kind of function.
    pub nf: &'static str,
    /// Packets that reached it.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Cycles spent in it, by the clock that the driver gave.
    pub cycles: u64,
    /// Packets it dropped.
    pub dropped: u64,
    /// Its own counters.
    pub counters: Vec<(&'static str, u64)>,
    /// Its tally: names found at run time.
    pub tally: Vec<(String, u64)>,
    /// What the tally had no place for.
    pub tally_other: u64,
}
