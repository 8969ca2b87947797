//! Seeds of campaigns that broke an invariant, each with what was wrong.

use weir_sim::campaign::Campaign;
use weir_sim::fault::Faults;
use weir_sim::settings::Settings;

/// Settings as `weir sim` has them without options.
fn full() -> Settings {
    Settings {
        faults: Faults::ALL,
        some_faults: true,
        replication: None,
        runtimes: 4,
        flows: 200,
        packets: 5_000,
        moves: 60,
        chain: None,
        plain_links: false,
        plant: None,
    }
}

/// `--packets 200 --flows 30 --moves 12`.
fn small() -> Settings {
    Settings {
        flows: 30,
        packets: 200,
        moves: 12,
        ..full()
    }
}

fn holds(seeds: &[u64], settings: &Settings) {
    let mut campaign = Campaign::default();
    for &seed in seeds {
        campaign.add_seed(seed, settings, None).expect("a chain");
    }
    assert_eq!(campaign.failed, []);
}

/// An alias took the key of a flow over while packets were on their way that had
/// come by it: later ones of the flow left before them.
#[test]
fn an_alias_waits_for_packets_that_came_by_its_key() {
    holds(&[752_891_244, 752_891_964], &full());
}

/// The owner of a first view that is opened again where it was kept the actor of
/// the view that was given up.
#[test]
fn a_first_view_opened_again_leaves_nothing_of_the_one_before() {
    holds(&[451_242_681, 451_247_592, 451_247_639], &small());
}

/// The checker took it for a loss that nobody explains: with replication `none`
/// the source of a move died in the middle of it, or the last owner, each time
/// with the switch.
#[test]
fn what_dies_with_its_only_holder_is_lost_by_name() {
    holds(&[752_890_766, 450_118_923], &full());
}
