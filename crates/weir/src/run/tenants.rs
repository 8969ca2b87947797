//! The tenants of a run, and what each may have (docs/tenants.md).

use weir_control::tenants::Tenants;
use weir_graph::ChainFile;

use crate::args::Run;
use crate::billing::tenants_of;
use crate::exit::Failure;

/// The tenants of the chains; `None` where nothing is said of them: then each may have all.
///
/// # Errors
///
/// A tenant has no chain, or is named twice.
pub(super) fn tenants(args: &Run, file: &ChainFile) -> Result<Option<Tenants>, Failure> {
    if args.tenants.is_empty() {
        return Ok(None);
    }
    let of_chain = tenants_of(file, args.tenant.as_deref());
    for (at, by) in args.tenants.iter().enumerate() {
        let name = &by.name;
        if let Some(fault) = without_chain(name, &of_chain) {
            return Err(Failure::usage(fault));
        }
        if args
            .tenants
            .iter()
            .take(at)
            .any(|before| before.name == *name)
        {
            return Err(Failure::usage(format!(
                "`--tenant {name}:…` is given twice"
            )));
        }
    }
    let limits: Vec<_> = (args.tenants.iter())
        .map(|by| (by.name.clone(), by.limits))
        .collect();
    Ok(Some(Tenants::new(&of_chain, &limits)))
}

/// What is wrong with the name of a tenant that has none of the chains, which are of these.
pub(super) fn without_chain(name: &str, of_chain: &[&str]) -> Option<String> {
    if of_chain.contains(&name) {
        return None;
    }
    let mut names = of_chain.to_vec();
    names.sort_unstable();
    names.dedup();
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    Some(format!(
        "no chain is of the tenant `{name}`: the chains are of {}",
        names.join(", ")
    ))
}
