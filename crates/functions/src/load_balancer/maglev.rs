//! Maglev's look-up table (Eisenbud et al., NSDI 2016, section 3.4), with
//! weights.

/// Entry of a table in which nobody may take new connections.
pub(super) const NOBODY: u16 = u16::MAX;

/// A number from a name, spread well: FNV-1a and a finisher, seeded.
pub(super) fn hash(name: &[u8], seed: u64) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325 ^ seed;
    for &byte in name {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    mix(hash)
}

/// Spreads every bit over the whole word (the finisher of splitmix64).
pub(super) fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

pub(super) fn is_prime(n: u32) -> bool {
    // In 64 bits: the square of a root's successor may be beyond 32.
    let n = u64::from(n);
    n >= 2
        && (2..)
            .take_while(|d| d * d <= n)
            .all(|d| !n.is_multiple_of(d))
}

/// Fills a table of `size` (a prime) places: each server goes through the
/// places in an order of its own and takes the next free one when it is its
/// turn. A server of weight w has w turns where the heaviest has as many as
/// its weight; weight 0 has none.
pub(super) fn table(servers: &[(String, u32)], size: u32, seed: u64) -> Vec<u16> {
    let places = u64::from(size.max(2));
    let mut table = vec![NOBODY; size as usize];
    let heaviest = u64::from(servers.iter().map(|s| s.1).max().unwrap_or(0));
    if heaviest == 0 {
        return table;
    }
    struct Turn {
        server: u16,
        weight: u64,
        credit: u64,
        at: u64,
        skip: u64,
    }
    let mut turns: Vec<Turn> = servers
        .iter()
        .enumerate()
        .filter(|(_, (_, weight))| *weight > 0)
        .map(|(server, (name, weight))| Turn {
            server: server as u16,
            weight: u64::from(*weight),
            credit: 0,
            at: hash(name.as_bytes(), seed) % places,
            skip: hash(name.as_bytes(), seed ^ 0x5851_f42d_4c95_7f2d) % (places - 1) + 1,
        })
        .collect();
    // The order of turns must not depend on who else is in the list before.
    turns.sort_by_key(|turn| servers.get(usize::from(turn.server)).map(|s| s.0.clone()));
    let mut filled = 0;
    loop {
        for turn in &mut turns {
            turn.credit += turn.weight;
            if turn.credit < heaviest {
                continue;
            }
            turn.credit -= heaviest;
            while let Some(place) = table.get_mut(turn.at as usize) {
                turn.at = (turn.at + turn.skip) % places;
                if *place == NOBODY {
                    *place = turn.server;
                    break;
                }
            }
            filled += 1;
            if filled == size {
                return table;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primes_are_told_up_to_the_largest_number() {
        for (n, prime) in [
            (0, false),
            (1, false),
            (2, true),
            (65_537, true),
            (65_536, false),
        ] {
            assert_eq!(is_prime(n), prime, "{n}");
        }
        // Their roots' successors have squares beyond 32 bits.
        assert!(is_prime(4_294_967_291) && !is_prime(4_294_836_225) && !is_prime(u32::MAX));
    }

    fn servers(n: usize) -> Vec<(String, u32)> {
        (0..n).map(|i| (format!("10.0.0.{i}:80"), 1)).collect()
    }

    fn shares(table: &[u16], n: usize) -> Vec<usize> {
        let mut shares = vec![0; n];
        for &server in table {
            shares[usize::from(server)] += 1;
        }
        shares
    }

    #[test]
    fn every_server_has_its_share() {
        for n in [1, 2, 3, 10, 100] {
            let shares = shares(&table(&servers(n), 65_537, 7), n);
            let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
            // The paper: within 1 % at 100 times as many places; turns make it exact to one.
            assert!(most - least <= 1, "{n}: {least} to {most}");
        }
    }

    #[test]
    fn weights_are_kept() {
        let servers = vec![
            ("a".to_owned(), 1),
            ("b".to_owned(), 3),
            ("c".to_owned(), 0),
        ];
        let shares = shares(&table(&servers, 65_537, 7), 3);
        assert_eq!(shares[2], 0);
        let ratio = shares[1] as f64 / shares[0] as f64;
        assert!((2.98..3.02).contains(&ratio), "{ratio}");
    }

    #[test]
    fn little_changes_when_a_server_goes() {
        let all = servers(20);
        let before = table(&all, 65_537, 7);
        let mut fewer = all.clone();
        fewer[5].1 = 0;
        let after = table(&fewer, 65_537, 7);
        let needless = before
            .iter()
            .zip(&after)
            .filter(|(a, b)| a != b && **a != 5)
            .count();
        // The paper's figure 12: a few per cent at most with such a table.
        assert!(needless < 65_537 * 3 / 100, "{needless}");
        assert!(after.iter().all(|&server| server != 5));
    }

    #[test]
    fn the_order_of_the_list_does_not_matter() {
        let all = servers(7);
        let turned: Vec<_> = all.iter().rev().cloned().collect();
        let (a, b) = (table(&all, 1_009, 7), table(&turned, 1_009, 7));
        assert!(a.iter().zip(&b).all(|(&x, &y)| x == 6 - y));
    }

    #[test]
    fn nobody_serves_where_nobody_may() {
        assert!(table(&[], 13, 7).iter().all(|&s| s == NOBODY));
        assert!(
            table(&[("a".to_owned(), 0)], 13, 7)
                .iter()
                .all(|&s| s == NOBODY)
        );
        assert!(is_prime(65_537) && is_prime(2) && !is_prime(65_535) && !is_prime(1));
    }
}
