//! Addresses and ports that functions of one instance take for themselves: no
//! two may take the same, or answers to one go to the other.

use std::collections::BTreeMap;
use std::net::IpAddr;

use weir_nf::{Owned, PoolSpec};
use weir_packet::Prefix;

use crate::diagnostic::{Report, Span};

/// The claims of all chains of a file.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    claimants: Vec<Claimant>,
    leases: Vec<Lease>,
    services: Vec<Service>,
}

/// A function that claims addresses.
#[derive(Debug, PartialEq, Eq)]
struct Claimant {
    chain: String,
    name: String,
    span: Span,
}

/// Addresses with ports to lease.
#[derive(Debug)]
struct Lease {
    of: usize,
    addresses: Vec<IpAddr>,
    ports: (u16, u16),
}

/// Addresses and ports to which clients send.
#[derive(Debug)]
struct Service {
    of: usize,
    addresses: Prefix,
    ports: (u16, u16),
}

/// An address with ports of two claimants.
struct Overlap {
    first: usize,
    second: usize,
    address: IpAddr,
    ports: (u16, u16),
}

fn common(one: (u16, u16), other: (u16, u16)) -> Option<(u16, u16)> {
    let (first, last) = (one.0.max(other.0), one.1.min(other.1));
    (first <= last).then_some((first, last))
}

/// Advice on two functions that claim the same.
const APART: &str = "give one of them other addresses or ports";
/// The same of two that lease.
const APART_OR_ONE: &str = "give one of them other addresses or ports, or lead the packets of both \
     through one of them: each leases ports without knowing the other's, in other VLANs, too";

impl Claims {
    fn claimant(&mut self, chain: &str, name: &str, span: Span) -> usize {
        let (chain, name) = (chain.to_owned(), name.to_owned());
        let claimant = Claimant { chain, name, span };
        let known = self.claimants.iter().position(|known| *known == claimant);
        known.unwrap_or_else(|| {
            self.claimants.push(claimant);
            self.claimants.len() - 1
        })
    }

    /// A function leases ports of `pool`, which the setting at `span` names.
    pub(crate) fn lease(&mut self, chain: &str, name: &str, span: Span, pool: &PoolSpec) {
        let of = self.claimant(chain, name, span);
        self.leases.push(Lease {
            of,
            addresses: pool.addresses.clone(),
            ports: (pool.first, pool.last),
        });
    }

    /// A function serves what `owned` says.
    pub(crate) fn serve(&mut self, chain: &str, name: &str, span: Span, owned: &Owned) {
        let Some(ports) = owned.ports else {
            return;
        };
        let of = self.claimant(chain, name, span);
        self.services.push(Service {
            of,
            addresses: owned.addresses,
            ports,
        });
    }

    /// Reports each pair of functions that claim the same, once.
    pub(crate) fn check(&self, report: &mut Report<'_>) {
        let mut told: Vec<(usize, usize)> = Vec::new();
        // Also where VLANs keep the chains apart: behind the NATs they may meet again, and the same
        // external port is then two clients'.
        let leased = self.leased_twice().into_iter().map(|it| (it, APART_OR_ONE));
        let served = self.leased_and_served().into_iter().map(|it| (it, APART));
        for (overlap, help) in leased.chain(served) {
            let pair = (overlap.first, overlap.second);
            if !told.contains(&pair) {
                told.push(pair);
                self.refuse(&overlap, help, report);
            }
        }
        for overlap in self.served_twice() {
            let pair = (overlap.first, overlap.second);
            if !told.contains(&pair) {
                told.push(pair);
                self.warn(&overlap, report);
            }
        }
    }

    fn leased_twice(&self) -> Vec<Overlap> {
        let mut overlaps = Vec::new();
        let mut leased: BTreeMap<IpAddr, Vec<&Lease>> = BTreeMap::new();
        for lease in &self.leases {
            for address in &lease.addresses {
                let before = leased.entry(*address).or_default();
                let shared = before
                    .iter()
                    .find_map(|other| Some((other.of, common(other.ports, lease.ports)?)));
                overlaps.extend(shared.map(|(first, ports)| Overlap {
                    first,
                    second: lease.of,
                    address: *address,
                    ports,
                }));
                before.push(lease);
            }
        }
        overlaps
    }

    fn leased_and_served(&self) -> Vec<Overlap> {
        let mut overlaps = Vec::new();
        for service in &self.services {
            for lease in self.leases.iter().filter(|lease| lease.of != service.of) {
                let Some(ports) = common(lease.ports, service.ports) else {
                    continue;
                };
                let mut addresses = lease.addresses.iter();
                let shared = addresses.find(|address| service.addresses.contains(**address));
                overlaps.extend(shared.map(|address| Overlap {
                    first: lease.of.min(service.of),
                    second: lease.of.max(service.of),
                    address: *address,
                    ports,
                }));
            }
        }
        overlaps
    }

    fn served_twice(&self) -> Vec<Overlap> {
        let mut overlaps = Vec::new();
        for (number, service) in self.services.iter().enumerate() {
            for other in self.services.iter().take(number) {
                if let Some(ports) = common(service.ports, other.ports)
                    && let Some(address) = shared(service.addresses, other.addresses)
                    && service.of != other.of
                {
                    overlaps.push(Overlap {
                        first: other.of,
                        second: service.of,
                        address,
                        ports,
                    });
                }
            }
        }
        overlaps
    }

    /// Message on two functions that claim the same, and the place of the first claim.
    fn describe(&self, overlap: &Overlap, report: &Report<'_>) -> Option<(Span, String, String)> {
        let first = self.claimants.get(overlap.first)?;
        let second = self.claimants.get(overlap.second)?;
        let of = |claimant: &Claimant| match first.chain == second.chain {
            true => format!("`{}`", claimant.name),
            false => format!("`{}` of the chain `{}`", claimant.name, claimant.chain),
        };
        let ports = match overlap.ports {
            (one, last) if one == last => format!("port {one}"),
            (one, last) => format!("ports {one}-{last}"),
        };
        let what = format!(
            "{} and {} both have {ports} of {}",
            of(first),
            of(second),
            overlap.address
        );
        Some((second.span, what, report.texts.line(first.span)))
    }

    fn refuse(&self, overlap: &Overlap, help: &str, report: &mut Report<'_>) {
        if let Some((span, what, place)) = self.describe(overlap, report) {
            report.error_help(
                span,
                format!("{what}: answers to one would go to the other"),
                format!("{help}; the other is at {place}"),
            );
        }
    }

    fn warn(&self, overlap: &Overlap, report: &mut Report<'_>) {
        if let Some((span, what, place)) = self.describe(overlap, report) {
            let help = format!("the first to get a packet serves it; the other is at {place}");
            report.warning_help(span, what, Some(help));
        }
    }
}

/// An address that two prefixes have.
fn shared(one: Prefix, other: Prefix) -> Option<IpAddr> {
    if one.contains(other.address()) {
        Some(other.address())
    } else {
        other.contains(one.address()).then(|| one.address())
    }
}
