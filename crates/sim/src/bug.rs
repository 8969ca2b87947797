//! The bugs that can be planted.

use weir_protocol::plant::Plant;

use crate::slip::Slip;

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A part of the protocol is left out.
    Protocol(Plant),
    /// A process says something else than it should.
    Between(Slip),
}

impl Bug {
    /// All, in the order of the documentation.
    pub fn all() -> impl Iterator<Item = Bug> {
        let slips = Slip::ALL.iter().copied().map(Bug::Between);
        Plant::ALL.into_iter().map(Bug::Protocol).chain(slips)
    }

    /// Its name on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            Bug::Protocol(plant) => plant.name(),
            Bug::Between(slip) => slip.name(),
        }
    }

    /// The part of the protocol that it leaves out.
    pub const fn plant(self) -> Option<Plant> {
        match self {
            Bug::Protocol(plant) => Some(plant),
            Bug::Between(_) => None,
        }
    }

    pub(crate) const fn slip(self) -> Option<Slip> {
        match self {
            Bug::Between(slip) => Some(slip),
            Bug::Protocol(_) => None,
        }
    }
}
