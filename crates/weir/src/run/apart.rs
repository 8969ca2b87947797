//! Engines in processes of their own: `weir run --processes`, and what runs in
//! such a process.

use std::ffi::OsString;
use std::os::fd::AsFd as _;

use serde_json::{Value, json};
use weir_graph::ChainFile;
use weir_graph::compile::Home;
use weir_io::shared::border::Offence;
use weir_nf::Sets;
use weir_nf::host::{Kind, Stage};

use super::engine_config::engine_config;
use super::summary::More;
use super::{plan, replacement, texts};
use crate::args::{Args, Command, ENGINE_PROCESS, EngineArgs, Run};
use crate::driver::process::digest_of_chains;
use crate::driver::{
    BorderEnd, ChainPlan, EngineProcess, Patience, ProcessCommand, ProcessEnd, Processes, Reread,
    Taken,
};
use crate::exit::{Exit, Failure, Outcome};

/// Selects the stages that run in processes of their own: those that the chain
/// file or the placement names; with `--processes` also every stage of one
/// thread after the first of its chain.
pub(super) fn processes(args: &Run, plans: &[ChainPlan], patience: Patience) -> Option<Processes> {
    let steps = super::placement::homes(args.processes, args.placed.as_ref(), plans);
    if !args.processes && steps.iter().flatten().all(|home| *home == Home::Main) {
        return None;
    }
    Some(Processes {
        command: command(),
        steps,
        patience,
    })
}

/// How this program starts a process for an engine.
pub(super) fn command() -> ProcessCommand {
    let mut arguments = vec![OsString::from(ENGINE_PROCESS)];
    arguments.extend(std::env::args_os().skip(1));
    ProcessCommand {
        program: "/proc/self/exe".into(),
        arguments,
    }
}

/// Refuses plans with an untrusted stage: a run that is traced from captures has
/// all stages as threads of this process, and untrusted code must not run there.
pub(super) fn check_watched(plans: &[ChainPlan]) -> Result<(), Failure> {
    for chain in plans {
        let stages = chain.plan.steps.iter().flat_map(|step| step.stages());
        if stages.clone().any(|stage| stage.home == Home::Tenant) {
            return Err(Failure::usage(format!(
                "chain {}: it has a stage that is not trusted (`untrusted`), which is not looked into: \
                 run it with `weir run --control`, and trace what is before and behind that stage",
                chain.plan.chain
            )));
        }
    }
    Ok(())
}

/// Runs an engine for the process that started this one.
pub(crate) fn run(args: &EngineArgs, kinds: &[Kind]) -> Outcome {
    let usage = || {
        Failure::usage(format!(
            "`{ENGINE_PROCESS}` is how `weir run` starts its stages and runtimes: it is of no use by itself"
        ))
    };
    let socket = std::io::stdin().as_fd().try_clone_to_owned();
    let socket = socket.map_err(|_| usage())?;
    let parsed = <Args as clap::Parser>::try_parse_from(
        std::iter::once(OsString::from("weir")).chain(args.run.iter().cloned()),
    );
    let Ok(Args {
        command: Command::Run(run),
    }) = parsed
    else {
        return Err(usage());
    };
    let process = EngineProcess::begin(socket).map_err(Failure::outside)?;
    texts::inherit();
    let seed = process.seed();
    let loaded = fitting(
        texts::candidates(&run, (seed, &Sets::default()), kinds, false),
        &run,
        process.chains(),
    );
    let (file, plans) = match loaded {
        Ok(loaded) => loaded,
        Err(failure) => {
            process.give_up(&failure.message);
            return Err(failure);
        }
    };
    let config = engine_config(&run, seed);
    match process {
        EngineProcess::Stage(stage) => stage.run(&plans, reread(*run, seed, kinds, file), config),
        EngineProcess::Runtime(runtime) => {
            let (stages, digest) = whole(&plans);
            runtime.run(&stages, (digest, reread(*run, seed, kinds, file)), config)
        }
        EngineProcess::Remote(remote) => {
            let (stages, digest) = whole(&plans);
            remote.run(&stages, (digest, reread(*run, seed, kinds, file)), config)
        }
    }
    .map_err(Failure::outside)?;
    Ok(Exit::Done)
}

/// Compiles the chains of a process as its main process does.
fn compiled(run: &Run, file: ChainFile) -> Result<(ChainFile, Vec<ChainPlan>), Failure> {
    // Runtimes of a placement or the chain file change how chains are compiled.
    let run = super::placement::applied(run, &file)?;
    let plans = plan::plans(&run, &file)?;
    Ok((file, plans))
}

