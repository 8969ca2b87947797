//! The classifier against a model made of maps: any packets, aliases, ends and
//! restores, in bursts.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::Probe;
use proptest::prelude::*;
use weir_nf::host::{AliasRequest, FlowOptions, Stage};
use weir_nf::packet::{Direction, FlowKey, Frame, FrameMeta, FramePool, MemoryLayout, Side, Time};
use weir_runtime::harness::{Craft, Harness};
use weir_runtime::{Classifier, RuntimeConfig, SnapshotError};

const MAX: u32 = 12;

#[derive(Clone, Copy, Debug)]
struct Sent {
    client: u8,
    server: u8,
    back: bool,
    /// A SYN+ACK: its sender is the server.
    answer: bool,
    outside: bool,
}

#[derive(Clone, Debug)]
enum Step {
    Burst(Vec<Sent>),
    /// Unit, its flow, name, open or not, and whether the name is a flow's key.
    Alias(u8, u8, u8, bool),
    AddFlow(u8, u8, u8),
    EndFlow(u8, u8),
    EndAlias(u8, u8),
    Remove(u8),
    /// Ends a unit and puts it back.
    Restore(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let sent = (0u8..5, 0u8..4, any::<bool>(), any::<bool>(), any::<bool>());
    let sent = sent.prop_map(|(client, server, back, answer, outside)| Sent {
        client,
        server,
        back,
        answer,
        outside,
    });
    let step = prop_oneof![
        6 => prop::collection::vec(sent, 1..20).prop_map(Step::Burst),
        4 => any::<(u8, u8, u8, bool)>().prop_map(|(u, f, n, open)| Step::Alias(u, f, n, open)),
        1 => any::<(u8, u8, u8)>().prop_map(|(u, c, s)| Step::AddFlow(u, c, s)),
        2 => any::<(u8, u8)>().prop_map(|(u, f)| Step::EndFlow(u, f)),
        1 => any::<(u8, u8)>().prop_map(|(u, f)| Step::EndAlias(u, f)),
        2 => any::<u8>().prop_map(Step::Remove),
        1 => any::<u8>().prop_map(Step::Restore),
    ];
    prop::collection::vec(step, 1..60)
}

/// Clients 3 and 4 are the servers' addresses too, so that packets between
/// them go any way.
fn client(number: u8) -> String {
    match number % 5 {
        3 => "192.0.2.0:80".to_owned(),
        4 => "192.0.2.1:80".to_owned(),
        n => format!("10.0.0.{n}:1000"),
    }
}

fn server(number: u8) -> String {
    match number % 4 {
        3 => "10.0.0.1:1000".to_owned(),
        n => format!("192.0.2.{n}:80"),
    }
}

fn key(from: &str, to: &str) -> (FlowKey, Direction) {
    let [from, to] = [from, to].map(|text| text.parse::<std::net::SocketAddr>().unwrap());
    FlowKey::new(from.ip(), from.port(), to.ip(), to.port(), 6, 0, 0)
}

impl Sent {
    fn ends(&self) -> (String, String) {
        let (client, server) = (client(self.client), server(self.server));
        if self.back {
            (server, client)
        } else {
            (client, server)
        }
    }

    fn side(&self) -> Side {
        if self.outside {
            Side::Outside
        } else {
            Side::Inside
        }
    }

