//! Faults: small values that combine.

use core::fmt;
use core::str::FromStr;

/// One kind of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// Links take long, each its own time, with jitter.
    Delay,
    /// Links lose one frame in fifty.
    Loss,
    /// Links lose most frames for a while.
    LossyBurst,
    /// Links deliver frames out of order.
    Reorder,
    /// Links deliver one frame in thirty twice.
    Duplicate,
    /// Two processes can't reach each other for a while.
    Partition,
    /// A process does nothing for a while and then goes on.
    Pause,
    /// A runtime dies; another may start in its place, with another id.
    Crash,
    /// Another runtime may die before what the first one left is healed.
    DoubleCrash,
    /// A runtime that is alive is thought dead.
    FalseSuspicion,
    /// The switch dies and is started again, with a higher generation.
    SwitchRestart,
    /// Little room in the switch's memory of packets and in hold buffers.
    FullBuffers,
    /// The switch keeps no packet: what is lost is replaced by `Lost`.
    NothingKept,
    /// Damaged and made-up frames and messages that no process sent.
    Forgery,
    /// All runtimes of a host die at once.
    HostLoss,
    /// Nothing gets from one process to another for a while; back it does.
    OneWay,
    /// Links between two processes are slow for a while.
    Grey,
    /// Two processes can't reach each other any more; then one is suspected.
    CutOff,
    /// Processes' clocks differ by seconds, and jump ahead.
    Skew,
    /// Packet memories are small.
    FewFrames,
    /// A restarted switch is not told of a runtime that lives.
    Unlisted,
    /// The switch goes on for a while after its successor has started.
    TwoSwitches,
    /// All runtimes die at once, and others start later; loggers stay.
    AllRuntimes,
}

impl Fault {
    /// All, in the order of their bits.
    pub const ALL: [Fault; 23] = [
        Fault::Delay,
        Fault::Loss,
        Fault::LossyBurst,
        Fault::Reorder,
        Fault::Duplicate,
        Fault::Partition,
        Fault::Pause,
        Fault::Crash,
        Fault::DoubleCrash,
        Fault::FalseSuspicion,
        Fault::SwitchRestart,
        Fault::FullBuffers,
        Fault::NothingKept,
        Fault::Forgery,
        Fault::HostLoss,
        Fault::OneWay,
        Fault::Grey,
        Fault::CutOff,
        Fault::Skew,
        Fault::FewFrames,
        Fault::Unlisted,
        Fault::TwoSwitches,
        Fault::AllRuntimes,
    ];

    /// Those that threads of one process, joined by queues, can have.
    pub(crate) const IN_PROCESS: [Fault; 7] = [
        Fault::Delay,
        Fault::Pause,
        Fault::Crash,
        Fault::DoubleCrash,
        Fault::FullBuffers,
        Fault::FewFrames,
        Fault::AllRuntimes,
    ];

    /// Its name on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            Fault::Delay => "delay",
            Fault::Loss => "loss",
            Fault::LossyBurst => "lossy-burst",
            Fault::Reorder => "reorder",
            Fault::Duplicate => "duplicate",
            Fault::Partition => "partition",
            Fault::Pause => "pause",
            Fault::Crash => "crash",
            Fault::DoubleCrash => "double-crash",
            Fault::FalseSuspicion => "false-suspicion",
            Fault::SwitchRestart => "switch-restart",
            Fault::FullBuffers => "full-buffers",
            Fault::NothingKept => "nothing-kept",
            Fault::Forgery => "forgery",
            Fault::HostLoss => "host-loss",
            Fault::OneWay => "one-way",
            Fault::Grey => "grey",
            Fault::CutOff => "cut-off",
            Fault::Skew => "skew",
            Fault::FewFrames => "few-frames",
            Fault::Unlisted => "unlisted",
            Fault::TwoSwitches => "two-switches",
            Fault::AllRuntimes => "all-runtimes",
        }
    }

    const fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// A set of faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults(u32);

impl Faults {
    /// None.
    pub const NONE: Faults = Faults(0);

    /// Those under which every seed is to hold today: all before
    /// [`Fault::OneWay`].
    pub const ALL: Faults = Faults((1 << Fault::OneWay as u32) - 1);

    /// All that there are.
    pub const HOSTILE: Faults = Faults((1 << Fault::ALL.len()) - 1);

    /// True where `fault` is among them.
    pub const fn has(self, fault: Fault) -> bool {
        self.0 & fault.bit() != 0
    }

    /// With one more.
    #[must_use]
    pub const fn with(self, fault: Fault) -> Faults {
        Faults(self.0 | fault.bit())
    }

    /// With one less.
    #[must_use]
    pub const fn without(self, fault: Fault) -> Faults {
        Faults(self.0 & !fault.bit())
    }

    /// Those that both have.
    #[must_use]
    pub const fn and(self, other: Faults) -> Faults {
        Faults(self.0 & other.0)
    }

    /// Those that one of both has.
    #[must_use]
    pub const fn or(self, other: Faults) -> Faults {
        Faults(self.0 | other.0)
    }

    /// They, in order.
    pub fn iter(self) -> impl Iterator<Item = Fault> {
        Fault::ALL.into_iter().filter(move |f| self.has(*f))
    }

    /// True where there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<Fault> for Faults {
    fn from_iter<I: IntoIterator<Item = Fault>>(faults: I) -> Faults {
        faults.into_iter().fold(Faults::NONE, Faults::with)
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        for (i, fault) in self.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            write!(f, "{comma}{}", fault.name())?;
        }
        Ok(())
    }
}

impl FromStr for Faults {
    type Err = String;

    /// `all`, `hostile`, `none`, or names joined by commas.
    fn from_str(text: &str) -> Result<Faults, String> {
        let mut faults = Faults::NONE;
        for word in text.split(',').map(str::trim) {
            match word {
                "all" => faults = faults.or(Faults::ALL),
                "hostile" => faults = Faults::HOSTILE,
                "none" => {}
                _ => match Fault::ALL.into_iter().find(|f| f.name() == word) {
                    Some(fault) => faults = faults.with(fault),
                    None => {
                        let names: Vec<_> = Fault::ALL.iter().map(|f| f.name()).collect();
                        return Err(format!(
                            "there is no fault `{word}`; there are all, hostile, none, {}",
                            names.join(", ")
                        ));
                    }
                },
            }
        }
        Ok(faults)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for fault in Fault::ALL {
            let one = Faults::NONE.with(fault);
            assert_eq!(one.to_string().parse(), Ok(one));
            assert!(Faults::HOSTILE.has(fault) && !Faults::HOSTILE.without(fault).has(fault));
        }
        assert_eq!("all".parse(), Ok(Faults::ALL));
        assert_eq!("hostile".parse(), Ok(Faults::HOSTILE));
        assert!(Faults::ALL.has(Fault::HostLoss) && !Faults::ALL.has(Fault::OneWay));
        assert_eq!("none".parse(), Ok(Faults::NONE));
        assert_eq!(Faults::NONE.to_string(), "none");
        let two: Faults = "loss, crash".parse().unwrap();
        assert_eq!(two.to_string(), "loss,crash");
        let error = "loss,fire".parse::<Faults>().unwrap_err();
        assert!(
            error.contains("`fire`") && error.contains("reorder"),
            "{error}"
        );
    }
}
