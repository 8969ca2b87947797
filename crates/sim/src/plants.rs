//! Planted bugs: each has to be found.

use weir_protocol::plant::Plant;
use weir_protocol::settings::Replication;

pub use crate::bug::Bug;
use crate::campaign::Campaign;
use crate::chain::Chain;
use crate::fault::{Fault, Faults};
use crate::settings::{Mode, Settings};
use crate::slip::Slip;

impl Bug {
    /// Settings under which it is looked for: those that can show it.
    pub fn settings(self) -> Settings {
        match self {
            Bug::Protocol(plant) => settings_for(plant),
            Bug::Between(slip) => settings_for_slip(slip),
        }
    }
}

/// Seeds in which a planted bug has to be found.
pub const MOST: u64 = 10_000;

/// Runs seeds with a planted bug, from `first` on, until one fails that holds
/// without it; gives what was run, the failure last. `go_on` is asked before
/// each seed.
///
/// # Errors
///
/// A chain can't be built: a fault of this crate.
pub fn find(bug: Bug, first: u64, go_on: impl Fn() -> bool) -> Result<Campaign, String> {
    let settings = bug.settings();
    let sound = Settings {
        plant: None,
        ..settings.clone()
    };
    let mut sum = Campaign::default();
    for seed in first..first.saturating_add(MOST) {
        if !go_on() {
            break;
        }
        if sum.add_seed(seed, &settings, None)? {
            continue;
        }
        // A seed that fails without the bug says nothing about it.
        if Campaign::default().add_seed(seed, &sound, None)? {
            break;
        }
        sum.failed.clear();
    }
    Ok(sum)
}

/// Bugs whose first seed, from 1 on, is far, and a seed shortly before it: the search for all
/// bugs takes minutes so. A change of the draws moves the seeds, and outdates this table.
const NEAR: [(&str, u64); 18] = [
    ("shared-actor", 175),
    ("forget-unordered", 212),
    ("ends-unheld", 679),
    ("behind-no-holder", 78),
    ("behind-untold", 78),
    ("settled-before-out", 40),
    ("source-not-waited-for", 172),
    ("delta-on-any-base", 77),
    ("loss-misnamed", 61),
    ("hidden-nameless", 145),
    ("held-swept", 2_009),
    ("pull-forgotten", 144),
    ("forgotten-early", 138),
    ("suspected-untold", 93),
    ("copy-skipped", 289),
    ("cut-entry-kept", 169),
    ("doubted-free", 1_064),
    ("alias-twice", 1_150),
];

/// The seed from which a bug is looked for, where no other is asked for.
pub fn near(bug: Bug) -> u64 {
    let known = NEAR.iter().find(|(name, _)| *name == bug.name());
    known.map_or(1, |(_, seed)| *seed)
}

const ROUGH: [Fault; 8] = [
    Fault::Delay,
    Fault::Loss,
    Fault::Reorder,
    Fault::Duplicate,
    Fault::Pause,
    Fault::Partition,
    Fault::Crash,
    Fault::FalseSuspicion,
];

fn of(faults: &[Fault]) -> Faults {
    faults.iter().copied().collect()
}

fn base(bug: Bug) -> Settings {
    Settings {
        packets: 600,
        flows: 40,
        moves: 30,
        plain_links: true,
        some_faults: true,
        replication: Some(Replication::EachBurst),
        plant: Some(bug),
        ..Settings::default()
    }
}

