//! Limits of a border, reasons of its refusals, and its counts.

use std::time::Duration;

use weir_packet::Internal;

/// Acts of a process that no bug of weir's explains: it is not heard any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offence {
    /// A number that names no frame.
    NoSuchFrame,
    /// A frame that the tenant does not have: given twice, or never lent.
    NotLent,
    /// A ring's position, or its word on what it is done with, makes no sense.
    BadPosition,
    /// A packet that begins or ends outside its frame.
    BadRange,
    /// A packet for a processor that no packet of this stage goes to.
    BadNext,
    /// A packet that it made and may not make, or that says of itself what
    /// can't be.
    BadMade,
    /// Nothing came back for too long, it was not ready for too long, or it
    /// took nothing while something had to be told.
    Stalled,
    /// Its messages over the channel are invalid, or too long.
    BadMessage,
}

impl Offence {
    /// All, in the order of their numbers.
    pub const ALL: [Offence; 8] = [
        Offence::NoSuchFrame,
        Offence::NotLent,
        Offence::BadPosition,
        Offence::BadRange,
        Offence::BadNext,
        Offence::BadMade,
        Offence::Stalled,
        Offence::BadMessage,
    ];

    /// Name in counts.
    pub const fn name(self) -> &'static str {
        match self {
            Offence::NoSuchFrame => "no_such_frame",
            Offence::NotLent => "not_lent",
            Offence::BadPosition => "bad_position",
            Offence::BadRange => "bad_range",
            Offence::BadNext => "bad_next",
            Offence::BadMade => "bad_made",
            Offence::Stalled => "stalled",
            Offence::BadMessage => "bad_message",
        }
    }
}

/// Limits of a border.
#[derive(Clone, Debug)]
pub struct BorderSettings {
    /// Packets for these processors, by their numbers from 1, are the stage's:
    /// others pass without being shown to it.
    pub stage: std::ops::RangeInclusive<u8>,
    /// Processors to which its packets may go: numbers from 1; 0 leaves.
    pub exits: Vec<u8>,
    /// True if it may write to packets; what it wrote is left behind else.
    pub writes: bool,
    /// True if it may make packets.
    pub makes: bool,
    /// True if its packets wait for it while it is being started; they are
    /// dropped else.
    pub waits_for_start: bool,
    /// How long others wait for it at most ([`super::MOST_WAIT`]).
    pub most_wait: Duration,
    /// How long nothing may move while it has packets ([`super::STALL`]).
    pub stall: Duration,
}

/// Counts of a border.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BorderCounts {
    /// Packets that came here, and that went on from here; those that passed
    /// without being lent are in both.
    pub came: u64,
    /// As above; with those that the tenant made.
    pub went: u64,
    /// Packets copied to the tenant.
    pub lent: u64,
    /// Packets that it made.
    pub made: u64,
    /// Packets that it made beyond what it may, and that went nowhere.
    pub made_too_many: u64,
    /// Packets that it did not give back.
    pub dropped: u64,
    /// Packets dropped since the tenant did not keep up.
    pub stalled: u64,
    /// Octets of notices that it was shown.
    pub told_bytes: u64,
    /// Packets dropped since the tenant is being started, or is not any more.
    pub gone: u64,
    /// Packets that came back as they must not.
    pub refused: u64,
    /// Packets that it had when it ended.
    pub died: u64,
    /// By [`Offence::ALL`].
    pub offences: [u64; Offence::ALL.len()],
    /// States that cannot occur.
    pub internal: Internal,
}
