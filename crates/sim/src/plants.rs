//! Planted bugs: each leaves a part of the protocol out, and has to be found.

use weir_protocol::plant::Plant;
use weir_protocol::settings::Replication;

use crate::chain::Chain;
use crate::fault::{Fault, Faults};
use crate::settings::Settings;

/// Settings under which a planted bug is looked for: those that can show it,
/// and no others.
pub fn settings_for(plant: Plant) -> Settings {
    let of = |faults: &[Fault]| faults.iter().copied().collect::<Faults>();
    let base = Settings {
        packets: 600,
        flows: 40,
        moves: 30,
        plain_links: true,
        some_faults: true,
        replication: Some(Replication::EachBurst),
        plant: Some(plant),
        ..Settings::default()
    };
    let rough = of(&[
        Fault::Delay,
        Fault::Loss,
        Fault::Reorder,
        Fault::Duplicate,
        Fault::Pause,
        Fault::Partition,
        Fault::Crash,
        Fault::FalseSuspicion,
    ]);
    match plant {
        Plant::NoRepeats => Settings {
            faults: of(&[Fault::Loss, Fault::LossyBurst]),
            some_faults: false,
            ..base
        },
        Plant::DropWithoutEntry => Settings {
            faults: Faults::NONE,
            chain: Some(Chain::Web),
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
        Plant::OutputsSkipped => Settings {
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
        Plant::NoOrderAtGate => Settings {
            faults: of(&[Fault::Loss, Fault::Reorder, Fault::Partition, Fault::Crash]),

            ..base
        },
        Plant::ForgetUnordered | Plant::ClaimWithState => Settings {
            faults: of(&[Fault::Delay, Fault::SwitchRestart]),
            some_faults: false,
            flows: 30,
            moves: 120,
            plain_links: false,
            ..base
        },
        Plant::NamesGoAtOnce => Settings {
            faults: of(&[Fault::Delay, Fault::Reorder, Fault::Pause]),
            chain: Some(Chain::Nat),
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
