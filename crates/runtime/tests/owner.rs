//! A function says where a flow should live.

use weir_nf::prelude::*;
use weir_nf::{Cluster, RuntimeId};
use weir_packet::Time;
use weir_runtime::harness::{Craft, Harness};

/// Wants flows on the runtime that their client's last byte names, if `WIDE`
/// by a state per client, and if that runtime is there.
struct Place<const WIDE: bool>;

weir_nf::labels! {
    /// Drop reasons.
    enum Reason: Counter<Packets> {
        /// Its client has no IPv4 address.
        NotIpv4 = "not_ipv4",
    }
}

impl<const WIDE: bool> NetworkFunction for Place<WIDE> {
    type Settings = ();
    type State = Wish;
    type Stats = ();
    type FlowState = ();

    const DESCRIPTOR: Descriptor = Descriptor {
        needs: Needs::Flow,
        drops: Reason::TABLE,
        ..Descriptor::new("place", "prefers a runtime")
    };

    fn new(_: (), _: &mut SetUp<'_>) -> Result<Self, SettingsError> {
        Ok(Place)
    }

    fn open(
        &self,
        _: &Packet<'_>,
        flow: &FlowInfo<'_>,
        _: &mut Context<'_>,
    ) -> Result<Wish, DropReason> {
        let (client, _) = flow.key().source(flow.client_direction());
        match client {
            std::net::IpAddr::V4(address) => Ok(Wish(address.octets()[3].into())),
            std::net::IpAddr::V6(_) => Err(Reason::NotIpv4.into()),
        }
    }

    fn process(&self, _: &mut Packet<'_>, _: &mut Flow<'_, Self>, _: &mut Context<'_>) -> Verdict {
        Verdict::Pass
    }

    fn scope(&self) -> Scope {
        match WIDE {
            true => Scope::Fields(Fields::CLIENT_ADDRESS),
            false => Scope::Flow,
        }
    }

    fn preferred_owner(&self, wish: &Wish, cluster: &Cluster<'_>) -> Option<RuntimeId> {
        let there = cluster.runtimes.iter().find(|id| id.0 == wish.0).copied();
        there.filter(|&id| id != cluster.here)
    }
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Wish(u32);

impl State for Wish {}

fn wishes(mut harness: Harness) {
    let runtimes = [RuntimeId(1), RuntimeId(2), RuntimeId(3)];
    let cluster = Cluster {
        here: RuntimeId(1),
        runtimes: &runtimes,
    };
    harness.set_time(Time::from_secs(1));
    for client in [2, 1, 7, 3] {
        let packet = Craft::udp(&format!("10.0.0.{client}:99"), "192.0.2.1:53");
        assert_eq!(harness.send(&packet.build()).len(), 1);
    }
    let mut asked = |client: u8| {
        let client = [10, 0, 0, client].into();
        let server = [192, 0, 2, 1].into();
        let (key, _) = FlowKey::new(client, 99, server, 53, 17, 0, 0);
        harness.runtime().preferred_owner(&key, &cluster)
    };
    assert_eq!(asked(2), Some(RuntimeId(2)));
    assert_eq!(asked(3), Some(RuntimeId(3)));
    assert_eq!(asked(1), None, "it is there");
    assert_eq!(asked(7), None, "no such runtime");
    assert_eq!(asked(9), None, "no such flow");
}

#[test]
fn a_flow_goes_where_its_state_says() {
    wishes(Harness::of::<Place<false>>(()));
}

#[test]
fn a_state_of_a_wider_scope_is_asked_too() {
    wishes(Harness::of::<Place<true>>(()));
}