    fn packet(&self) -> Vec<u8> {
        let (from, to) = self.ends();
        let flags = if self.answer { "SA" } else { "A" };
        Craft::tcp(&from, &to).flags(flags).build()
    }
}

#[derive(Clone, Debug)]
struct Flow {
    unit: u64,
    client_is_b: bool,
}

#[derive(Clone, Copy, Debug)]
struct Alias {
    unit: u64,
    /// `None` for an open one, which is the unit's.
    flow: Option<FlowKey>,
    request: AliasRequest,
    /// The key of a further flow, which stays until its unit ends.
    is_own: bool,
}

/// What the classifier should know.
#[derive(Debug, Default)]
struct Model {
    wide: bool,
    /// Scope keys of live units, where known.
    units: BTreeMap<u64, Option<FlowKey>>,
    /// Flows that their keys lead to.
    flows: BTreeMap<FlowKey, Flow>,
    /// Flows whose key an alias or another unit has, by unit and key.
    hidden: BTreeMap<(u64, FlowKey), Flow>,
    aliases: BTreeMap<FlowKey, Alias>,
    lives: BTreeSet<u64>,
    refused: u64,
    aliases_refused: u64,
}

impl Model {
    fn flow_count(&self) -> usize {
        self.flows.len() + self.hidden.len()
    }

    fn unit(&self, number: u8) -> Option<u64> {
        let units: Vec<u64> = self.units.keys().copied().collect();
        let at = usize::from(number).checked_rem(units.len())?;
        Some(units[at])
    }

    fn flows_of(&self, unit: u64) -> Vec<(FlowKey, Flow)> {
        let shown = self.flows.iter().filter(|(_, flow)| flow.unit == unit);
        let hidden = self.hidden.iter().filter(|((u, _), _)| *u == unit);
        shown
            .map(|(key, flow)| (*key, flow.clone()))
            .chain(hidden.map(|((_, key), flow)| (*key, flow.clone())))
            .collect()
    }

    fn aliases_of(&self, unit: u64) -> Vec<(FlowKey, Alias)> {
        let own = self.aliases.iter().filter(|(_, alias)| alias.unit == unit);
        own.map(|(key, alias)| (*key, *alias)).collect()
    }

    fn has_flow(&self, unit: u64, key: &FlowKey) -> bool {
        self.flows.get(key).is_some_and(|flow| flow.unit == unit)
            || self.hidden.contains_key(&(unit, *key))
    }

    /// Whether `unit`, which a packet got, is right.
    fn check(&mut self, sent: &Sent, unit: Option<u64>) -> Result<(), TestCaseError> {
        let (from, to) = sent.ends();
        let (key, direction) = key(&from, &to);
        if let Some(flow) = self.flows.get(&key) {
            prop_assert_eq!(unit, Some(flow.unit));
            return Ok(());
        }
        if let Some(alias) = self.aliases.get(&key) {
            prop_assert_eq!(unit, Some(alias.unit));
            return Ok(());
        }
        if self.flow_count() == MAX as usize {
            prop_assert_eq!(unit, None);
            self.refused += 1;
            return Ok(());
        }
        let client = if sent.answer {
            direction.opposite()
        } else {
            direction
        };
        let called = self.called(&key, direction, sent.side());
        let scope = self.wide.then(|| scope_key(&key, client));
        let known = called.or_else(|| {
            let same = |known: &&u64| scope.is_some() && self.units[known] == scope;
            self.units.keys().find(same).copied()
        });
        if known.is_none() && self.units.len() == MAX as usize {
            prop_assert_eq!(unit, None);
            self.refused += 1;
            return Ok(());
        }
        let Some(unit) = unit else {
            return Err(TestCaseError::fail("there was room for the flow"));
        };
        match known {
            Some(known) => prop_assert_eq!(unit, known),
            None => self.begins(unit, Some(scope.unwrap_or(key)))?,
        }
        let flow = Flow {
            unit,
            client_is_b: client == Direction::Reverse,
        };
        self.show(key, flow);
        Ok(())
    }

    /// A new unit has a number that was never used, in a place that is free.
    fn begins(&mut self, unit: u64, key: Option<FlowKey>) -> Result<(), TestCaseError> {
        prop_assert!((unit as u32) < MAX && unit >> 32 > 0);
        prop_assert!(self.lives.insert(unit), "{unit:#x} lived before");
        let place = unit as u32;
        prop_assert!(self.units.keys().all(|u| *u as u32 != place));
        self.units.insert(unit, key);
        Ok(())
    }

