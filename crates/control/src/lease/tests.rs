use weir_packet::Time;

use super::{Ask, Contender, Stand, Tenant, Told, Voter, Want};

const LENGTH: u64 = 1_000;
const INTERVAL: u64 = 250;

fn ask(asked: u64, start: u32, want: Want) -> Ask {
    Ask {
        asked: Time(asked),
        start,
        want,
        length: LENGTH,
        dead: None,
    }
}

fn hear(voter: &mut Voter, now: u64, start: u32, want: Want) -> Told {
    voter.hear(Time(now), &ask(now, start, want))
}

/// Voters that have been there for long.
fn voters<const N: usize>() -> [Voter; N] {
    core::array::from_fn(|_| Voter::new(Time::ZERO))
}

/// Asks all voters until `until`, each step an interval later.
fn step(contender: &mut Contender, voters: &mut [Voter], from: u64, until: u64) {
    for now in (from..until).step_by(INTERVAL as usize / 5) {
        let now = Time(now);
        let Some(ask) = contender.poll(now) else {
            continue;
        };
        for (place, voter) in voters.iter_mut().enumerate() {
            let told = voter.hear(now, &ask);
            assert!(contender.hear(now, place, told));
        }
    }
}

fn contender(start: u32, voters: usize) -> Contender {
    Contender::new(Time(LENGTH), start, voters, LENGTH, INTERVAL)
}

#[test]
fn a_voter_promises_to_one_at_a_time() {
    let [mut voter] = voters();
    assert!(hear(&mut voter, 1_000, 7, Want::Place(1)).granted);
    let refused = hear(&mut voter, 1_999, 8, Want::Place(2));
    let first = Tenant {
        generation: 1,
        start: 7,
    };
    assert_eq!((refused.granted, refused.by), (false, Some(first)));
    // Its lease has run out, and nobody has had the place: it may keep it.
    assert!(hear(&mut voter, 2_500, 7, Want::Place(1)).granted);
    assert!(hear(&mut voter, 3_500, 8, Want::Place(2)).granted);
    assert!(!hear(&mut voter, 3_600, 7, Want::Place(1)).granted);
    assert!(!hear(&mut voter, 9_000, 7, Want::Place(1)).granted);
    assert!(!hear(&mut voter, 9_000, 9, Want::Place(2)).granted);
    assert!(hear(&mut voter, 9_000, 9, Want::Place(3)).granted);
}

#[test]
fn a_voter_that_has_just_started_promises_nothing() {
    let mut voter = Voter::new(Time(500));
    assert!(!hear(&mut voter, 1_499, 7, Want::Place(1)).granted);
    assert!(hear(&mut voter, 1_500, 7, Want::Place(1)).granted);
}

#[test]
fn the_place_is_free_at_once_where_its_tenant_is_dead_or_leaves() {
    let [mut voter] = voters();
    assert!(hear(&mut voter, 1_000, 7, Want::Place(1)).granted);
    let dead = |start| Ask {
        dead: Some(start),
        ..ask(1_100, 8, Want::Place(2))
    };
    assert!(!voter.hear(Time(1_100), &dead(6)).granted);
    assert!(voter.hear(Time(1_100), &dead(7)).granted);
    hear(&mut voter, 1_200, 7, Want::Leave(1));
    assert!(!hear(&mut voter, 1_200, 9, Want::Place(3)).granted);
    hear(&mut voter, 1_200, 8, Want::Leave(2));
    assert!(hear(&mut voter, 1_200, 9, Want::Place(3)).granted);
}

#[test]
fn a_contender_holds_from_when_it_asked_and_for_less_than_was_promised() {
    let mut voters = voters::<3>();
    let mut first = contender(7, 3);
    step(&mut first, &mut voters, 1_000, 1_300);
    assert_eq!(first.stand(), Stand::Has(1));
    let until = first.until().unwrap();
    assert!(voters.iter().all(|its| its.tenant(until).is_some()));
    assert!(first.holds(Time(until.0 - 1)) && !first.holds(until));
    // It goes on asking.
    step(&mut first, &mut voters, 1_300, 9_000);
    assert!(first.holds(Time(9_000)));
}

#[test]
fn the_minority_is_not_enough() {
    let mut voters = voters::<4>();
    let mut first = contender(7, 4);
    step(&mut first, &mut voters[..2], 1_000, 20_000);
    assert!(!first.holds(Time(20_000)) && first.stand() == Stand::Waits);
    step(&mut first, &mut voters[..3], 20_000, 20_600);
    assert!(first.holds(Time(20_600)));
}

#[test]
fn one_that_stands_by_takes_over_and_the_old_one_gives_up() {
    let mut voters = voters::<3>();
    let (mut first, mut second) = (contender(7, 3), contender(8, 3));
    step(&mut first, &mut voters, 1_000, 3_000);
    step(&mut second, &mut voters, 3_000, 3_500);
    assert_eq!(second.stand(), Stand::Waits);
    for voter in &voters {
        assert_eq!(
            voter.tenant(Time(3_500)).map(|tenant| tenant.start),
            Some(7)
        );
    }
    // The first one stands still.
    step(&mut second, &mut voters, 3_500, 4_600);
    assert_eq!(second.stand(), Stand::Has(2));
    assert!(!first.holds(Time(4_600)));
    step(&mut first, &mut voters, 4_600, 4_700);
    assert_eq!(first.stand(), Stand::Lost);
}

