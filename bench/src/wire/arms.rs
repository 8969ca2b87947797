//! The arms of the comparison.

use super::network::{Middle, POOL, Placement, SERVER};

/// The forwarder of an arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum With {
    /// The kernel, with nftables.
    Kernel,
    /// Ports of this kind and nothing between them.
    Bare(&'static str),
    /// `weir run` on ports of this kind, a bump in the wire.
    Weir(&'static str),
    /// The same as a router.
    Router(&'static str),
}

/// A measurement of an arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Packets per busy second.
    Load,
    /// One TCP connection.
    Tcp,
    /// Round trips.
    Rtt,
    /// Processor time without traffic.
    Idle,
}

/// Something that is compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arm {
    pub(super) name: &'static str,
    pub(super) with: With,
    pub(super) placement: Placement,
    pub(super) what: &'static [What],
    /// The hosts leave checksums and segments to cards that are not there.
    pub(super) offloads: bool,
    /// It never sleeps.
    pub(super) spin: bool,
    /// The program goes before the kernel's threads on its processor: they bring what it can take, and
    /// not what it then must drop.
    pub(super) first: bool,
}

impl Arm {
    pub(super) fn middle(&self) -> Middle {
        match self.with {
            With::Kernel => Middle::Kernel,
            With::Bare(_) | With::Weir(_) => Middle::Bump,
            With::Router(_) => Middle::Router,
        }
    }

    /// The interfaces get no XDP program.
    pub(super) fn without_xdp(&self) -> bool {
        match self.with {
            With::Kernel => true,
            With::Bare(kind) | With::Weir(kind) | With::Router(kind) => kind == PACKET,
        }
    }
}

const fn arm(name: &'static str, with: With, placement: Placement, what: &'static [What]) -> Arm {
    Arm {
        name,
        with,
        placement,
        what,
        offloads: false,
        spin: false,
        first: false,
    }
}

const fn first(name: &'static str, with: With) -> Arm {
    Arm {
        first: true,
        ..arm(name, with, Thread, &[Load])
    }
}

/// Processor of the generator and the hosts.
pub(super) const HOSTS: usize = 0;
/// Processor of whoever forwards.
pub(super) const FORWARDER: usize = 1;

const XDP: &str = "xdp:IFACE:native";
const PACKET: &str = "af-packet:IFACE";
const RPS: Placement = Placement::Rps(FORWARDER);

use Placement::{Polled, Sender, Thread};
use What::{Idle, Load, Rtt, Tcp};
use With::{Bare, Kernel, Router, Weir};

/// All of them. Where the kernel's part may run on the sender's processor the forwarder's says nothing
/// of the cost, so arms of [`What::Load`] have it elsewhere; latency and TCP are taken as interfaces
/// come.
pub(super) const ARMS: &[Arm] = &[
    arm("kernel-rps", Kernel, RPS, &[Load]),
    arm("kernel-thread", Kernel, Thread, &[Load]),
    arm("xdp-bump-thread", Bare(XDP), Thread, &[Load]),
    arm("xdp-bump-polled", Bare(XDP), Polled, &[Load]),
    arm("weir-xdp-thread", Weir(XDP), Thread, &[Load]),
    arm("weir-xdp-polled", Weir(XDP), Polled, &[Load]),
    arm("weir-router-xdp-thread", Router(XDP), Thread, &[Load]),
    arm("weir-router-xdp-polled", Router(XDP), Polled, &[Load]),
    arm("packet-bump-rps", Bare(PACKET), RPS, &[Load]),
    arm("weir-packet-rps", Weir(PACKET), RPS, &[Load]),
    arm("weir-router-packet-rps", Router(PACKET), RPS, &[Load]),
    arm("packet-bump-thread", Bare(PACKET), Thread, &[Load]),
    arm("weir-packet-thread", Weir(PACKET), Thread, &[Load]),
    arm("weir-router-packet-thread", Router(PACKET), Thread, &[Load]),
    first("packet-bump-first", Bare(PACKET)),
    first("weir-packet-first", Weir(PACKET)),
    first("weir-router-packet-first", Router(PACKET)),
    first("weir-xdp-first", Weir(XDP)),
    arm("kernel", Kernel, Sender, &[Rtt, Tcp]),
    Arm {
        offloads: true,
        ..arm("kernel-offloads", Kernel, Sender, &[Tcp])
    },
    arm("xdp-bump", Bare(XDP), Sender, &[Rtt, Tcp]),
    arm("weir-xdp", Weir(XDP), Sender, &[Rtt, Tcp, Idle]),
    Arm {
        spin: true,
        ..arm("weir-xdp-spin", Weir(XDP), Sender, &[Rtt])
    },
    arm("weir-router-xdp", Router(XDP), Sender, &[Rtt, Tcp]),
    arm("packet-bump", Bare(PACKET), Sender, &[Rtt, Tcp]),
    arm("weir-packet", Weir(PACKET), Sender, &[Rtt, Tcp, Idle]),
    arm("weir-router-packet", Router(PACKET), Sender, &[Rtt, Tcp]),
];

/// weir's chain: a stateful firewall and a NAT, like those of nftables in [`super::network`]. As a
/// router it has the addresses and the route that the kernel has there, and finds its neighbours.
pub(super) fn chain(router: bool) -> String {
    let network = match router {
        false => String::new(),
        true => format!(
            "network:
  mode: router
  ports:
    inside: {{addresses: [10.0.0.1/16]}}
    outside: {{addresses: [192.0.2.1/24]}}
  routes:
    - {{to: 198.18.0.0/16, via: {SERVER}}}
"
        ),
    };
    format!(
        "chain: wire
ports:
  - {{name: inside, side: inside}}
  - {{name: outside, side: outside}}
{network}\
flows: {{max: 100000}}
nfs:
  - firewall:
      default: drop
      rules:
        - accept out udp from 10.0.0.0/8 to any
        - accept out tcp from 10.0.0.0/8 to any
        - accept out icmp from 10.0.0.0/8
  - nat44: {{pool: {POOL}, inside: 10.0.0.0/8}}
"
    )
}
