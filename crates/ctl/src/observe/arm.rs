//! Actions on every engine for a watch, in whichever process it is.

use weir_runtime::Runtime;

use super::tap::TapArm;
use super::trace::TraceArm;

/// To begin a watch, or to end it. Done once with each engine, on its own
/// thread; those in other processes are told, and give what they see to a feed
/// of the watch.
#[derive(Clone)]
pub enum Arm {
    /// A trace, in a slot that is the same everywhere.
    Trace(u8, TraceArm),
    /// The end of the trace in this slot.
    EndTrace(u8),
    /// A tap, under its number.
    Tap(u64, TapArm),
    /// The end of the tap of this number.
    EndTap(u64),
}

impl Arm {
    /// Does it with an engine of this process.
    pub fn apply(&self, runtime: &mut Runtime) {
        match self {
            Arm::Trace(slot, trace) => trace.arm(*slot, runtime),
            Arm::EndTrace(slot) => runtime.end_trace(*slot),
            Arm::Tap(number, tap) => tap.arm(*number, runtime),
            Arm::EndTap(number) => runtime.end_tap(*number),
        }
    }
}