/// Those chains for which a number stands; where it stands for none, the first.
fn fitting(
    candidates: Vec<Result<ChainFile, Failure>>,
    run: &Run,
    wanted: u64,
) -> Result<(ChainFile, Vec<ChainPlan>), Failure> {
    let mut first = None;
    for loaded in candidates {
        let loaded = loaded.and_then(|file| compiled(run, file));
        match loaded {
            Ok((file, plans)) if digest_of_chains(&plans) == wanted => return Ok((file, plans)),
            loaded => first = first.or(Some(loaded)),
        }
    }
    first.unwrap_or_else(|| Err(Failure::outside("there are no chains")))
}

/// The way to the configuration of a process that runs `current`.
fn reread(run: Run, seed: u64, kinds: &[Kind], mut current: ChainFile) -> Reread {
    let kinds = kinds.to_vec();
    let mut next = None;
    let sets = current.live_sets();
    let running = sets.clone();
    let read = move |Taken(taken): Taken, wanted| {
        if let Some(file) = next.take().filter(|_| taken) {
            current = file;
        }
        let candidates = texts::candidates(&run, (seed, &running), &kinds, true);
        let loaded = fitting(candidates, &run, wanted);
        let (file, plans) = loaded.map_err(|failure| failure.message)?;
        let changes = weir_graph::changes(&current, &file).map_err(|why| why.join("; "))?;
        next = Some(file);
        Ok(replacement::of(&changes, &plans))
    };
    Reread::new(Box::new(read), sets)
}

/// The chains of a runtime, each as a whole, and the number that stands for them.
fn whole(plans: &[ChainPlan]) -> (Vec<Stage>, u64) {
    let stages = plans.iter().filter_map(plan::only_stage).cloned();
    let digest = digest_of_chains(plans);
    (stages.collect(), digest)
}

/// The part of the summary for stages in processes.
pub(super) struct Apart {
    pub(super) processes: Vec<ProcessEnd>,
    pub(super) pages: Option<String>,
}

impl Apart {
    /// Warnings for the operator.
    pub(super) fn warnings(&self) -> Vec<String> {
        let died = self.processes.iter().filter(|process| process.deaths > 0);
        let tenants = self
            .processes
            .iter()
            .any(|process| process.border.is_some());
        let same_user = tenants && !rustix::process::geteuid().is_root();
        let same_user = same_user.then(|| {
            "stages that are not trusted run as the same user as weir, which is a weaker border: as root it gives them another one".to_owned()
        });
        let died = died.map(|process| {
            let (stage, deaths) = (process.place.1 + 1, process.deaths);
            if process.border.as_ref().is_some_and(|border| border.gone) {
                return format!(
                    "stage {stage}, which is not trusted, died {deaths} times and was not started again: its packets were dropped"
                );
            }
            format!(
                "stage {stage} died {deaths} times and was started again: {} flows lost their state in it",
                process.flows_lost
            )
        });
        died.chain(same_user).collect()
    }
}

/// A border's counts.
fn border_json(border: &BorderEnd) -> Value {
    let counts = &border.counts;
    let offences = Offence::ALL.iter().zip(counts.offences);
    let offences = offences.filter(|(_, count)| *count > 0);
    json!({
        "copied": counts.lent,
        "dropped": counts.dropped,
        "made": counts.made,
        "made_too_many": counts.made_too_many,
        "stalled": counts.stalled,
        "refused": counts.refused,
        "died": counts.died,
        "gone": counts.gone,
        "events_refused": border.events_refused,
        "given_up": border.gone,
        "offences": offences
            .map(|(offence, count)| (offence.name().to_owned(), json!(count)))
            .collect::<serde_json::Map<_, _>>(),
    })
}

impl More for Apart {
    fn add_json(&self, value: &mut Value) {
        let processes = self.processes.iter().map(|process| {
            json!({
                "chain": process.place.0,
                "stage": process.place.1 + 1,
                "died": process.deaths,
                "frames_back": process.frames_back,
                "flows_lost": process.flows_lost,
                "bad_descriptors": process.bad_descriptors,
                "trusted": process.border.is_none(),
                "border": process.border.as_ref().map(border_json),
            })
        });
        value["processes"] = processes.collect();
        value["packet_memory"] = json!(self.pages);
    }

    fn add_text(&self, text: &mut String) {
        let pages = self.pages.as_deref().unwrap_or("of this process alone");
        text.push_str(&format!(
            "\n{} stages in processes of their own; packet memory: {pages}\n",
            self.processes.len()
        ));
        for process in self.processes.iter().filter(|process| process.deaths > 0) {
            text.push_str(&format!(
                "  stage {} died {} times: {} frames came back, {} flows lost their state in it\n",
                process.place.1 + 1,
                process.deaths,
                process.frames_back,
                process.flows_lost
            ));
        }
    }
}