    fn called(&self, key: &FlowKey, direction: Direction, side: Side) -> Option<u64> {
        let (address, port) = key.destination(direction);
        let (end, _) = FlowKey::one_end(address, port, key.proto(), 0, 0);
        let alias = self.aliases.get(&end)?;
        (alias.request.open && alias.request.side != side).then_some(alias.unit)
    }

    /// Whether the alias can be had; has it then.
    fn add_alias(&mut self, unit: u64, flow: &FlowKey, request: AliasRequest) -> bool {
        if request.open && !self.wide {
            return false;
        }
        let mut owner = (!request.open).then_some(*flow);
        if owner.is_some() && !self.has_flow(unit, flow) {
            self.add_flow(unit, flow);
            if !self.has_flow(unit, flow) {
                // A unit of one flow has no other that it could be.
                let only = self.flows_of(unit).pop().filter(|_| !self.wide);
                owner = only.map(|(key, _)| key);
                if owner.is_none() {
                    return false;
                }
            }
        }
        if let Some(other) = self.flows.get(&request.key).cloned() {
            if owner == Some(request.key) && other.unit == unit {
                return true;
            }
            if self.aliases.len() == 2 * MAX as usize {
                return false;
            }
            self.flows.remove(&request.key);
            self.hidden.insert((other.unit, request.key), other);
        } else if !self.aliases.contains_key(&request.key) && self.aliases.len() == 2 * MAX as usize
        {
            return false;
        }
        let alias = Alias {
            unit,
            flow: owner,
            request,
            is_own: false,
        };
        self.aliases.insert(request.key, alias);
        true
    }

    fn add_flow(&mut self, unit: u64, key: &FlowKey) -> bool {
        let of_flow = self.flows.get(key).map(|flow| flow.unit);
        let of_alias = self.aliases.get(key).map(|alias| alias.unit);
        let holder = of_flow.or(of_alias);
        if !self.wide {
            return match holder {
                Some(holder) => holder == unit,
                None => self.name_only_flow(unit, key),
            };
        }
        // Where nobody has the key any more, a hidden flow of the unit gets it back below.
        if holder.is_some() && self.has_flow(unit, key) {
            return true;
        }
        if self.flow_count() == MAX as usize {
            return false;
        }
        let flow = Flow {
            unit,
            client_is_b: false,
        };
        match holder {
            Some(_) => drop(self.hidden.insert((unit, *key), flow)),
            None => self.show(*key, flow),
        }
        true
    }

    /// The unit's one flow has one more name.
    fn name_only_flow(&mut self, unit: u64, key: &FlowKey) -> bool {
        let only = self.flows_of(unit).pop();
        let is_possible = only.is_some() && self.aliases.len() < 2 * MAX as usize;
        if is_possible {
            let request = AliasRequest {
                flow: 0,
                key: *key,
                client: Direction::Forward,
                side: Side::Inside,
                open: false,
            };
            let flow = only.map(|(key, _)| key);
            self.aliases.insert(
                *key,
                Alias {
                    unit,
                    flow,
                    request,
                    is_own: true,
                },
            );
        }
        is_possible
    }

    /// A flow of the unit that lost its key has it again.
    fn show(&mut self, key: FlowKey, flow: Flow) {
        let hidden = self.hidden.remove(&(flow.unit, key));
        self.flows.insert(key, hidden.unwrap_or(flow));
    }

    /// Ends aliases. Flows of their unit that they hid are found again.
    fn end_aliases(&mut self, which: impl Fn(&FlowKey, &Alias) -> bool) -> BTreeSet<FlowKey> {
        let ended = self.aliases.extract_if(.., |key, alias| which(key, alias));
        let ended: Vec<(FlowKey, u64)> = ended.map(|(key, alias)| (key, alias.unit)).collect();
        for (key, unit) in &ended {
            if let Some(flow) = self.hidden.remove(&(*unit, *key)) {
                self.flows.insert(*key, flow);
            }
        }
        ended.into_iter().map(|(key, _)| key).collect()
    }

