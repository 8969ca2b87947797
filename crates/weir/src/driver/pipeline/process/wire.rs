//! Messages between the main process and a stage's process.

use serde::{Deserialize, Serialize};
use weir_exec::ExecError;
use weir_io::shared::SharedMapping;

use super::super::super::process::outside;

/// Kinds of messages: to the stage's process the first, from it the others.
pub(in super::super::super) const HELLO: u8 = 1;
pub(super) const READY: u8 = 2;
/// Lines of events.
pub(super) const EVENTS: u8 = 3;
/// Counts so far ([`Said`]).
pub(super) const REPORT: u8 = 4;
/// The last of those: all flows have ended.
pub(super) const END: u8 = 5;
/// The stage can't be run: why.
pub(super) const FAILED: u8 = 6;

/// Longest message: all events of a burst, many times.
pub(super) const LONGEST: usize = 64 << 20;

/// Longest message of events: more are cut behind a line. A stage that has many
/// flows to end says far more at its end than is heard of a tenant at once.
pub(super) const LONGEST_EVENTS: usize = 1 << 20;

/// Words of a stage's status, in the rings' memory.
pub(super) const STATUS_WORDS: usize = 32;
/// Free frames that the process's pool has.
pub(super) const FREE: usize = 0;
/// Messages that the process sent.
pub(super) const MAIL: usize = 16;

/// The first message to a stage's process: its settings, and offsets into shared
/// memory. It carries these files, in this order: packet memory, rings, the
/// process's own waker, the waker of the next reader, the open flows
/// ([`weir_runtime::Runtime::learn`]), and the socket for commands
/// ([`super::super::super::process::command_server`]), which a tenant does not get.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) member: u8,
    /// The packet memory: small frames and their bytes, large ones and theirs.
    pub(super) layout: [u32; 4],
    /// Number of the chain, and of the step in its plan.
    pub(super) chain: usize,
    pub(super) step: usize,
    /// Stands for the chains, which the process loads and compiles itself.
    pub(super) chains: u64,
    pub(super) seed: u64,
    /// MemberId of the stage before.
    pub(super) from: u8,
    /// Offsets of the rings: packets in, packets out, free frames in and out.
    pub(super) rings: [usize; 4],
    /// Offset of the stage's status.
    pub(super) status: usize,
    /// Bytes of the notices of open flows, which come as a file.
    pub(super) open_flows_bytes: usize,
    pub(super) yield_after: u32,
    pub(super) prefetch: usize,
    pub(super) core: Option<usize>,
    /// Its thread goes before all others of its core.
    pub(super) first: bool,
    /// It is not trusted: what it is given is its own, behind a border.
    pub(super) tenant: bool,
}

impl Hello {
    /// The first message: its kind, and its bytes.
    pub(super) fn message(&self) -> Result<(u8, Vec<u8>), ExecError> {
        let bytes = serde_json::to_vec(self).map_err(|e| ExecError(e.to_string()))?;
        Ok((HELLO, bytes))
    }

    /// Notes how many bytes of open flows there are, and gives the file with them.
    pub(super) fn open_flows(&mut self, notices: &[u8]) -> Result<SharedMapping, ExecError> {
        self.open_flows_bytes = notices.len();
        SharedMapping::of_bytes("weir-flows", notices).map_err(outside)
    }
}
