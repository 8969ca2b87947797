//! The weights of tenants, from the shares of chains.

/// The weight of each tenant, by its number, of chains of these tenants with these weights.
pub(super) fn weights(shares: &[(u16, u32)]) -> Vec<u32> {
    let count = shares.iter().map(|(tenant, _)| usize::from(*tenant) + 1);
    let mut weights = vec![1; count.max().unwrap_or(0)];
    for (tenant, weight) in shares {
        if let Some(its) = weights.get_mut(usize::from(*tenant)) {
            *its = (*weight).max(1);
        }
    }
    weights
}
