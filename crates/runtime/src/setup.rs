//! From a stage to a runtime: what the stage needs is found out and reserved.

use weir_nf::host::{
    Aliases, Emits, FlowOptions, MAX_LABELS, OnMalformed, Stage, StageLayout, Target, World,
};
use weir_nf::{BufferPool, EventLog, Leases, Needs, Scope};
use weir_packet::{Depth, KeyOptions, ParseOptions};

use crate::config::RuntimeConfig;
use crate::counts::{Cost, Counts};
use crate::flows::FlowTable;
use crate::follow::Follow;
use crate::fragments::Fragments;
use crate::functions::Functions;
use crate::reading::Reading;
use crate::runtime::Runtime;
use crate::same_as::check_same;
use crate::scratch::{MAX_SCOPES, Scratch};
use crate::stage_error::StageError;
use crate::stages::{InPlan, Kind, Rest, Role, check_role, needs_of};
use crate::waiting::Waiting;
use crate::watch::Observers;

impl Runtime {
    /// Reserves all memory the stage will ever use.
    ///
    /// # Errors
    ///
    /// A stage with more than 64 functions, scopes that do not nest, or links
    /// that lead backwards: what the graph compiler refuses with a place in
    /// the file.
    pub fn new(stage: &Stage, config: RuntimeConfig) -> Result<Runtime, StageError> {
        let options = stage.flows;
        check_nodes(stage)?;
        check_same(stage)?;
        check_role(stage, &config.role, config.follows)?;
        let rest = match &config.role {
            Role::First(rest) => Some(rest),
            _ => None,
        };
        let needs = needs_of(stage).max(rest.map_or(Needs::Link, Rest::needs));
        let mut scopes = nested_scopes(stage)?;
        for scope in rest.into_iter().flat_map(Rest::scopes) {
            add_scope(stage, &mut scopes, scope, 0)?;
        }
        let role = config.role.kind();
        let mut layout = StageLayout::default();
        let mut scope_layouts = vec![StageLayout::default(); scopes.len()];
        let functions =
            Functions::new(stage, &scopes, &mut layout, &mut scope_layouts, config.seed);
        let rewriters = rewriters_of(stage);
        let buffer_bytes = buffer_bytes_of(stage);
        let flow_bytes = match needs {
            Needs::Flow => FlowTable::bytes(&options, &layout, &scope_layouts, rewriters),
            _ => 0,
        };
        check_memory(&stage.chain, &options, flow_bytes, buffer_bytes as u64)?;
        let scopes = scopes.into_iter().zip(scope_layouts);
        let scopes = scopes.map(|((s, n), l)| (s, n, l)).collect();
        let (seed, advise) = (config.seed, config.advise);
        let table = match (needs, role) {
            (Needs::Flow, Kind::Later) => {
                Some(FlowTable::fed(&options, &layout, scopes, seed, advise))
            }
            (Needs::Flow, _) => Some(FlowTable::new(
                &options, &layout, scopes, rewriters, seed, advise,
            )),
            _ => None,
        };
        let flows = table.as_ref().map_or(0, |table| table.flows.blocks.count());
        let scope_count = table.as_ref().map_or(0, |table| table.scopes.len());
        let mut runtime = Runtime {
            plan: InPlan::new(&config.role, stage.first, flows, scope_count, advise),
            observers: Observers::new(config.audit, options.inner),
            reading: Reading::new(
                parse_options(&options, config.role.reads(needs), role == Kind::Later),
                key_options(stage),
                options,
                &layout,
            ),
            world: world(stage, &config, buffer_bytes),
            follow: config
                .follows
                .then(|| Box::new(Follow::new(&options, flows, advise))),
            fragments: Fragments::new(options.held_fragments, seed),
            waiting: Waiting::new(options.held_fragments as usize),
            scratch: Box::new(Scratch::new(stage.nodes.len())),
            counts: Counts::default(),
            cost: Cost::new(config.cycles),
            now: 0,
            functions,
            table,
        };
        if config.follows {
            runtime.world.attribute(config.event_bytes > 0);
        }
        if let Some(action) = config.at_start {
            action.apply(&mut runtime);
        }
        Ok(runtime)
    }
}

/// Memory for side buffers.
fn buffer_bytes_of(stage: &Stage) -> usize {
    let mut nodes = stage.nodes.iter();
    match nodes.any(|node| node.processor.descriptor().buffers > 0) {
        true => stage.flows.buffer_bytes,
        false => 0,
    }
}

/// Makes the services that functions share.
fn world(stage: &Stage, config: &RuntimeConfig, buffer_bytes: usize) -> World {
    let mut leases = Leases::new(&stage.pools);
    if !config.follows {
        leases.grant_all();
    }
    World {
        leases,
        buffers: BufferPool::new(buffer_bytes),
        events: match config.event_bytes {
            0 => EventLog::counting(),
            bytes => EventLog::new(bytes),
        },
        emits: Emits::new(),
        aliases: Aliases::new(),
        seed: config.seed,
        silent: false,
    }
}

