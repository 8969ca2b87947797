//! The chains that a simulation draws from: small tables, short time-outs.

use core::fmt::Write as _;

use weir_graph::{Input, load, render};
use weir_nf::NoSources;
use weir_nf::host::{Kind, Stage};

use crate::random::Random;
use crate::wanderer::Wanderer;

/// Shortest idle time of a flow per transport, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IdleTimes {
    /// Of a UDP flow.
    pub(crate) udp: u64,
}

/// A chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chain {
    /// Counts.
    Count,
    /// Stateful firewall, HTTP parser, load balancer.
    Web,
    /// Firewall and NAT, in small blocks of ports.
    Nat,
    /// The same with time-outs of a few gaps between a flow's packets, and few ports: ports
    /// return, and are leased again, while moves and failures run.
    NatShort,
    /// The same, where clients use few ports, which the NAT keeps where it can, and a third of the
    /// flows go to other clients' outside addresses: names collide.
    NatCrowded,
    /// UDP from clients that have logged in: state per client.
    Clients,
    /// Intrusion detection: alerts.
    Inspect,
    /// Functions that make packets: rejects, ICMP errors; a policer.
    Emit,
    /// A function that asks to be moved.
    Wander,
}

impl Chain {
    /// All.
    pub const ALL: [Chain; 9] = [
        Chain::Count,
        Chain::Web,
        Chain::Nat,
        Chain::Clients,
        Chain::Inspect,
        Chain::Emit,
        Chain::Wander,
        Chain::NatShort,
        Chain::NatCrowded,
    ];

    /// Those that a seed draws from. A list that grew would change all seeds.
    pub const DRAWN: [Chain; 7] = [
        Chain::Count,
        Chain::Web,
        Chain::Nat,
        Chain::Clients,
        Chain::Inspect,
        Chain::Emit,
        Chain::Wander,
    ];

    /// True where it translates addresses.
    pub(crate) const fn is_nat(self) -> bool {
        matches!(self, Chain::Nat | Chain::NatShort | Chain::NatCrowded)
    }

    /// True where time-outs are a few gaps between the packets of a flow, and ports are few.
    const fn is_short(self) -> bool {
        matches!(self, Chain::NatShort | Chain::NatCrowded)
    }

