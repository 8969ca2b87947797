//! Names: units, views, clocks, processes.

pub use weir_nf::RuntimeId;

/// One life of a unit: a flow or a scope key, from its first packet to its
/// granted end. The low 32 bits are its place in its switch's table, the bits
/// above tell the lives in that place apart; 0 is no unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnitId(pub u64);

impl UnitId {
    /// The place in the switch's table, a small dense number.
    pub const fn slot(self) -> u32 {
        self.0 as u32
    }

    /// The number of its life in that place, from 1.
    pub const fn incarnation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// Number of a view: the switch's generation in the upper 16 bits, which view
/// of it in the lower 48. No number is used twice, not even by a later life of
/// the same key. 48 bits are 89 years of 100,000 new views in a second; a switch
/// that has used them up opens none ([`crate::switch::SwitchDrop::ViewsUsedUp`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct View(pub u64);

impl View {
    /// No view yet: lower than any.
    pub const NONE: View = View(0);

    /// The first view of a switch's generation.
    pub const fn first_of(generation: u16) -> View {
        View((generation as u64) << View::NUMBER_BITS | 1)
    }

    /// Generation of the switch that opened it.
    pub const fn generation(self) -> u16 {
        (self.0 >> View::NUMBER_BITS) as u16
    }

    /// The number of the view in its generation, from 1.
    pub const fn number(self) -> u64 {
        self.0 & View::LAST_NUMBER
    }

    /// Bits of a number below its generation.
    pub const NUMBER_BITS: u32 = 48;

    /// The last number of a generation.
    pub const LAST_NUMBER: u64 = (1 << View::NUMBER_BITS) - 1;

    /// The lowest number above this one: what is below it is this one or older.
    /// Behind a generation's last it is no view's.
    #[must_use]
    pub const fn next(self) -> View {
        View(self.0 + 1)
    }
}

/// Number of a packet in its unit, from 1, in 48 bits: nine years of a million
/// packets of one unit in a second. As the clock of a state: the last packet
/// applied to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Clock(pub u64);

impl Clock {
    /// Before the first packet.
    pub const ZERO: Clock = Clock(0);

    /// The last number that a packet may have; then the unit's packets are
    /// dropped ([`crate::switch::SwitchDrop::ClockUsedUp`]).
    pub const LAST: Clock = Clock((1 << 48) - 1);

    /// The clock after this one.
    #[must_use]
    pub const fn next(self) -> Clock {
        Clock(self.0 + 1)
    }
}

/// One process start that frames and messages go to and come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Peer {
    /// The home switch, by its generation.
    Switch(u16),
    /// A runtime; a restarted one has another id.
    Runtime(RuntimeId),
    /// The coordinator, or the comparison mode's central controller.
    Coordinator,
}
