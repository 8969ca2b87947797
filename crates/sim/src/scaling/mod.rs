//! Scaling at the size of NFActor's Fig. 8: long-lived flows of 60 s at 20 packets
//! per second, a load that rises and falls, and as many runtimes as it takes.
//!
//! Switch, actors and engines are the program's; [`weir_control::Scaling`] decides
//! every second on what they report. Virtual time passes in slices of a millisecond,
//! which is also how long anything is under way between two processes. What a runtime
//! can do is a number here ([`Load::capacity`]): it takes that many packets per second
//! out of a queue with a bound, and what comes when the queue is full is lost at its
//! input, as on a full ring.
//!
//! The switch keeps no copies in this scenario, so such a packet is lost for good (its
//! clock is used up by a frame `LOST`) and a loss shows at once, as in the paper.
//!
//! [`Load::scaled`] divides flows, capacity, queue and the numbers of the scaling rule
//! alike: the curves keep their shape and a run takes less.

pub(crate) mod flows;
#[cfg(test)]
mod tests;
mod world;

use serde::Serialize;
use weir_control::ScalingSettings;
use weir_protocol::settings::Dispatch;

pub use world::run;

/// The load that is offered, and the runtimes that get it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// The flows' seed.
    pub seed: u64,
    /// Life of a flow, in seconds. Default 60.
    pub flow_seconds: u32,
    /// Packets per second of a flow. Default 20; divides 1,000.
    pub flow_rate: u32,
    /// Flows that live at the beginning and at the end. Default 2,000.
    pub low: u32,
    /// Flows that live when most do. Default 30,000.
    pub high: u32,
    /// Seconds at `low`. Default 30.
    pub before: u32,
    /// Seconds of the rise, of the time at `high`, and of the fall. Default 120 each.
    pub rise: u32,
    /// See `rise`.
    pub hold: u32,
    /// See `rise`.
    pub fall: u32,
    /// Seconds at `low` again. Default 90.
    pub after: u32,
    /// Packets per second that a runtime can do. Default 100,000.
    pub capacity: u32,
    /// Packets that wait at a runtime's input at most. Default 4,096.
    pub queue: u32,
    /// Seconds from asking for a runtime until it is there. Default 2.
    pub start_delay: u32,
    /// The policy for new flows. Default round robin.
    pub dispatch: Dispatch,
    /// The rule.
    pub scaling: ScalingSettings,
}

impl Default for Load {
    fn default() -> Load {
        Load {
            seed: 1,
            flow_seconds: 60,
            flow_rate: 20,
            low: 2_000,
            high: 30_000,
            before: 30,
            rise: 120,
            hold: 120,
            fall: 120,
            after: 90,
            capacity: 100_000,
            queue: 4_096,
            start_delay: 2,
            dispatch: Dispatch::RoundRobin,
            scaling: ScalingSettings::default(),
        }
    }
}

impl Load {
    /// The same curve with `parts` times fewer flows, and all that is compared with
    /// their number divided likewise.
    #[must_use]
    pub fn scaled(mut self, parts: u32) -> Load {
        let parts = parts.max(1);
        for number in [
            &mut self.low,
            &mut self.high,
            &mut self.capacity,
            &mut self.queue,
            &mut self.scaling.batch,
        ] {
            *number = (*number / parts).max(1);
        }
        self.scaling.drops = (self.scaling.drops / u64::from(parts)).max(1);
        self.scaling.capacity /= u64::from(parts);
        self
    }

    /// Virtual seconds of the run.
    pub fn seconds(&self) -> u32 {
        self.before + self.rise + self.hold + self.fall + self.after
    }

    /// Flows wanted at a millisecond of the run.
    pub(crate) fn wanted(&self, ms: u64) -> f64 {
        let (low, high) = (f64::from(self.low), f64::from(self.high));
        let mut at = ms as f64 / 1_000.0 - f64::from(self.before);
        for (length, from, to) in [
            (self.rise, low, high),
            (self.hold, high, high),
            (self.fall, high, low),
        ] {
            let length = f64::from(length);
            if at < length {
                return from + (to - from) * (at / length).max(0.0);
            }
            at -= length;
        }
        low
    }
}

/// One second of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// The second, from 1, at whose end this was so.
    pub second: u32,
    /// Packets offered in it.
    pub offered: u64,
    /// Packets let out.
    pub out: u64,
    /// Packets lost at full inputs of runtimes.
    pub lost: u64,
    /// Packets that the switch or a function dropped.
    pub dropped: u64,
    /// Flows that send.
    pub flows: u32,
    /// Runtimes that run, the one being emptied included.
    pub runtimes: u32,
    /// Runtimes being started.
    pub starting: u32,
    /// Units told to move by scaling out.
    pub moved: u32,
    /// The decisions at its end.
    pub actions: Vec<String>,
}

/// A whole run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Packets offered.
    pub offered: u64,
    /// Packets let out.
    pub out: u64,
    /// Packets lost at full inputs of runtimes.
    pub lost: u64,
    /// Packets dropped otherwise.
    pub dropped: u64,
    /// Packets still under way at the end: 0, or something is stuck.
    pub held: u64,
    /// Packets that left before one that came earlier in their flow.
    pub reordered: u64,
    /// Packets that left twice.
    pub doubled: u64,
    /// Most runtimes at a time.
    pub most_runtimes: u32,
    /// Runtimes at the end.
    pub runtimes: u32,
    /// Runtimes started.
    pub added: u32,
    /// Runtimes stopped.
    pub removed: u32,
    /// Units told to move by scaling out.
    pub moved: u64,
}
