use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

fn v4() -> impl Strategy<Value = Prefix> {
    (any::<u16>(), 0..=32u8).prop_map(|(low, length)| {
        let address = Ipv4Addr::from(0x0a00_0000 | u32::from(low & 0x3ff));
        cut(address.into(), length)
    })
}

fn v6() -> impl Strategy<Value = Prefix> {
    let lengths = prop_oneof![0..=128u8, Just(63), Just(64), Just(127), Just(128)];
    (any::<u8>(), lengths).prop_map(|(low, length)| {
        let high = u128::from(low & 3) << 64;
        let address = Ipv6Addr::from(0x2001_0db8_u128 << 96 | high | u128::from(low >> 4));
        cut(address.into(), length)
    })
}

fn cut(address: IpAddr, length: u8) -> Prefix {
    match Prefix::new(address, length) {
        Ok(prefix) | Err(crate::PrefixError::HostBits(prefix)) => prefix,
        Err(error) => panic!("{error}"),
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(Prefix),
    Remove(Prefix),
    Clear,
    Become(Vec<Prefix>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let prefix = || prop_oneof![3 => v4(), 1 => v6()];
    let list = prop::collection::vec(prefix(), 0..30);
    let step = prop_oneof![
        20 => prefix().prop_map(Step::Insert),
        12 => prefix().prop_map(Step::Remove),
        1 => Just(Step::Clear),
        1 => list.prop_map(Step::Become),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    /// Whatever comes and goes, the set says what a list of prefixes says that is tried one by one.
    #[test]
    fn it_says_what_a_list_says(
        steps in steps(),
        most in 1..60usize,
        seed: u64,
        asked in prop::collection::vec((any::<u16>(), any::<u8>()), 20),
    ) {
        let set = AddressSet::new(most, seed);
        let mut list: BTreeSet<Prefix> = BTreeSet::new();
        for step in steps {
            let mut change = set.change().unwrap();
            match step {
                Step::Insert(prefix) => {
                    let wanted = match list.contains(&prefix) {
                        true => Ok(false),
                        false if list.len() == most => Err(SetFull),
                        false => Ok(list.insert(prefix)),
                    };
                    prop_assert_eq!(change.insert(&prefix), wanted);
                }
                Step::Remove(prefix) => {
                    prop_assert_eq!(change.remove(&prefix), list.remove(&prefix));
                }
                Step::Clear => {
                    change.clear();
                    list.clear();
                }
                Step::Become(wanted) => {
                    list = wanted.into_iter().collect::<BTreeSet<_>>().into_iter().take(most).collect();
                    let sorted: Vec<Prefix> = list.iter().copied().collect();
                    prop_assert_eq!(change.become_of(&sorted), Ok(()));
                }
            }
            prop_assert_eq!(set.len(), list.len());
        }
        prop_assert_eq!(set.entries().collect::<BTreeSet<_>>(), list.clone());
        for (low, other) in asked {
            let v4 = IpAddr::from(Ipv4Addr::from(0x0a00_0000 | u32::from(low & 0x3ff)));
            let number = 0x2001_0db8_u128 << 96 | u128::from(other & 3) << 64 | u128::from(other >> 4);
            for address in [v4, Ipv6Addr::from(number).into()] {
                let held = list.iter().any(|prefix| prefix.contains(address));
                prop_assert_eq!(set.contains(address), held, "{}", address);
            }
        }
    }
}

#[test]
fn one_changes_it_at_a_time() {
    let set = AddressSet::new(4, 1);
    let first = set.change();
    assert!(first.is_some() && set.change().is_none());
    drop(first);
    assert!(set.change().is_some());
}

/// However often all entries are others, a search does not become longer.
#[test]
fn it_does_not_wear_out() {
    let set = AddressSet::new(1_000, 7);
    let mut change = set.change().unwrap();
    let host = |n: u32| cut(Ipv4Addr::from(n).into(), 32);
    for n in 0..1_000 {
        assert_eq!(change.insert(&host(n)), Ok(true));
    }
    assert_eq!(change.insert(&host(u32::MAX)), Err(SetFull));
    assert_eq!(change.insert(&host(0)), Ok(false));
    for n in 0..300_000u32 {
        assert!(change.remove(&host(n)));
        assert_eq!(change.insert(&host(n + 1_000)), Ok(true));
    }
    let counted: u64 = set.words.iter().map(|word| word.load(Relaxed) >> 56).sum();
    assert!(counted < 2_000, "{counted} entries are away from home");
    change.clear();
    assert!(set.is_empty() && set.words.iter().all(|word| word.load(Relaxed) == 0));
}
