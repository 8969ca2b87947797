//! Tenants that share a run: what each may send at most, and its part where they want more than
//! there is (docs/tenants.md).
//!
//! - [`Quotas`]: a bound of each tenant's rate, whatever else goes on.
//! - [`Room`]: each tenant's part of the packets that may be on their way.
//! - [`Turns`]: each tenant's part of a runtime's time.
//!
//! All three are state machines without I/O: drivers bring packets, counts and clocks.

mod limits;
mod quota;
mod room;
mod shares;
mod turns;

pub use limits::{BURSTS, BadLimits, MOST_BYTES, MOST_PACKETS, MOST_WEIGHT, TenantLimits};
pub use quota::Quotas;
pub use room::Room;
pub use turns::Turns;

/// The tenants of a run, and whose each chain is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenants {
    limits: Vec<TenantLimits>,
    of_chain: Vec<u16>,
}

impl Tenants {
    /// Chains of tenants with these names, in the order of the chains. Tenants that `limits` does
    /// not name have the defaults.
    pub fn new(of_chain: &[&str], limits: &[(String, TenantLimits)]) -> Tenants {
        let mut names: Vec<&str> = Vec::new();
        let mut numbers = Vec::new();
        for name in of_chain {
            let known = names.iter().position(|known| known == name);
            let number = known.unwrap_or(names.len());
            if known.is_none() {
                names.push(name);
            }
            numbers.push(u16::try_from(number).unwrap_or(u16::MAX));
        }
        let of = |name: &&str| {
            let found = limits.iter().find(|(known, _)| known == name);
            found.map_or(TenantLimits::DEFAULT, |(_, limits)| *limits)
        };
        Tenants {
            limits: names.iter().map(of).collect(),
            of_chain: numbers,
        }
    }

    /// The tenant of each chain and its weight, where there are several tenants to share by them.
    pub fn shares(&self) -> Option<Vec<(u16, u32)>> {
        let weight = |tenant: &u16| {
            self.limits
                .get(usize::from(*tenant))
                .map_or(1, |it| it.weight)
        };
        let shares = self.of_chain.iter().map(|tenant| (*tenant, weight(tenant)));
        (self.limits.len() > 1).then(|| shares.collect())
    }

    /// The bounds of the rates, where there are some.
    pub fn quotas(&self) -> Option<Quotas> {
        let bounded = |it: &TenantLimits| it.packets.is_some() || it.bytes.is_some();
        let any = self.limits.iter().any(bounded);
        any.then(|| Quotas::new(&self.limits, &self.of_chain))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_of_one_name_are_of_one_tenant() {
        let three = TenantLimits {
            weight: 3,
            ..TenantLimits::DEFAULT
        };
        let tenants = Tenants::new(&["a", "b", "a"], &[("a".to_owned(), three)]);
        assert_eq!(tenants.shares(), Some(vec![(0, 3), (1, 1), (0, 3)]));
        assert!(tenants.quotas().is_none());
        assert_eq!(Tenants::new(&["a", "a"], &[]).shares(), None);
    }
}
