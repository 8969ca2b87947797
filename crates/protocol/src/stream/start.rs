//! Names of process starts on the wire.

use crate::ids::{Peer, RuntimeId};

/// One start of a process. Only equality says anything: a process that starts
/// again has another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessStart(pub u64);

const SWITCH: u64 = 1;
const RUNTIME: u64 = 2;
const COORDINATOR: u64 = 3;

/// What kind of process in the upper 32 bits (1 switch, 2 runtime,
/// 3 coordinator), generation or runtime id in the lower.
impl From<Peer> for ProcessStart {
    fn from(peer: Peer) -> ProcessStart {
        ProcessStart(match peer {
            Peer::Switch(generation) => SWITCH << 32 | u64::from(generation),
            Peer::Runtime(RuntimeId(id)) => RUNTIME << 32 | u64::from(id),
            Peer::Coordinator => COORDINATOR << 32,
        })
    }
}

impl ProcessStart {
    /// The peer that has this start, if it is one of the protocol's.
    pub fn peer(self) -> Option<Peer> {
        let low = self.0 as u32;
        match self.0 >> 32 {
            SWITCH => u16::try_from(low).ok().map(Peer::Switch),
            RUNTIME => Some(Peer::Runtime(RuntimeId(low))),
            COORDINATOR if low == 0 => Some(Peer::Coordinator),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_have_names_of_their_own() {
        let peers = [
            Peer::Switch(0),
            Peer::Switch(u16::MAX),
            Peer::Runtime(RuntimeId(0)),
            Peer::Runtime(RuntimeId(u32::MAX)),
            Peer::Coordinator,
        ];
        for peer in peers {
            assert_eq!(ProcessStart::from(peer).peer(), Some(peer));
        }
        for other in [0, 7, 1 << 32 | 1 << 16, 3 << 32 | 1, 4 << 32, u64::MAX] {
            assert_eq!(ProcessStart(other).peer(), None);
        }
    }
}
