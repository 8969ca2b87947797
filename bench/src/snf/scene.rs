//! Settings of a run: its traces, and the units and delays of the paper's test bed.

use weir_protocol::flowlets::FlowletSettings;

use super::assign::Mode;
use super::bed::{Setting, StateMode, Times};
use super::trace::{Shape, Trace};
use super::units::{Pace, UnitSettings};

/// Nanoseconds of a unit's capacity that a share of a core may use at once.
const AT_ONCE: u64 = 1_000_000;

/// The two kinds of units.
pub(super) const PACES: [(&str, Pace); 2] = [
    ("share of a core", Pace::Share(AT_ONCE)),
    ("strict", Pace::Strict),
];

/// Work is given out in these ways, as in SNF §9.1.
pub(super) fn modes() -> [(Mode, StateMode); 4] {
    [
        (Mode::Vanilla, StateMode::None),
        (Mode::Smart(100_000_000), StateMode::Reactive),
        (Mode::Smart(50_000_000), StateMode::Reactive),
        (
            Mode::Flowlet(FlowletSettings::DEFAULT),
            StateMode::Proactive,
        ),
    ]
}

/// The network and the states of the model: a copy takes 140 µs, and 160 with the switch's
/// request (the paper's "about 160 µs", §9.6).
pub(super) const TIMES: Times = Times {
    way: 20_000,
    pack: 60_000,
    store: 5_000,
};

/// Units of 1 Gbit/s, a NAT's work, started within 10 ms.
pub(super) const UNITS: UnitSettings = UnitSettings {
    capacity: 125_000_000,
    work: 400,
    pace: Pace::Share(AT_ONCE),
    start: 10_000_000,
    least: 2,
    most: 60,
};

/// Scale and seed of all runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene {
    /// Times fewer flows than the paper's traces have.
    pub(super) parts: u32,
    pub(super) seed: u64,
}

impl Scene {
    /// Traffic of a shape.
    pub(super) fn trace(&self, shape: Shape) -> Trace {
        Trace::draw(shape.scaled(self.parts), self.seed)
    }

    /// A run with the defaults.
    pub(super) fn setting(&self, mode: Mode, state: StateMode) -> Setting {
        Setting {
            mode,
            state,
            times: TIMES,
            units: UNITS,
            seed: self.seed,
            probe: 0,
        }
    }

    /// A run with flowlets and copies ahead.
    pub(super) fn flowlets(&self, settings: FlowletSettings) -> Setting {
        let state = match settings.copies {
            0 => StateMode::Reactive,
            _ => StateMode::Proactive,
        };
        self.setting(Mode::Flowlet(settings), state)
    }
}
