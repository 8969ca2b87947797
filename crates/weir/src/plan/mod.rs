//! From chains to plans, for every command that needs one; and `weir plan`,
//! which shows them.

mod costs;
mod place_svg;
mod show;

use std::collections::BTreeMap;
use std::path::Path;

use weir_graph::compile::{Flags, Options, Plan, compile};
use weir_graph::{Chain, ChainFile};

use crate::exit::Failure;

pub(crate) use show::show;

/// Costs of functions in an earlier run (`--costs`), per chain of `file`, for the
/// compiler.
pub(crate) fn costs(
    path: Option<&Path>,
    file: &ChainFile,
) -> Result<Vec<BTreeMap<String, u32>>, Failure> {
    let all = path.map(costs::read).transpose()?.unwrap_or_default();
    let several = file.chains.len() > 1;
    let of_chain = |chain: &Chain| costs::of_chain(&all, &chain.stage.chain, several);
    Ok(file.chains.iter().map(of_chain).collect())
}

/// A chain's plan, as its file and these flags ask for.
pub(crate) fn plan(chain: &Chain, flags: &Flags) -> Result<Plan, Failure> {
    compile_with(chain, &chain.plan.clone().with(flags))
}

/// A chain's plan under these options.
pub(crate) fn compile_with(chain: &Chain, options: &Options) -> Result<Plan, Failure> {
    let name = &chain.stage.chain;
    compile(name, &chain.graph, options).map_err(|faults| {
        let lines = faults.iter().map(|fault| {
            let help = fault.help.iter();
            let help = help.map(|help| format!("\n  = help: {help}"));
            format!(
                "error: the plan of chain {name}: {}{}",
                fault.message,
                help.collect::<String>()
            )
        });
        Failure::chain(lines.collect::<Vec<_>>().join("\n"))
    })
}