fn settings_for_slip(slip: Slip) -> Settings {
    let base = base(Bug::Between(slip));
    let faults = of(&ROUGH).with(Fault::SwitchRestart);
    let chain = match slip {
        Slip::NotesMissing
        | Slip::NotesWithoutEnds
        | Slip::GrantTwice
        | Slip::FreedNever
        | Slip::KnownFree
        | Slip::ClaimsWithoutAliases => Some(Chain::Nat),
        Slip::EmittedMissing => Some(Chain::Emit),
        Slip::NotesWithoutEvents | Slip::EventsLost => Some(Chain::Inspect),
        _ => None,
    };
    match slip {
        // A process lives on its first frames for long.
        Slip::SupplyEnds => Settings {
            packets: Settings::default().packets,
            faults: of(&[Fault::Delay, Fault::Pause, Fault::FewFrames]),
            mode: Some(Mode::Ring),
            some_faults: false,
            ..base
        },
        Slip::RelayLost | Slip::CutEntryKept => Settings {
            faults: of(&[Fault::Delay, Fault::Pause, Fault::Crash]),
            mode: Some(Mode::Ring),
            some_faults: false,
            replication: None,
            moves: 100,
            ..base
        },
        Slip::DeathToldToOne => Settings {
            faults,
            chains: 2,
            ..base
        },
        Slip::LeavesWithUnits => Settings {
            faults: of(&[Fault::Delay]),
            some_faults: false,
            moves: 150,
            chains: 2,
            ..base
        },
        Slip::FrameKept => Settings {
            faults: Faults::NONE,
            moves: 0,
            ..base
        },
        Slip::LeavesWithFrames => Settings {
            faults: of(&[Fault::Delay]),
            some_faults: false,
            moves: 150,
            ..base
        },
        Slip::AliasTwice => Settings {
            faults: Faults::NONE,
            chain: Some(Chain::Nat),
            ..base
        },
        Slip::LostFalsely => Settings {
            faults: of(&[Fault::Delay]),
            mode: Some(Mode::Ring),
            some_faults: false,
            ..base
        },
        Slip::PeersUnwatched => Settings {
            faults: of(&[Fault::Crash]),
            some_faults: false,
            heartbeats: Some(true),
            ..base
        },
        Slip::LostNever => Settings {
            faults: of(&[Fault::Loss, Fault::NothingKept]),
            some_faults: false,
            ..base
        },
        Slip::OutputsNever => Settings {
            faults: faults.with(Fault::FullBuffers),
            some_faults: false,
            ..base
        },
        // A runtime has 100 ms to get ports.
        Slip::WantedNever => Settings {
            faults: Faults::NONE,
            packets: 5_000,
            flows: 400,
            chain: Some(Chain::Nat),
            ..base
        },
        // Where copies are kept packets are dropped first.
        Slip::PortsTakeMore => Settings {
            packets: Settings::default().packets,
            faults: of(&[Fault::Delay, Fault::Pause, Fault::FewFrames]),
            mode: Some(Mode::Ring),
            some_faults: false,
            replication: Some(Replication::None),
            ..base
        },
        // With more packets the ports stand still before anybody counts the frames.
        Slip::FramesHoarded => Settings {
            packets: 2_500,
            faults: of(&[Fault::Delay]),
            mode: Some(Mode::Ring),
            some_faults: false,
            replication: None,
            ..base
        },
        Slip::OutSwapped => Settings {
            faults: of(&[Fault::Delay, Fault::Pause]),
            ..base
        },
        // Without a replica the target itself says so.
        Slip::HeldEarly => Settings {
            faults,
            replication: Some(Replication::None),
            ..base
        },
        // A copy that is taken for forgotten is claimed at a restart.
        Slip::ForgottenEarly => Settings {
            faults: of(&[Fault::Delay, Fault::Loss, Fault::SwitchRestart]),
            some_faults: false,
            replication: None,
            flows: 30,
            moves: 120,
            plain_links: false,
            chain: Some(Chain::NatShort),
            ..base
        },
        Slip::SuspectedUntold => Settings {
            faults: of(&[Fault::Delay, Fault::FalseSuspicion, Fault::SwitchRestart]),
            some_faults: false,
            ..base
        },
        Slip::ClaimsWithoutAliases => Settings {
            faults: of(&[Fault::Delay, Fault::SwitchRestart]),
            some_faults: false,
            flows: 30,
            moves: 120,
            plain_links: false,
            chain,
            ..base
        },
        Slip::CopySkipped | Slip::CopiedStale => Settings {
            faults: of(&[Fault::Delay]),
            chain: Some(Chain::Count),
            flows: 20,
            moves: 120,
            ..base
        },
        Slip::MessageTwice
        | Slip::PacketMisread
        | Slip::TwiceUnanswered
        | Slip::MessageMisread
        | Slip::DataDamageTaken
        | Slip::DamageTaken => Settings {
            faults: of(&[Fault::Delay, Fault::Loss]),
            plain_links: false,
            ..base
        },
        Slip::RefusalLost => Settings {
            faults: faults.with(Fault::Forgery),
            ..base
        },
        _ => Settings {
            faults,
            chain,
            ..base
        },
    }
}