    fn end_flow(&mut self, unit: u64, key: &FlowKey) -> BTreeSet<FlowKey> {
        if !self.has_flow(unit, key) {
            return BTreeSet::new();
        }
        if self.wide && self.hidden.remove(&(unit, *key)).is_none() {
            self.flows.remove(key);
        }
        self.end_aliases(|_, alias| alias.unit == unit && alias.flow == Some(*key) && !alias.is_own)
    }

    fn remove(&mut self, unit: u64) -> BTreeSet<FlowKey> {
        self.units.remove(&unit);
        self.flows.retain(|_, flow| flow.unit != unit);
        self.hidden.retain(|(u, _), _| *u != unit);
        self.end_aliases(|_, alias| alias.unit == unit)
    }
}

/// The client's address alone.
fn scope_key(key: &FlowKey, client: Direction) -> FlowKey {
    let (address, _) = key.source(client);
    let nowhere = std::net::IpAddr::from([0; 4]);
    FlowKey::new(address, 0, nowhere, 0, 0, 0, 0).0
}

struct Rig {
    classifier: Classifier,
    pool: FramePool,
    model: Model,
}

impl Rig {
    fn new(stage: &Stage, wide: bool) -> Rig {
        let layout = MemoryLayout {
            small_frames: 64,
            large_frames: 1,
            ..MemoryLayout::default()
        };
        Rig {
            classifier: Classifier::new(stage, RuntimeConfig::default()).unwrap(),
            pool: FramePool::with_layout(layout),
            model: Model {
                wide,
                ..Model::default()
            },
        }
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Burst(burst) => self.burst(burst)?,
            Step::Alias(unit, flow, name, open) => {
                if let Some(unit) = self.model.unit(*unit) {
                    self.alias(unit, *flow, *name, *open)?;
                }
            }
            Step::AddFlow(unit, from, to) => {
                if let Some(unit) = self.model.unit(*unit) {
                    let (key, _) = key(&client(*from), &server(*to));
                    let expected = self.model.add_flow(unit, &key);
                    prop_assert_eq!(self.classifier.add_flow(unit, &key), expected);
                }
            }
            Step::EndFlow(unit, flow) => {
                let Some(unit) = self.model.unit(*unit) else {
                    return Ok(());
                };
                let flow = self.flow(unit, *flow);
                let expected = self.model.end_flow(unit, &flow);
                let mut freed = Vec::new();
                self.classifier.end_flow(unit, &flow, &mut freed);
                prop_assert_eq!(freed.len(), expected.len());
                prop_assert_eq!(freed.into_iter().collect::<BTreeSet<_>>(), expected);
            }
            Step::EndAlias(unit, name) => {
                let name = name_of(*name, name.is_multiple_of(2));
                if let Some(unit) = self.model.unit(*unit) {
                    let had = self
                        .model
                        .aliases
                        .get(&name)
                        .is_some_and(|a| a.unit == unit);
                    self.model
                        .end_aliases(|key, alias| *key == name && alias.unit == unit);
                    prop_assert_eq!(self.classifier.end_alias(unit, &name), had);
                }
            }
            Step::Remove(unit) => {
                if let Some(unit) = self.model.unit(*unit) {
                    self.remove(unit)?;
                }
            }
            Step::Restore(unit) => {
                if let Some(unit) = self.model.unit(*unit) {
                    self.restore(unit)?;
                }
            }
        }
        self.compare()
    }

