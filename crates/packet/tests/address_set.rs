//! A set that changes while another thread looks into it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};

use weir_packet::{AddressSet, Prefix};

fn host(number: u32, v6: bool) -> IpAddr {
    match v6 {
        false => Ipv4Addr::from(number).into(),
        // Halves that differ, so that a mixture of two entries would be a third.
        true => Ipv6Addr::from(u128::from(number) << 64 | u128::from(number)).into(),
    }
}

/// Entries that stay are always found, and those that never were never are, whatever comes and goes
/// around them.
#[test]
fn who_looks_misses_nothing_that_stays() {
    const STAY: u32 = 400;
    let set = AddressSet::new(1_000, 3);
    let prefix = |n: u32, v6: bool| {
        let address = host(n, v6);
        Prefix::new(address, if v6 { 128 } else { 32 }).unwrap()
    };
    let mut change = set.change().unwrap();
    for n in 0..STAY {
        change.insert(&prefix(n, n % 2 == 1)).unwrap();
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let look = scope.spawn(|| {
            let mut looks = 0u64;
            while !done.load(Ordering::Relaxed) || looks == 0 {
                for n in 0..STAY {
                    assert!(set.contains(host(n, n % 2 == 1)), "{n}");
                    // Halves of two entries that come and go.
                    let mixed = u128::from(STAY + n) << 64 | u128::from(STAY + n + 1);
                    assert!(!set.contains(Ipv6Addr::from(mixed).into()));
                }
                looks += 1;
            }
            looks
        });
        for round in 0..400u32 {
            let base = STAY + round % 7 * 50;
            for n in base..base + 500 {
                change.insert(&prefix(n, round % 2 == 1)).unwrap();
            }
            for n in base..base + 500 {
                assert!(change.remove(&prefix(n, round % 2 == 1)));
            }
        }
        done.store(true, Ordering::Relaxed);
        assert!(look.join().unwrap() > 0);
    });
    assert_eq!(set.len(), STAY as usize);
}
