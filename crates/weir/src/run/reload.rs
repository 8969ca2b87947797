//! The configuration of a run, read again while packets flow (docs/reload.md).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use weir_ctl::configuration::{Configuration, NewConfiguration, NotRead};
use weir_graph::compile::Home;
use weir_graph::{ChainFile, Change};

use crate::args::{Again, Run};
use crate::chains;
use crate::driver::ChainPlan;
use crate::exit::Failure;
use crate::say::say;
use crate::snapshot::Snapshot;

use super::{plan, replacement, sets, texts};

/// A chain file, and the plans by which it runs.
#[derive(Debug)]
struct Loaded {
    file: ChainFile,
    plans: Vec<ChainPlan>,
}

/// The configuration of a run: what runs, and where it was read from.
#[derive(Debug)]
pub(super) struct RunConfiguration {
    args: Run,
    again: Again,
    current: Loaded,
    /// What was read last.
    next: Option<Loaded>,
}

/// The configuration of a run; `None` where it can't be read again: a run that was not loaded from
/// files. With it the sets that can't change while it lasts, and why.
pub(super) type Offered = (Option<Box<dyn Configuration>>, BTreeMap<String, String>);

/// The configuration of this run.
pub(super) fn configuration(args: &Run, file: &ChainFile) -> Result<Offered, Failure> {
    let Some(again) = &args.again else {
        return Ok((None, sets::fixed(args, file, &[])));
    };
    let mut configuration = RunConfiguration {
        args: Run {
            cores: again.cores.clone(),
            ..args.clone()
        },
        again: again.clone(),
        current: Loaded {
            file: file.clone(),
            plans: Vec::new(),
        },
        next: None,
    };
    configuration.current.plans = plan::plans(&configuration.args, file)?;
    let fixed = sets::fixed(args, file, &configuration.current.plans);
    Ok((Some(Box::new(configuration)), fixed))
}

impl RunConfiguration {
    /// Why this way of running takes no other configuration.
    fn obstacle(&self) -> Option<&'static str> {
        if self.args.standby {
            return Some(
                "switches stand by that have the chain file as it was (`--standby`): end all of \
                 them, and start them with the new one",
            );
        }
        None
    }

    /// Changes of functions in processes that are not trusted: those take no commands.
    fn untrusted(&self, changes: &[Change]) -> Vec<String> {
        let mut refused = Vec::new();
        for change in changes {
            let chain = self.current.plans.get(change.chain);
            let Some(plan) = chain.map(|chain| &chain.plan) else {
                continue;
            };
            let stages = plan.steps.iter().flat_map(|step| step.stages());
            let mut apart = stages.filter(|stage| stage.home == Home::Tenant);
            let name = &change.new.name;
            let is_named = |number: usize| {
                plan.graph
                    .nodes
                    .get(number)
                    .is_some_and(|at| at.name == *name)
            };
            if apart.any(|stage| stage.nodes.clone().any(is_named)) {
                refused.push(format!(
                    "chain `{}`, function `{name}`: its stage is not trusted (`untrusted`) and takes \
                     no commands: that takes a restart",
                    plan.chain
                ));
            }
        }
        refused
    }

    fn load(&self, file: Option<&Path>) -> Result<(Loaded, Snapshot), NotRead> {
        let wrong = |failure: Failure| NotRead::Wrong(failure.message);
        let path = file.unwrap_or(&self.args.chain);
        let Run { templates, set, .. } = &self.args;
        let Again { seed, kinds, .. } = &self.again;
        let from = (path, chains::From::Files);
        let running = self.current.file.live_sets();
        let with = (*seed, &running);
        let (file, texts) =
            chains::read_chains(from, templates, set, with, kinds).map_err(wrong)?;
        let plans = plan::plans(&self.args, &file).map_err(wrong)?;
        Ok((Loaded { file, plans }, texts))
    }
}

impl Configuration for RunConfiguration {
    fn read(&mut self, file: Option<&Path>) -> Result<Arc<NewConfiguration>, NotRead> {
        self.next = None;
        if let Some(why) = self.obstacle() {
            return Err(NotRead::Never(why.to_owned()));
        }
        let (loaded, read) = self.load(file)?;
        let changes = weir_graph::changes(&self.current.file, &loaded.file);
        let changes = changes.map_err(NotRead::Refused)?;
        let plans = self.current.plans.iter().zip(&loaded.plans);
        let others = plans.filter(|(before, after)| !after.plan.has_shape_of(&before.plan));
        let others: Vec<String> = others
            .map(|(before, _)| {
                format!(
                    "chain `{}`: the compiler makes another plan of it (`weir plan` shows it): \
                     that takes a restart",
                    before.plan.chain
                )
            })
            .collect();
        let strangers = self.untrusted(&changes);
        if !(others.is_empty() && strangers.is_empty()) {
            return Err(NotRead::Refused([others, strangers].concat()));
        }
        let set_changes = weir_graph::set_changes(&self.current.file, &loaded.file);
        let warnings = weir_graph::render(&loaded.file.warnings);
        let new = replacement::of(&changes, &loaded.plans);
        if file.is_none() {
            texts::offer(read)
                .map_err(|error| NotRead::Wrong(format!("error: can't keep the texts: {error}")))?;
        }
        let sets = loaded.file.sets.clone();
        self.next = Some(loaded);
        Ok(Arc::new(NewConfiguration {
            changes,
            sets,
            set_changes,
            warnings,
            replacement: Arc::new(new),
        }))
    }

    fn taken(&mut self) {
        let Some(next) = self.next.take() else {
            return;
        };
        self.current = next;
        if let Err(error) = texts::take() {
            say(format_args!(
                "warning: what starts from now on has the file as it was: {error}"
            ));
        }
    }

    fn forget(&mut self) {
        self.next = None;
        texts::forget();
    }

    fn tell(&self, text: &str) {
        say(text);
    }
}