    fn burst(&mut self, burst: &[Sent]) -> Result<(), TestCaseError> {
        let (mut input, mut output) = (Vec::new(), Vec::new());
        for (number, sent) in burst.iter().enumerate() {
            let bytes = sent.packet();
            let mut meta = FrameMeta::received(Time::from_secs(5), bytes.len() as u32);
            (meta.side, meta.sequence) = (sent.side(), number as u64);
            input.push(self.pool.copy(&bytes, meta).expect("a frame is free"));
        }
        self.classifier
            .classify(&mut self.pool, &mut input, &mut output);
        let units = units_of(&self.pool, &output);
        self.pool.give_all(&mut output);
        prop_assert!(units.is_sorted_by_key(|(number, _)| *number));
        let units: BTreeMap<u64, u64> = units.into_iter().collect();
        for (number, sent) in burst.iter().enumerate() {
            self.model
                .check(sent, units.get(&(number as u64)).copied())?;
        }
        Ok(())
    }

    /// Flow `number` of the unit, or one that it may not have.
    fn flow(&self, unit: u64, number: u8) -> FlowKey {
        let flows = self.model.flows_of(unit);
        match flows.get(usize::from(number / 2) % flows.len().max(1)) {
            Some((key, _)) if !number.is_multiple_of(8) => *key,
            _ => key(&client(number), &server(number / 5)).0,
        }
    }

    fn alias(&mut self, unit: u64, flow: u8, name: u8, open: bool) -> Result<(), TestCaseError> {
        let flow = self.flow(unit, flow);
        let request = AliasRequest {
            flow: 0,
            key: name_of(name, open),
            client: Direction::Forward,
            side: if name.is_multiple_of(3) {
                Side::Outside
            } else {
                Side::Inside
            },
            open,
        };
        let expected = self.model.add_alias(unit, &flow, request);
        self.model.aliases_refused += u64::from(!expected);
        prop_assert_eq!(self.classifier.add_alias(unit, &flow, &request), expected);
        Ok(())
    }

    fn remove(&mut self, unit: u64) -> Result<(), TestCaseError> {
        let expected = self.model.remove(unit);
        let mut freed = Vec::new();
        self.classifier.remove_unit(unit, &mut freed);
        prop_assert_eq!(freed.len(), expected.len());
        prop_assert_eq!(freed.into_iter().collect::<BTreeSet<_>>(), expected);
        prop_assert!(!self.classifier.is_live(unit));
        Ok(())
    }

    fn restore(&mut self, unit: u64) -> Result<(), TestCaseError> {
        let before = self.model.flows_of(unit);
        let mut aliases = self.model.aliases_of(unit);
        for (_, alias) in &mut aliases {
            // What is told of it does not say so.
            alias.is_own = false;
        }
        let scope = self.model.units[&unit];
        self.remove(unit)?;
        let flows: Vec<_> = before.iter().map(|(k, f)| (*k, f.client_is_b)).collect();
        let claimed: Vec<_> = aliases
            .iter()
            .map(|(_, alias)| (alias.flow.unwrap_or_default(), alias.request))
            .collect();
        let restored = self.classifier.restore(unit, None, &flows, &claimed);
        if flows.is_empty() {
            prop_assert_eq!(restored, Err(SnapshotError::NoFlow));
            return Ok(());
        }
        // The scope key is made of a flow's, which may not be the one the unit
        // began with; what it is is the model's to follow, if it is sane.
        let possible: Vec<Option<FlowKey>> = if self.model.wide {
            let own = before.iter().map(|(key, flow)| {
                let client = if flow.client_is_b {
                    Direction::Reverse
                } else {
                    Direction::Forward
                };
                Some(scope_key(key, client))
            });
            own.chain([None]).collect()
        } else {
            vec![scope]
        };
        if let Err(error) = restored {
            prop_assert_eq!(error, SnapshotError::Exists);
            let mut keys = self.model.units.values().filter(|key| key.is_some());
            let right = if self.model.wide {
                keys.any(|key| possible.contains(key))
            } else {
                self.model.flows.contains_key(&before[0].0)
            };
            prop_assert!(right, "nothing is in the way");
            return Ok(());
        }
        let now = self.classifier.key_of(unit);
        prop_assert!(possible.contains(&now));
        self.model.units.insert(unit, now);
        for (key, flow) in before {
            let (model, flows) = (&self.model.aliases, &self.model.flows);
            if model.contains_key(&key) || flows.contains_key(&key) {
                self.model.hidden.insert((unit, key), flow);
            } else {
                self.model.flows.insert(key, flow);
            }
        }
        for (key, alias) in aliases {
            let own = self.model.flows.get(&key).is_some_and(|f| f.unit == unit);
            if own && alias.flow == Some(key) {
                continue;
            }
            if let Some(other) = self.model.flows.remove(&key) {
                self.model.hidden.insert((other.unit, key), other);
            }
            self.model.aliases.insert(key, alias);
        }
        Ok(())
    }

