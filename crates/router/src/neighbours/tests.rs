//! The cache against a list.

use proptest::prelude::*;

use super::*;

proptest! {
    /// The index finds the entries that were added and not pushed out, and no others.
    #[test]
    fn the_index_finds_what_is_there(
        adds in prop::collection::vec((0u8..3, 0u32..40, any::<bool>()), 1..300),
        seed in any::<u64>(),
    ) {
        let limits = Limits { neighbours: 16, ..Limits::default() };
        let mut table = Neighbours::new(limits, seed);
        for (port, host, v6) in adds {
            let address: IpAddr = match v6 {
                true => std::net::Ipv6Addr::from(u128::from(host) << 64).into(),
                false => std::net::Ipv4Addr::from(host).into(),
            };
            if table.find(port, address).is_none() {
                prop_assert!(table.add(port, address).is_some());
            }
            let slot = table.find(port, address);
            prop_assert_eq!(
                slot.and_then(|slot| table.get(slot)).map(|(p, a, _)| (p, a)),
                Some((port, address))
            );
            let known: Vec<(u8, IpAddr)> = table
                .slots
                .iter()
                .filter(|slot| slot.state.is_some())
                .map(|slot| (slot.port, slot.address))
                .collect();
            prop_assert!(known.len() <= 16);
            for (port, address) in known {
                prop_assert!(table.find(port, address).is_some(), "{address} is lost");
            }
        }
    }
}
