//! Names of process starts on the wire.

use crate::ids::{Peer, RuntimeId};

/// One start of a process. Only equality says anything: a process that starts
/// again has another one, and so other streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessStart(pub u64);

const SWITCH: u64 = 1;
const RUNTIME: u64 = 2;
const COORDINATOR: u64 = 3;

/// Bits below the kind of process.
const KIND_SHIFT: u32 = 48;
/// Bits below a switch's generation: those of the start.
const GENERATION_SHIFT: u32 = 32;

impl ProcessStart {
    /// A start of `peer`: the kind of process in the upper 16 bits (1 switch,
    /// 2 runtime, 3 coordinator), a switch's generation in the next 16, `start` in
    /// the lower 32.
    ///
    /// `start` is a number that no other start of this peer has had: a random one,
    /// or one that whoever starts processes has counted. A stream of two starts
    /// with one number would take frames of the earlier one for its own. Of a
    /// runtime the id names the start already, and `start` is not used.
    pub const fn of(peer: Peer, start: u32) -> ProcessStart {
        let start = start as u64;
        ProcessStart(match peer {
            Peer::Switch(generation) => {
                SWITCH << KIND_SHIFT | (generation as u64) << GENERATION_SHIFT | start
            }
            Peer::Runtime(RuntimeId(id)) => RUNTIME << KIND_SHIFT | id as u64,
            Peer::Coordinator => COORDINATOR << KIND_SHIFT | start,
        })
    }

    /// The peer that has this start, if it is one of the protocol's.
    pub const fn peer(self) -> Option<Peer> {
        let middle = (self.0 >> GENERATION_SHIFT) as u16;
        match self.0 >> KIND_SHIFT {
            SWITCH => Some(Peer::Switch(middle)),
            RUNTIME if middle == 0 => Some(Peer::Runtime(RuntimeId(self.0 as u32))),
            COORDINATOR if middle == 0 => Some(Peer::Coordinator),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_start_of_a_peer_has_a_name_of_its_own() {
        let peers = [
            Peer::Switch(0),
            Peer::Switch(1),
            Peer::Switch(u16::MAX),
            Peer::Runtime(RuntimeId(0)),
            Peer::Runtime(RuntimeId(u32::MAX)),
            Peer::Coordinator,
        ];
        let mut names = Vec::new();
        for peer in peers {
            for start in [0, 1, u32::MAX] {
                let name = ProcessStart::of(peer, start);
                assert_eq!(name.peer(), Some(peer));
                names.push(name);
            }
        }
        names.sort_unstable();
        names.dedup();
        // A runtime's id is its start.
        assert_eq!(names.len(), 4 * 3 + 2);
        for other in [
            0,
            7,
            1 << 32 | 1,
            2 << 48 | 1 << 32,
            3 << 48 | 1 << 32 | 1,
            4 << 48,
            u64::MAX,
        ] {
            assert_eq!(ProcessStart(other).peer(), None);
        }
    }
}
