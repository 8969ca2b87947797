//! Load reports of runtimes, and the rates between two of them.

use weir_protocol::message::Workload;

/// Nanoseconds of a second.
const SECOND: u128 = 1_000_000_000;

/// A runtime's load, counted from its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Packets taken in.
    pub packets: u64,
    /// Packets lost at its input.
    pub drops: u64,
    /// Time, in ns, in which ports were not read because so many packets waited for it. Where ports wait,
    /// it shows an overload as drops do elsewhere.
    pub held_back: u64,
    /// Units owned now.
    pub units: u32,
}

/// A runtime's load between two reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Packets per second taken in.
    pub packets: u64,
    /// Packets per second lost at its input.
    pub drops: u64,
    /// Share of the time in which ports waited for it, in parts per thousand.
    pub held_back: u32,
}

impl Load {
    /// The rates since an earlier report, `ns` ago; `None` where it says nothing of them: it has
    /// counted anew meanwhile, or there was no time between.
    pub(super) fn since(&self, earlier: &Load, ns: u64) -> Option<Rates> {
        let packets = self.packets.checked_sub(earlier.packets)?;
        let drops = self.drops.checked_sub(earlier.drops)?;
        let held_back = self.held_back.checked_sub(earlier.held_back)?;
        if ns == 0 {
            return None;
        }
        let per = |number: u64, of: u128| {
            let rate = u128::from(number) * of / u128::from(ns);
            u64::try_from(rate).unwrap_or(u64::MAX)
        };
        Some(Rates {
            packets: per(packets, SECOND),
            drops: per(drops, SECOND),
            held_back: per(held_back, 1_000).min(1_000) as u32,
        })
    }
}

impl From<Workload> for Load {
    /// Of a runtime that loses packets where its input is full.
    fn from(said: Workload) -> Load {
        Load {
            packets: said.packets,
            drops: said.drops,
            held_back: 0,
            units: said.units,
        }
    }
}