fn settings_for(plant: Plant) -> Settings {
    let base = base(Bug::Protocol(plant));
    let rough = of(&ROUGH);
    match plant {
        Plant::KeptDrained => Settings {
            take_back: Some(true),
            moves: 60,
            ..base
        },
        Plant::ChangeLeftOut => Settings {
            compare: Some(true),
            replication: Some(Replication::EachBurst),
            ..base
        },
        Plant::CopyOutdated | Plant::PromiseStays => Settings {
            flowlets: Some(true),
            ..base
        },
        Plant::FirstNotAwaited | Plant::ComingUnseen => Settings {
            faults: of(&[Fault::AllRuntimes, Fault::Delay]),
            some_faults: false,
            replication: Some(Replication::None),
            ..base
        },
        Plant::NoRepeats => Settings {
            faults: of(&[Fault::Loss, Fault::LossyBurst]),
            some_faults: false,
            ..base
        },
        Plant::BehindNoHolder | Plant::BehindUntold => Settings {
            faults: of(&[Fault::Delay, Fault::Crash, Fault::SwitchRestart]),
            some_faults: false,
            replication: Some(Replication::EachBurst),
            ..base
        },
        Plant::DropWithoutEntry => Settings {
            faults: Faults::NONE,
            chain: Some(Chain::Web),
            ..base
        },
        Plant::BytesUncounted => Settings {
            faults: Faults::NONE,
            chain: Some(Chain::Emit),
            ..base
        },
        Plant::AliasAfterOutput => Settings {
            faults: Faults::NONE,
            chain: Some(Chain::Nat),
            ..base
        },
        Plant::BlockLeasedAgain => Settings {
            faults: of(&[Fault::Crash, Fault::FalseSuspicion]),
            some_faults: false,
            chain: Some(Chain::Nat),
            packets: 2_000,
            flows: 200,
            ..base
        },
        Plant::LeasesNotRestored => Settings {
            faults: of(&[Fault::Delay, Fault::SwitchRestart]),
            some_faults: false,
            chain: Some(Chain::NatShort),
            packets: 5_000,
            flows: 200,
            moves: 60,
            ..base
        },
        Plant::LossMisnamed => Settings {
            faults: rough.with(Fault::DoubleCrash),
            ..base
        },
        // The only runtime is gone, and nobody takes its place yet.
        Plant::NobodyMisnamed => Settings {
            faults: rough.with(Fault::DoubleCrash),
            runtimes: 1,
            ..base
        },
        Plant::OutputsSkipped | Plant::RoomMisnamed => Settings {
            faults: rough.with(Fault::FullBuffers),
            some_faults: false,
            ..base
        },
        Plant::NoReserve => Settings {
            // The ends of more flows than the switch has frames.
            faults: of(&[Fault::FullBuffers]),
            some_faults: false,
            chain: Some(Chain::Nat),
            flows: 900,
            packets: 3_000,
            ..base
        },
        Plant::TickRefused => Settings {
            faults: of(&[Fault::FullBuffers]),
            some_faults: false,
            flows: 400,
            packets: 3_000,
            ..base
        },
        Plant::DropUncounted | Plant::BytesEarly => Settings {
            faults: of(&[Fault::FullBuffers, Fault::Pause]),
            some_faults: false,
            ..base
        },
        Plant::ClosedGoesOn => Settings {
            faults: rough.with(Fault::Forgery),
            ..base
        },
        Plant::NonsenseTaken | Plant::SenderUnseen => Settings {
            faults: of(&[Fault::Forgery]),
            some_faults: false,
            ..base
        },
        Plant::SourceNotWaitedFor => Settings {
            faults: of(&[Fault::Delay, Fault::Pause, Fault::Crash]),
            some_faults: false,
            mode: Some(Mode::Ring),
            replication: Some(Replication::None),
            flows: 20,
            moves: 150,
            ..base
        },
        Plant::SettledBeforeOut => Settings {
            faults: of(&[Fault::Delay, Fault::Pause, Fault::Crash, Fault::FullBuffers]),
            mode: Some(Mode::Ring),
            replication: Some(Replication::None),
            ..base
        },
        Plant::ApartUntrimmed => Settings {
            faults: of(&[Fault::Delay, Fault::Loss, Fault::Reorder, Fault::Crash]),
            mode: Some(Mode::Links),
            replication: Some(Replication::Every(8)),
            ..base
        },
        Plant::HeldSwept | Plant::PullForgotten | Plant::RepeatsInHaste => Settings {
            faults: of(&[Fault::Delay, Fault::Pause, Fault::FullBuffers]),
            mode: Some(Mode::Ring),
            some_faults: false,
            replication: None,
            moves: 100,
            ..base
        },
        Plant::NoOrderAtGate => Settings {
            faults: of(&[Fault::Loss, Fault::Reorder, Fault::Partition, Fault::Crash]),
            ..base
        },
        Plant::ForgetUnordered => Settings {
            faults: of(&[Fault::Delay, Fault::Loss, Fault::SwitchRestart]),
            some_faults: false,
            flows: 30,
            moves: 120,
            plain_links: false,
            replication: None,
            chain: Some(Chain::NatShort),
            ..base
        },
        Plant::ClaimWithState => Settings {
            faults: of(&[Fault::Delay, Fault::SwitchRestart]),
            some_faults: false,
            flows: 30,
            moves: 120,
            plain_links: false,
            ..base
        },
        Plant::NamesGoAtOnce => Settings {
            faults: of(&[Fault::Delay, Fault::Reorder, Fault::Pause]),
            moves: 60,
            chain: Some(Chain::NatCrowded),
            ..base
        },
        Plant::NameUnawaited | Plant::NamesCrossed => Settings {
            faults: of(&ROUGH),
            chain: Some(Chain::Web),
            ..base
        },
        Plant::EraStays
        | Plant::PacketsNotKept
        | Plant::HeldTooEarly
        | Plant::OutGoesBack
        | Plant::NotAppliedAgain => Settings {
            faults: rough,
            replication: Some(Replication::Every(8)),
            ..base
        },
        Plant::PortStaysKnown => Settings {
            faults: Faults::NONE,
            chain: Some(Chain::NatShort),
            ..base
        },
        Plant::HiddenNameless => Settings {
            faults: of(&[
                Fault::Delay,
                Fault::Crash,
                Fault::SwitchRestart,
                Fault::FalseSuspicion,
            ]),
            some_faults: false,
            replication: None,
            chain: Some(Chain::Web),
            packets: 1_000,
            moves: 100,
            ..base
        },
        Plant::SuspectedEarly | Plant::DeafHeard => Settings {
            faults: of(&[Fault::Loss, Fault::OneWay, Fault::Partition]),
            some_faults: false,
            heartbeats: Some(true),
            ..base
        },
        Plant::CutOffJudges | Plant::CutOffForEver => Settings {
            // Beats that come late are silence, too, and of all peers at once.
            faults: of(&[Fault::Delay, Fault::Reorder, Fault::Partition, Fault::Pause]),
            some_faults: false,
            heartbeats: Some(true),
            ..base
        },
        Plant::DeathsUnseen => Settings {
            faults: of(&[Fault::Crash]),
            some_faults: false,
            heartbeats: Some(true),
            ..base
        },
        Plant::HostsIgnored => Settings {
            faults: Faults::NONE,
            hosts: Some(2),
            ..base
        },
        Plant::NeverProtected => Settings {
            faults: of(&[Fault::Crash, Fault::HostLoss]),
            some_faults: false,
            ..base
        },
        Plant::DeltaOnAnyBase | Plant::GapUnfilled => Settings {
            faults: rough.with(Fault::FullBuffers),
            some_faults: false,
            loggers: Some(1),
            plain_links: false,
            ..base
        },
        Plant::PassedOnUnstored | Plant::LoggerOwns => Settings {
            faults: of(&[Fault::Crash]),
            some_faults: false,
            loggers: Some(1),
            ..base
        },
        Plant::EndsUnheld => Settings {
            faults: of(&[Fault::Delay, Fault::Crash, Fault::SwitchRestart]),
            some_faults: false,
            replication: Some(Replication::Every(8)),
            ..base
        },
        // The entry that leased the port waits at the gate, and its runtime has forgotten it.
        Plant::DoubtedFree => Settings {
            faults: rough,
            moves: 60,
            chain: Some(Chain::Nat),
            ..base
        },
        Plant::UpTooSoon => Settings {
            faults: of(&[Fault::Loss, Fault::Partition, Fault::Pause]),
            some_faults: false,
            heartbeats: Some(true),
            packets: 3_000,
            ..base
        },
        Plant::YieldedAlways => Settings {
            faults: rough,
            chain: Some(Chain::Web),
            ..base
        },
        Plant::HoldersIgnored => Settings {
            faults: of(&[Fault::Delay, Fault::Crash]),
            some_faults: false,
            replication: Some(Replication::None),
            ..base
        },
        // With a replica the protection of units tells of it first.
        Plant::MoveForgotten => Settings {
            faults: rough,
            replication: Some(Replication::None),
            ..base
        },
        Plant::DuesLate => Settings {
            faults: of(&[Fault::Delay]),
            packets: 3_000,
            ..base
        },
        Plant::DrainedUnseen | Plant::GaugeAhead => Settings {
            faults: Faults::NONE,
            ..base
        },
        Plant::WordUncounted => Settings {
            faults: Faults::NONE,
            chain: Some(Chain::NatShort),
            ..base
        },
        Plant::LeasesForgotten => Settings {
            faults: of(&[
                Fault::Delay,
                Fault::Crash,
                Fault::Loss,
                Fault::SwitchRestart,
            ]),
            some_faults: false,
            chain: Some(Chain::Nat),
            ..base
        },
        _ => Settings {
            faults: rough,
            ..base
        },
    }
}

#[cfg(test)]
mod tests {
    use super::{Bug, NEAR};

    #[test]
    fn each_far_bug_is_a_bug() {
        for (name, _) in NEAR {
            assert!(Bug::all().any(|bug| bug.name() == name), "{name}");
        }
    }
}
