//! Notes: what a packet caused beside packets, as bytes in a frame of its own
//! ([`weir_packet::Fate::Notes`]).

use weir_nf::host::AliasRequest;
use weir_nf::{PoolId, PortLease};
use weir_packet::FlowKey;

/// One thing that a packet caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note<'a> {
    /// The flow has another name from now on.
    Alias {
        /// The flow's own key.
        flow: FlowKey,
        /// The name (`flow` in it means nothing).
        request: AliasRequest,
    },
    /// A flow has ended.
    FlowEnded {
        /// Its key.
        key: FlowKey,
    },
    /// A line of the event log, with its newline.
    Event(&'a [u8]),
    /// A port was taken.
    Leased {
        /// Its pool.
        pool: PoolId,
        /// The port.
        lease: PortLease,
    },
}

/// Bytes that are no notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotNotes;

/// Appends a note.
#[allow(unused_variables, clippy::todo)] // being written
pub fn write(note: &Note<'_>, out: &mut Vec<u8>) {
    todo!()
}

/// The notes in a frame's bytes; ends after the first fault.
#[allow(unused_variables)] // being written
pub fn read(bytes: &[u8]) -> impl Iterator<Item = Result<Note<'_>, NotNotes>> {
    core::iter::empty()
}