    /// Everything that can be asked.
    fn compare(&self) -> Result<(), TestCaseError> {
        let (classifier, model) = (&self.classifier, &self.model);
        let live: BTreeSet<u64> = classifier.live_units().collect();
        prop_assert_eq!(&live, &model.units.keys().copied().collect());
        for (&unit, key) in &model.units {
            prop_assert_eq!(classifier.key_of(unit), *key);
            let mut flows = Vec::new();
            classifier.flows_of(unit, &mut flows);
            flows.sort();
            let mut expected: Vec<_> = model.flows_of(unit).iter().map(|(k, _)| *k).collect();
            expected.sort();
            prop_assert_eq!(flows, expected);
        }
        for (key, flow) in &model.flows {
            prop_assert_eq!(classifier.unit_of(key), Some(flow.unit));
        }
        for (key, alias) in &model.aliases {
            prop_assert_eq!(classifier.unit_of(key), Some(alias.unit));
        }
        let report = classifier.report();
        prop_assert!(report.balances());
        prop_assert_eq!(report.dropped(), model.refused);
        prop_assert_eq!(report.flows.active as usize, model.flow_count());
        prop_assert_eq!(report.flows.aliases as usize, model.aliases.len());
        prop_assert_eq!(report.flows.aliases_refused, model.aliases_refused);
        prop_assert_eq!(self.pool.outstanding(), 0);
        Ok(())
    }
}

fn units_of(pool: &FramePool, frames: &[Frame]) -> Vec<(u64, u64)> {
    let metas = frames.iter().map(|frame| pool.memory().meta(frame));
    metas.map(|meta| (meta.sequence, meta.unit)).collect()
}

/// Names that aliases have: some are keys that packets open flows with.
fn name_of(number: u8, open: bool) -> FlowKey {
    if open {
        let end: std::net::SocketAddr = server(number).parse().unwrap();
        FlowKey::one_end(end.ip(), end.port(), 6, 0, 0).0
    } else if number.is_multiple_of(2) {
        key(&client(number / 2), &server(number / 8)).0
    } else {
        key(
            &format!("198.51.100.{}:7", number % 16),
            &server(number / 16),
        )
        .0
    }
}

fn check(stage: &Stage, wide: bool, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut rig = Rig::new(stage, wide);
    for step in steps {
        rig.step(step)?;
    }
    // Everything ends, and nothing is left.
    while let Some(unit) = rig.model.unit(0) {
        rig.remove(unit)?;
        rig.compare()?;
    }
    let flows = rig.classifier.report().flows;
    prop_assert_eq!((flows.active, flows.units, flows.aliases), (0, 0, 0));
    Ok(())
}

fn options() -> FlowOptions {
    FlowOptions {
        max: MAX,
        ..FlowOptions::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn units_of_one_flow(steps in steps()) {
        let builder = Harness::builder().flows(options()).with::<Probe<0>>(());
        check(&builder.unwrap().stage(), false, &steps)?;
    }

    #[test]
    fn units_of_one_client(steps in steps()) {
        let builder = Harness::builder().flows(options()).with::<Probe<1>>(());
        check(&builder.unwrap().stage(), true, &steps)?;
    }
}