/// Refuses what the engine can't run: more functions than a block has marks
/// for, or links that lead backwards.
pub(crate) fn check_nodes(stage: &Stage) -> Result<(), StageError> {
    if stage.nodes.len() > StageLayout::MAX_FUNCTIONS as usize {
        return Err(StageError(format!(
            "chain {} has more than 64 functions",
            stage.chain
        )));
    }
    let last = stage.nodes.len();
    for (number, node) in stage.nodes.iter().enumerate() {
        let links = node.next.iter().take(MAX_LABELS);
        let mut backwards =
            links.filter(|t| matches!(t, Target::Node(n) if *n <= number || *n >= last));
        if backwards.next().is_some() {
            return Err(StageError(format!(
                "a link of {} leads backwards or nowhere",
                node.name
            )));
        }
    }
    Ok(())
}

/// Functions that ask for aliases.
pub(crate) fn rewriters_of(stage: &Stage) -> u32 {
    let nodes = stage.nodes.iter();
    nodes
        .filter(|node| node.processor.descriptor().aliases)
        .count() as u32
}

/// How packets are parsed; `None` leaves them unread.
pub(crate) fn parse_options(
    options: &FlowOptions,
    needs: Needs,
    lenient: bool,
) -> Option<ParseOptions> {
    let depth = match needs {
        Needs::Link => return None,
        Needs::Network => Depth::L3,
        Needs::Transport | Needs::Flow => Depth::L4,
    };
    Some(ParseOptions {
        depth,
        inner: options.inner,
        lenient: lenient || options.malformed == OnMalformed::Pass,
    })
}

/// How keys are made.
pub(crate) fn key_options(stage: &Stage) -> KeyOptions {
    KeyOptions {
        chain: stage.number,
        zone: stage.flows.zone,
        icmp: stage.flows.icmp,
    }
}

/// The wider scopes of a stage, finest first, each with the first function
/// that has it.
pub(crate) fn nested_scopes(stage: &Stage) -> Result<Vec<(Scope, usize)>, StageError> {
    let mut scopes: Vec<(Scope, usize)> = Vec::new();
    for (number, node) in stage.nodes.iter().enumerate() {
        let scope = node.processor.scope();
        add_scope(stage, &mut scopes, scope, number)?;
    }
    Ok(scopes)
}

/// Adds a scope that function `number` has, if it is a new one.
pub(crate) fn add_scope(
    stage: &Stage,
    scopes: &mut Vec<(Scope, usize)>,
    scope: Scope,
    number: usize,
) -> Result<(), StageError> {
    if scope == Scope::Flow || scopes.iter().any(|(s, _)| *s == scope) {
        return Ok(());
    }
    if let Some((other, _)) = scopes.iter().find(|(s, _)| !s.nests(scope)) {
        let has = |wanted: Scope| {
            let mut nodes = stage.nodes.iter();
            let node = nodes.find(|node| node.processor.scope() == wanted);
            node.map_or("a later stage", |node| node.name.as_str())
        };
        return Err(StageError(format!(
            "{} and {} keep state by keys that do not nest",
            has(scope),
            has(*other)
        )));
    }
    let place = scopes
        .iter()
        .position(|(s, _)| scope.within(*s))
        .unwrap_or(scopes.len());
    scopes.insert(place, (scope, number));
    if scopes.len() > MAX_SCOPES {
        return Err(StageError(format!(
            "chain {} has more than {MAX_SCOPES} scopes",
            stage.chain
        )));
    }
    Ok(())
}

/// Refuses what the machine can't give: memory is reserved when a stage is
/// made, and a reservation that fails would end the process without a word of
/// what asked for it. Pages are only paid for when they are used.
pub(crate) fn check_memory(
    chain: &str,
    options: &FlowOptions,
    flows: u64,
    buffers: u64,
) -> Result<(), StageError> {
    let mut probe: Vec<u8> = Vec::new();
    let all = usize::try_from(flows.saturating_add(buffers)).unwrap_or(usize::MAX);
    probe.try_reserve_exact(all).map_err(|_| {
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        StageError(format!(
            "chain {chain}: {} MiB for {} flows (`flows.max`) and {} MiB for side buffers \
             (`flows.buffers`) are more than this machine gives: lower one of them",
            mib(flows),
            options.max,
            mib(buffers)
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_memory_than_there_is_is_an_error_that_names_the_settings() {
        let options = FlowOptions::default();
        assert_eq!(check_memory("c", &options, 1 << 20, 1 << 20), Ok(()));
        for (flows, buffers) in [
            (u64::MAX, 0),
            (0, u64::MAX),
            (u64::MAX, u64::MAX),
            (1 << 62, 1 << 62),
        ] {
            let error = check_memory("edge", &options, flows, buffers).unwrap_err();
            for part in ["chain edge", "`flows.max`", "`flows.buffers`"] {
                assert!(error.0.contains(part), "{error:?}");
            }
        }
    }
}