#[test]
fn one_that_is_cut_off_from_the_tenant_disturbs_nobody() {
    let mut voters = voters::<3>();
    let (mut first, mut second) = (contender(7, 3), contender(8, 3));
    for round in 0..20 {
        let from = 1_000 + round * 500;
        // A voter that only the second one reaches has no tenant any more.
        step(&mut first, &mut voters[..2], from, from + 500);
        step(&mut second, &mut voters[2..], from, from + 500);
        assert!(round < 2 || first.holds(Time(from + 500)));
        assert!(!second.holds(Time(from + 500)));
    }
    assert_eq!(first.stand(), Stand::Has(1));
}

#[test]
fn a_tenant_that_nobody_answers_gives_up() {
    let mut voters = voters::<3>();
    let mut first = contender(7, 3);
    step(&mut first, &mut voters, 1_000, 3_000);
    step(&mut first, &mut [], 3_000, 4_000);
    assert!(!first.holds(Time(4_000)));
    assert_eq!(first.stand(), Stand::Has(1));
    step(&mut first, &mut [], 4_000, 7_000);
    assert_eq!(first.stand(), Stand::Lost);
}

#[test]
fn a_tenant_that_hears_nothing_does_not_keep_the_place_from_others() {
    let mut voters = voters::<3>();
    let mut first = contender(7, 3);
    step(&mut first, &mut voters, 1_000, 3_000);
    // The voters hear it, and it does not hear them.
    let mut last = Time(3_000);
    for now in (3_000..6_000).step_by(50).map(Time) {
        let Some(ask) = first.poll(now) else {
            continue;
        };
        for voter in &mut voters {
            voter.hear(now, &ask);
        }
        if voters[0].tenant(now).is_some() {
            last = now;
        }
    }
    assert!(last < Time(5_000), "{last:?}");
}

#[test]
fn a_tenant_that_stood_still_asks_when_it_has_heard_that_nobody_else_did() {
    let mut voters = voters::<3>();
    let mut first = contender(7, 3);
    step(&mut first, &mut voters, 1_000, 3_000);
    step(&mut first, &mut voters, 4_500, 5_200);
    assert!(first.holds(Time(5_200)) && first.stand() == Stand::Has(1));
}

#[test]
fn nonsense_is_refused() {
    let mut first = contender(7, 3);
    let told = Told {
        asked: Time(5_000),
        start: 7,
        want: Want::Look,
        granted: true,
        by: None,
        free: true,
        newest: 0,
    };
    assert!(!first.hear(Time(1_000), 0, told));
    assert!(!first.hear(Time(5_000), 3, told));
    assert!(first.hear(Time(5_000), 2, told));
    assert_eq!(first.until(), None);
}

#[test]
fn a_generation_that_was_asked_for_in_vain_is_not_asked_for_again() {
    let [mut voter] = voters();
    let mut first = contender(7, 1);
    let mut asked = Vec::new();
    for now in (1_000..9_000).step_by(50).map(Time) {
        let Some(ask) = first.poll(now) else {
            continue;
        };
        match ask.want {
            // A late withdrawal would end the promise of the same generation.
            Want::Place(_) | Want::Withdraw(_) => asked.push(ask.want),
            _ => assert!(first.hear(now, 0, voter.hear(now, &ask))),
        }
    }
    asked.dedup();
    let first_two = [Want::Place(1), Want::Withdraw(1), Want::Place(2)];
    assert_eq!(asked.get(..3), Some(&first_two[..]));
}

#[test]
fn an_answer_to_the_start_before_counts_for_none() {
    let [mut voter] = voters();
    let told = hear(&mut voter, 1_000, 7, Want::Place(1));
    assert!(told.granted);
    assert!(!contender(8, 1).hear(Time(1_500), 0, told));
    assert!(contender(7, 1).hear(Time(1_500), 0, told));
}

#[test]
fn nobody_asks_voters_that_have_just_started() {
    let mut voters = [(); 3].map(|()| Voter::new(Time(1_000)));
    let mut first = contender(7, 3);
    step(&mut first, &mut voters, 1_000, 1_950);
    assert_eq!(first.stand(), Stand::Waits);
    step(&mut first, &mut voters, 1_950, 2_600);
    assert_eq!(first.stand(), Stand::Has(1));
}

#[test]
fn a_voter_that_was_told_of_the_generation_promises_it_to_its_tenant_alone() {
    let mut voters = voters::<3>();
    let mut first = contender(7, 3);
    step(&mut first, &mut voters, 1_000, 3_000);
    voters[0] = Voter::new(Time(3_000));
    voters[0].know(1);
    let mut other = voters[0].clone();
    assert!(!hear(&mut other, 4_100, 8, Want::Place(1)).granted);
    step(&mut first, &mut voters, 3_000, 4_500);
    let tenant = voters[0].tenant(Time(4_500));
    assert_eq!(tenant.map(|tenant| tenant.start), Some(7));
}

#[test]
fn who_asked_in_vain_leaves_the_voter_to_the_tenant() {
    let mut voters = voters::<3>();
    assert!(hear(&mut voters[2], 1_000, 8, Want::Place(1)).granted);
    let mut first = contender(7, 3);
    step(&mut first, &mut voters[..2], 1_000, 1_500);
    assert_eq!(first.stand(), Stand::Has(1));
    hear(&mut voters[2], 2_000, 8, Want::Withdraw(1));
    step(&mut first, &mut voters, 1_500, 2_500);
    let tenant = voters[2].tenant(Time(2_500));
    assert_eq!(tenant.map(|tenant| tenant.start), Some(7));
    // A tenant's own end stays known: its generation is not given again.
    hear(&mut voters[2], 2_500, 7, Want::Leave(1));
    assert!(!hear(&mut voters[2], 2_500, 9, Want::Keep(1)).granted);
    assert!(hear(&mut voters[2], 2_500, 9, Want::Place(2)).granted);
}