    /// Its name on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            Chain::Count => "count",
            Chain::Web => "web",
            Chain::Nat => "nat",
            Chain::NatShort => "nat-short",
            Chain::NatCrowded => "nat-crowded",
            Chain::Clients => "clients",
            Chain::Inspect => "inspect",
            Chain::Emit => "emit",
            Chain::Wander => "wander",
        }
    }

    /// The chain of this name.
    pub fn from_name(name: &str) -> Option<Chain> {
        Chain::ALL.into_iter().find(|chain| chain.name() == name)
    }

    /// Its text, as a chain file has it; `seed` varies the settings.
    pub fn text(self, seed: u64) -> String {
        let mut random = Random::new(seed, 3);
        let mut text = format!("chain: {}\n", self.name());
        let malformed = if random.chance(500) { "drop" } else { "pass" };
        // Writing to a string can't fail.
        let _ = write!(
            text,
            "flows:\n  max: 1024\n  malformed: {malformed}\n  held-fragments: {}\n  \
             track: always\n  buffers: 512KiB\n  timeouts: {{",
            [0, 4, 64][random.below(3) as usize],
        );
        let (opening, established, udp) = match self {
            _ if self.is_short() => ((10, 30), (15, 60), (8, 40)),
            _ => ((120, 300), (250, 500), (100, 300)),
        };
        let rest = match self {
            _ if self.is_short() => [12, 3, 10, 12],
            _ => [150, 40, 120, 150],
        };
        let _ = write!(
            text,
            "tcp-opening: {}ms, tcp-established: {}ms, tcp-closing: {}ms, tcp-closed: {}ms, \
             udp: {}ms, icmp: {}ms, other: {}ms}}\nnfs:\n",
            random.within(opening.0, opening.1),
            random.within(established.0, established.1),
            rest[0],
            rest[1],
            random.within(udp.0, udp.1),
            rest[2],
            rest[3],
        );
        text += match self {
            Chain::Count => {
                "  - ip-check: {on-bad: count}\n  - size-histogram\n  - monitor: {events: false}\n"
            }
            Chain::Web => WEB,
            Chain::Nat | Chain::NatShort | Chain::NatCrowded => NAT,
            Chain::Clients => CLIENTS,
            Chain::Inspect => INSPECT,
            Chain::Emit => EMIT,
            Chain::Wander => WANDER,
        };
        if self.is_nat() {
            let blocks = if self.is_short() { 6 } else { 20 };
            let mapping = ["endpoint-independent", "address-and-port-dependent"];
            text = text
                .replace("MAPPING", mapping[random.below(2) as usize])
                .replace(
                    "PRESERVE",
                    if self == Chain::NatCrowded || random.chance(500) {
                        "true"
                    } else {
                        "false"
                    },
                )
                // Blocks of 64 ports: few enough to be used up.
                .replace("LAST", &(1_023 + 64 * random.within(4, blocks)).to_string());
        }
        text
    }

    /// How long its flows may be idle, as its text says.
    pub(crate) fn idle_times(self, seed: u64) -> IdleTimes {
        let text = self.text(seed);
        let of = |name: &str| {
            let (_, rest) = text.split_once(name)?;
            let (number, _) = rest.split_once("ms")?;
            number.trim().parse::<u64>().ok()
        };
        IdleTimes {
            udp: of(" udp:").unwrap_or(0) * 1_000_000,
        }
    }

    /// The chain, ready to run.
    ///
    /// # Errors
    ///
    /// What is wrong with the text: a fault of this module.
    pub fn build(self, seed: u64) -> Result<Stage, String> {
        let mut kinds: Vec<Kind> = weir_functions::kinds().to_vec();
        kinds.push(Kind::of::<Wanderer>());
        let text = self.text(seed);
        let input = Input {
            name: self.name(),
            text: &text,
            kinds: &kinds,
            overrides: &[],
            seed,
        };
        let file = load(&input, &mut NoSources).map_err(|all| render(&all))?;
        let first = file.chains.into_iter().next();
        first
            .map(|chain| chain.stage)
            .ok_or_else(|| "the text has no chain".to_owned())
    }
}

const WEB: &str = r"  - ip-check
  - firewall:
      default: drop
      log-default: true
      rules:
        - accept tcp to any port 80,443,8080 name web
        - accept udp to any port 53 name names
        - accept icmp name ping
  - http
  - load-balancer:
      table-size: 251
      services:
        - name: www
          vip: 203.0.113.80
          backends: [{address: 198.51.100.11}, {address: 198.51.100.12}, {address: 198.51.100.13}]
";

const NAT: &str = r"  - firewall:
      default: accept
      rules: [drop tcp to any port 23]
  - nat44:
      pool: 203.0.113.1
      ports: 1024-LAST
      block: 64
      inside: 10.0.0.0/8
      mapping: MAPPING
      preserve-port: PRESERVE
  - monitor: {events: false}
";

const CLIENTS: &str = r"  - udp-whitelist: {lifetime: 1, log: true, learn: [{port: 80}, {port: 443}, {port: 8080}]}
  - monitor: {events: false}
";

const INSPECT: &str = r#"  - ids:
      rules: |
        alert tcp any any -> any any (msg:"passwords"; flow:established,to_server; content:"/etc/passwd"; classtype:web-application-attack; sid:7; rev:3;)
        alert udp any any -> any any (msg:"name"; content:"query"; threshold:type limit, track by_src, count 1, seconds 1; sid:8; rev:1;)
      unsupported: skip
  - http
"#;

const EMIT: &str = r"  - ttl: {icmp: true, address: 192.0.2.254}
  - firewall:
      default: reject
      rules:
        - accept tcp to any port 80,443
        - accept udp to any port 53,123
  - policer: {rate: 400pps, burst: 20}
";

const WANDER: &str = r"  - firewall:
      default: accept
      rules: [drop tcp to any port 23]
  - wanderer
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_chain_is_built() {
        for chain in Chain::ALL {
            assert_eq!(Chain::from_name(chain.name()), Some(chain));
            for seed in 0..8 {
                let built = chain.build(seed);
                assert!(built.is_ok(), "{}: {:?}", chain.name(), built.err());
            }
        }
    }
}
