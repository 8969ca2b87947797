//! Gives a script's commands when their time has come.

use std::collections::VecDeque;
use std::fmt;
use std::time::Instant;

use weir_graph::{
    ChainFile, Script, ScriptCommand, ScriptFlows, ScriptMode, ScriptStep, ScriptTime,
};
use weir_protocol::RuntimeId;
use weir_protocol::message::{FlowSpace, MoveMode, Selection};

use crate::driver::Cluster;
use crate::exit::Failure;

/// A script under way.
pub(super) struct Player {
    steps: VecDeque<ScriptStep>,
    /// Names of the chains, by their numbers.
    chains: Vec<String>,
    start: Instant,
    /// Warnings of the script, for the summary.
    pub(super) warnings: Vec<String>,
}

impl Player {
    pub(super) fn new(script: Script, file: &ChainFile) -> Player {
        Player {
            steps: script.steps.into(),
            chains: file.chains.iter().map(|c| c.stage.chain.clone()).collect(),
            start: Instant::now(),
            warnings: Vec::new(),
        }
    }

    /// The first command's time is from here.
    pub(super) fn start(&mut self) {
        self.start = Instant::now();
    }

    /// Gives the commands that are due after so many packets.
    pub(super) fn play(&mut self, cluster: &mut Cluster, packets: u64) -> Result<(), Failure> {
        while let Some(step) = self.steps.front() {
            let due = match step.at {
                ScriptTime::After(ns) => self.start.elapsed().as_nanos() as u64 >= ns,
                ScriptTime::Packet(number) => packets >= number,
            };
            if !due || !self.give(cluster)? {
                return Ok(());
            }
            self.steps.pop_front();
        }
        Ok(())
    }

    /// How many packets may come in before the next command.
    pub(super) fn room(&self, packets: u64) -> usize {
        match self.steps.front().map(|step| step.at) {
            Some(ScriptTime::Packet(number)) if number > packets => {
                usize::try_from(number - packets).unwrap_or(usize::MAX)
            }
            _ => usize::MAX,
        }
    }

    /// The input has ended: what had to wait for more packets or time is left
    /// out. True where nothing is left to wait for.
    pub(super) fn end(&mut self, packets: u64) -> bool {
        let begun = |step: &ScriptStep| match step.at {
            ScriptTime::After(ns) => self.start.elapsed().as_nanos() as u64 >= ns,
            ScriptTime::Packet(number) => packets >= number,
        };
        if self.steps.front().is_some_and(begun) {
            return false;
        }
        for step in self.steps.drain(..) {
            self.warnings.push(format!(
                "line {} of the script was not carried out: the input ended before",
                step.line
            ));
        }
        true
    }

    /// Gives the first command. False where it has to wait.
    fn give(&mut self, cluster: &mut Cluster) -> Result<bool, Failure> {
        let Some(step) = self.steps.front() else {
            return Ok(true);
        };
        let line = step.line;
        let mut refused = |what: &str, why: &dyn fmt::Display| {
            let warning = format!("line {line} of the script: the {what} did nothing: {why}");
            self.warnings.push(warning);
        };
        // It is not waited for. A successor has another number, which no script knows.
        let needs = match &step.command {
            ScriptCommand::Move { to, .. } => Some(("move", *to)),
            ScriptCommand::Drain { runtime, .. } => Some(("drain", *runtime)),
            ScriptCommand::Remove { runtime } => Some(("remove", *runtime)),
            ScriptCommand::Add { .. } => None,
        };
        if let Some((what, runtime)) = needs
            && cluster.has_ended(RuntimeId(runtime))
        {
            refused(what, &format_args!("runtime {runtime} is over"));
            return Ok(true);
        }
        match &step.command {
            ScriptCommand::Move {
                from,
                to,
                flows,
                mode,
                chain,
            } => {
                if !cluster.runs(RuntimeId(*to)) {
                    return Ok(false);
                }
                let number = chain
                    .as_ref()
                    .and_then(|name| self.chains.iter().position(|known| known == name));
                let between = (RuntimeId(*from), RuntimeId(*to));
                let what = selection(flows);
                if let Err(why) = cluster.move_units(number, between, &what, move_mode(*mode)) {
                    refused("move", &why);
                }
            }
            ScriptCommand::Drain { runtime, mode } => {
                if !cluster.runs(RuntimeId(*runtime)) {
                    return Ok(false);
                }
                if let Err(why) = cluster.drain(RuntimeId(*runtime), move_mode(*mode)) {
                    refused("drain", &why);
                }
            }
            ScriptCommand::Add { count } => {
                for _ in 0..*count {
                    // An operator may have used the room (`weir scale`).
                    if cluster.free_places() == 0 {
                        refused("add", &"no place for a runtime is free");
                        break;
                    }
                    cluster
                        .add()
                        .map_err(|error| Failure::outside(error.to_string()))?;
                }
            }
            ScriptCommand::Remove { runtime } if cluster.is_bound(RuntimeId(*runtime)) => {
                refused(
                    "remove",
                    &"it shares its thread with others, and can't end alone",
                );
            }
            ScriptCommand::Remove { runtime } => return Ok(cluster.remove(RuntimeId(*runtime))),
        }
        Ok(true)
    }
}

/// The protocol's word.
pub(super) fn move_mode(mode: ScriptMode) -> MoveMode {
    match mode {
        ScriptMode::Push => MoveMode::Push,
        ScriptMode::Pull => MoveMode::Pull,
        ScriptMode::Reprocess => MoveMode::Reprocess,
    }
}

fn selection(flows: &ScriptFlows) -> Selection {
    match flows {
        ScriptFlows::All => Selection::All,
        ScriptFlows::Count(count) => Selection::Number(*count),
        ScriptFlows::Space {
            prefixes,
            ports,
            protocols,
        } => Selection::Space(FlowSpace {
            prefixes: prefixes.clone(),
            ports: ports.clone(),
            protocols: protocols.clone(),
        }),
        ScriptFlows::Key(key) => Selection::Key(*key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::ClusterBed;

    /// A script that waited for it would never go on.
    #[test]
    fn a_command_that_names_a_dead_runtime_is_left_out() {
        let mut bed = ClusterBed::new(2, Vec::new());
        let dead = bed.kill() as u32 + 1;
        let other = 3 - dead;
        let text = format!(
            "- {{at: 0ms, move: {{from: {other}, to: {dead}}}}}\n\
             - {{at: 0ms, drain: {dead}}}\n\
             - {{at: 0ms, remove: {dead}}}\n\
             - {{at: 0ms, add: 1}}\n"
        );
        let script = weir_graph::load_script("s.yaml", &text, 2, &["c"]).unwrap();
        let mut player = Player::new(script, &bed.file);
        bed.until("the script is over", |cluster| {
            player.play(cluster, 0).unwrap();
            player.steps.is_empty()
        });
        let warnings: Vec<String> = ["move", "drain", "remove"]
            .iter()
            .zip(1..)
            .map(|(what, line)| {
                let why = format!("runtime {dead} is over");
                format!("line {line} of the script: the {what} did nothing: {why}")
            })
            .collect();
        assert_eq!(player.warnings, warnings);
        bed.until("one is added", |cluster| cluster.runs(RuntimeId(3)));
    }
}
