//! Configuration of a runtime, given by its driver.

use weir_packet::Advise;

use crate::runtime::Runtime;
use crate::stages::Role;

/// Configuration of a runtime.
#[derive(Clone, Copy, Debug)]
pub struct RuntimeConfig {
    /// Seed of hashes and random numbers; unpredictable in production, given
    /// in simulation.
    pub seed: u64,
    /// Asks for large pages.
    pub advise: Advise,
    /// A cycle counter, or any clock of fine grain; read once per function and
    /// burst, for the cost counters only.
    pub cycles: fn() -> u64,
    /// Bytes of events kept between two visits of the driver; 0 counts events
    /// and keeps none.
    pub event_bytes: usize,
    /// The engine works under a switch: see [`Runtime::apply`]. It holds no
    /// port block until one is granted.
    pub follows: bool,
    /// Role of the stage in its plan.
    pub role: Role,
    /// Compares the work of each function with its descriptor, packet by packet
    /// ([`Runtime::lies`]). For tests: it costs many times as much.
    pub audit: bool,
    /// Called with the runtime when it is made: arms watches.
    pub at_start: Option<RunAtStart>,
}

/// Something to do with each runtime when it is made, wherever that is: it
/// lives as long as the process.
#[derive(Clone, Copy)]
pub struct RunAtStart(&'static (dyn Fn(&mut Runtime) + Send + Sync));

impl RunAtStart {
    /// Does it with `runtime`.
    pub(crate) fn apply(&self, runtime: &mut Runtime) {
        (self.0)(runtime);
    }

    /// Keeps `action` for the life of the process.
    pub fn of(action: impl Fn(&mut Runtime) + Send + Sync + 'static) -> RunAtStart {
        RunAtStart(Box::leak(Box::new(action)))
    }
}

impl core::fmt::Debug for RunAtStart {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("RunAtStart")
    }
}

impl Default for RuntimeConfig {
    /// Seed 0, no advice, no cycles, events counted only.
    fn default() -> RuntimeConfig {
        RuntimeConfig {
            seed: 0,
            advise: weir_packet::no_advice,
            cycles: || 0,
            event_bytes: 0,
            follows: false,
            role: Role::Alone,
            audit: false,
            at_start: None,
        }
    }
}
