//! From text to checked stages.

use std::collections::BTreeMap;

use weir_nf::host::{FlowOptions, Kind, Node as StageNode, Settings, SharedProcessor};
use weir_nf::host::{Stage, Target};
use weir_nf::{NamedSet, PoolSpec, Scope, SetUp, Sets, SettingsError, Sources};
use weir_packet::Side;

use crate::claims::Claims;
use crate::compile::{Effects, Graph, Options, Processor};
use crate::de::{NodeDe, Track};
use crate::diagnostic::{Diagnostic, Remark, Report, Severity, Span, Texts};
use crate::links::{Exits, To};
use crate::nearest::nearest;
use crate::network::{self, Network};
use crate::overrides::{self, Override};
use crate::placing::{self, Placing};
use crate::ports::{self, PortDecl};
use crate::raw::{self, RawChain};
use crate::selector::{self, Selector};
use crate::sets::{self, SetDefinition};
use crate::template::{self, Flat, Instance, Library, Of, Templates};
use crate::threads::{self, Threads};
use crate::tree::{self, Node, Value};
use crate::{flows, links, plan_key};

/// Input of a load.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// Name of the file, for messages.
    pub name: &'a str,
    /// Its text.
    pub text: &'a str,
    /// The functions that it may name.
    pub kinds: &'a [Kind],
    /// Settings that win over the file's.
    pub overrides: &'a [Override],
    /// Seed for the functions' hashes ([`SetUp::seed`]).
    pub seed: u64,
}

/// A chain file that was read and checked.
#[derive(Clone, Debug, Default)]
pub struct ChainFile {
    /// Its chains, in the order in which packets are offered to them.
    pub chains: Vec<Chain>,
    /// How it stands in the network.
    pub network: Network,
    /// Settings of the threads of a run.
    pub threads: Threads,
    /// Placement of the nodes of a run; `None` leaves it to weir.
    pub placement: Option<Placing>,
    /// Its sets of addresses.
    pub sets: Vec<SetDefinition>,
    /// Oddities that are no errors.
    pub warnings: Vec<Diagnostic>,
}

/// A chain, ready to run.
#[derive(Clone, Debug)]
pub struct Chain {
    /// Its functions as written, those of templates among them, and how it
    /// keeps flows.
    pub stage: Stage,
    /// The same as a graph: its nodes are the stage's, in their order.
    pub graph: Graph,
    /// How it is to be compiled.
    pub plan: Options,
    /// Its entries that name templates, and what became of them.
    pub instances: Vec<Instance>,
    /// Its ports.
    pub ports: Vec<PortDecl>,
    /// Which packets it takes.
    pub selector: Selector,
    /// The tenant whom it is billed to, where the file names one.
    pub tenant: Option<String>,
    /// The texts that its functions have read.
    pub texts: Vec<NamedText>,
}

/// A text that a function has read beside the chain file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedText {
    /// Name of the function in the chain.
    pub function: String,
    /// Name of the text, as the settings have it.
    pub name: String,
    /// Stands for its content.
    pub digest: u64,
}

impl ChainFile {
    /// Its sets, for engines and those who change them.
    pub fn live_sets(&self) -> Sets {
        self.sets.iter().map(|of| of.set.clone()).collect()
    }

    /// Number of the chain that takes a packet: the first whose selector
    /// matches. See [`Selector::matches`] for the arguments.
    #[inline]
    pub fn chain_of(
        &self,
        bytes: &[u8],
        headers: &weir_packet::Headers,
        key: Option<&weir_packet::FlowKey>,
    ) -> Option<usize> {
        self.chains
            .iter()
            .position(|chain| chain.selector.matches(bytes, headers, key))
    }
}

/// Reads a chain file, checks it, and builds its functions. `sources` gives the
/// texts that settings name. Entries may name the templates that come with weir;
/// [`load_with`] takes more.
///
/// # Errors
///
/// Everything that is wrong with it, as far as it can be told at once, by place;
/// warnings are among it. [`crate::render`] prints it.
///
/// # Example
///
/// ```
/// use weir_graph::{Input, load};
///
/// let input = Input {
///     name: "edge.yaml",
///     text: "chain: edge\nnfs:\n  - firewall\n",
///     kinds: &[], // the functions that come with weir, usually
///     overrides: &[],
///     seed: 1,
/// };
/// let errors = load(&input, &mut weir_nf::NoSources).unwrap_err();
/// assert_eq!((errors[0].line, errors[0].column), (3, 5));
/// assert_eq!(errors[0].message, "there is no function `firewall`");
/// ```
pub fn load(input: &Input<'_>, sources: &mut dyn Sources) -> Result<ChainFile, Vec<Diagnostic>> {
    load_with(input, &Templates::shipped(), sources)
}

/// [`load`] with these templates.
///
/// # Errors
///
/// As [`load`]; what is wrong with a template, too.
pub fn load_with(
    input: &Input<'_>,
    templates: &Templates,
    sources: &mut dyn Sources,
) -> Result<ChainFile, Vec<Diagnostic>> {
    let (mut texts, file, text) = Texts::of(input.name, input.text);
    let set = overrides::texts(input.overrides, &mut texts);
    let library = Library::texts(templates, input.kinds, &mut texts);
    let mut report = Report::new(&texts);
    let mut sources = Recorder {
        inner: sources,
        texts: BTreeMap::new(),
        read: Vec::new(),
        sets: Sets::default(),
        set_texts: Vec::new(),
    };
    let mut loaded = chains(
        input,
        (file, text),
        &set,
        library,
        &mut sources,
        &mut report,
    );
    let failed = report.errors() > 0;
    let list = report.finish();
    if failed {
        Err(list)
    } else {
        loaded.warnings = list;
        Ok(loaded)
    }
}

/// Keeps the texts that were read, to show their lines.
struct Recorder<'a> {
    inner: &'a mut dyn Sources,
    texts: BTreeMap<String, String>,
    /// Names of the texts that the function at hand has read, and what stands for their content.
    read: Vec<(String, u64)>,
    /// The sets of the file, and what stands for their definitions.
    sets: Sets,
    set_texts: Vec<NamedText>,
}

impl Recorder<'_> {
    /// Reads the sets of a file, for the functions of its chains.
    fn read_sets(&mut self, root: &Node, seed: u64, report: &mut Report<'_>) -> Vec<SetDefinition> {
        let Some(node) = root.get(raw::SETS) else {
            return Vec::new();
        };
        let sets = sets::read(node, seed, self, report);
        self.read.clear();
        self.sets = sets.iter().map(|of| of.set.clone()).collect();
        let texts = sets.iter().map(|of| NamedText {
            function: String::new(),
            name: format!("@{}", of.set.name),
            digest: of.digest(),
        });
        self.set_texts = texts.collect();
        sets
    }

    /// The set of this name.
    fn find_set(sets: &Sets, name: &str) -> Result<NamedSet, SettingsError> {
        if let Some(set) = sets.named(name) {
            return Ok(set.clone());
        }
        let error = SettingsError::new("", format!("there is no set `{name}`"));
        let names = || sets.iter().map(|set| &*set.name);
        Err(match nearest(name, names()) {
            Some(near) => error.help(format!("did you mean `@{near}`?")),
            None if sets.is_empty() => {
                error.help("list it under `sets:`, a key beside `chain` or `chains`")
            }
            None => {
                let names: Vec<String> = names().map(|name| format!("`{name}`")).collect();
                error.help(format!("the sets of this file: {}", names.join(", ")))
            }
        })
    }
}

impl Sources for Recorder<'_> {
    fn text(&mut self, name: &str) -> Result<String, String> {
        let text = self.inner.text(name)?;
        // FNV-1a: the same wherever weir was built.
        let digest = text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        self.read.push((name.to_owned(), digest));
        self.texts.insert(name.to_owned(), text.clone());
        Ok(text)
    }

    fn names(&mut self, pattern: &str) -> Result<Vec<String>, String> {
        self.inner.names(pattern)
    }

    fn sets(&self) -> Sets {
        self.inner.sets()
    }
}

fn chains(
    input: &Input<'_>,
    (file, text): (u32, &str),
    set: &[u32],
    mut library: Library,
    sources: &mut Recorder<'_>,
    report: &mut Report<'_>,
) -> ChainFile {
    let mut loaded = ChainFile::default();
    let root = match tree::parse(file, text, report) {
        Some(root) if !root.is_null() => root,
        _ => {
            if report.errors() == 0 {
                report.error_help(
                    Span::start_of(file),
                    "there is no chain in this file",
                    "write `chain: NAME`, and its functions in a list under `nfs:`",
                );
            }
            return loaded;
        }
    };
    let mut raw = raw::read(&root, report);
    if !raw.is_empty() {
        overrides::apply(input.overrides, set, &mut raw, report);
    }
    let before = report.errors();
    let entries = raw.iter().flat_map(|chain| &chain.entries);
    let sound = library.read(entries, input.kinds, report);
    template::check_all(&library, input.kinds, sound, report);
    let templates = Sound {
        library: &library,
        sound: report.errors() == before,
    };
    if let Some(node) = root.get(raw::THREADS) {
        loaded.threads = threads::read(node, report);
    }
    if let Some(node) = root.get(raw::PLACEMENT) {
        loaded.placement = Some(placing::read(node, report));
    }
    loaded.sets = sources.read_sets(&root, input.seed, report);
    let unselective = raw.iter().position(|chain| chain.selector.is_none());
    let (mut sides, mut claims) = (BTreeMap::new(), Claims::default());
    for (number, raw_chain) in raw.iter().enumerate() {
        if let Some(first) = unselective
            && first + 1 == number
        {
            unreachable(raw_chain, &raw[first], report);
        }
        let mut chain = chain(
            input,
            number,
            raw_chain,
            templates,
            sources,
            &mut claims,
            report,
        );
        // A chain's own settings win over the file's.
        if chain.plan.cores.is_empty() {
            chain.plan.cores.clone_from(&loaded.threads.cores);
        }
        check_sides(raw_chain, &chain.ports, &mut sides, report);
        loaded.chains.push(chain);
    }
    claims.check(report);
    if let Some(node) = root.get(raw::NETWORK) {
        loaded.network = network::read(node, &all_ports(&loaded.chains), report);
    }
    loaded
}

/// The ports of all chains, each once.
fn all_ports(chains: &[Chain]) -> Vec<PortDecl> {
    let mut ports: Vec<PortDecl> = Vec::new();
    for port in chains.iter().flat_map(|chain| &chain.ports) {
        if !ports.contains(port) {
            ports.push(port.clone());
        }
    }
    ports
}

/// Reports a chain that gets no packet, since `first` before it takes all of them.
fn unreachable(chain: &RawChain, first: &RawChain, report: &mut Report<'_>) {
    report.error_help(
        chain.name_span,
        format!(
            "no packet can reach the chain `{}`: `{}` before it takes all packets",
            chain.name, first.name
        ),
        format!("give `{0}` a `match`, or put `{0}` last", first.name),
    );
}

/// Reports ports of a chain that are on another side in an earlier chain; notes them in `sides`.
fn check_sides<'r>(
    raw: &'r RawChain,
    ports: &[PortDecl],
    sides: &mut BTreeMap<String, (Side, &'r str)>,
    report: &mut Report<'_>,
) {
    for port in ports {
        let (side, owner) = *sides
            .entry(port.name.clone())
            .or_insert((port.side, &raw.name));
        if side != port.side {
            let span = raw.ports.as_ref().map_or(raw.name_span, |node| node.span);
            report.error_help(
                span,
                format!(
                    "the port `{}` is on side {} here and on side {} in the chain `{owner}`",
                    port.name,
                    port.side.name(),
                    side.name()
                ),
                "a port has one side in all chains: change one, or rename it",
            );
        }
    }
}

/// The templates, and whether all of them are right.
#[derive(Clone, Copy)]
struct Sound<'l> {
    library: &'l Library,
    sound: bool,
}

fn chain(
    input: &Input<'_>,
    number: usize,
    raw: &RawChain,
    templates: Sound<'_>,
    sources: &mut Recorder<'_>,
    claims: &mut Claims,
    report: &mut Report<'_>,
) -> Chain {
    let ports = match &raw.ports {
        Some(node) => ports::read(node, report),
        None => ports::default(),
    };
    let selector = match &raw.selector {
        Some(node) => selector::read(node, report),
        None => Selector::all(),
    };
    let flows = match &raw.flows {
        Some(node) => flows::read(node, report),
        None => FlowOptions::default(),
    };
    let library = templates.library;
    let mut of: Vec<Option<Of<'_>>> = raw
        .entries
        .iter()
        .map(|entry| template::of(entry, input.kinds, library, report))
        .collect();
    let labels = template::labels(&of);
    let next = links::resolve(&raw.entries, &labels, Exits::Chain, report);
    if !templates.sound {
        // Faults of templates were reported when they were read.
        of.iter_mut()
            .for_each(|of| *of = of.filter(|of| matches!(of, Of::Function(_))));
    }
    let (flats, instances) =
        template::expand(&raw.entries, &of, &next, library, input.kinds, report);

    let Built {
        built,
        pools,
        mut texts,
    } = build_all(input, raw, &flats, library, sources, claims, report);
    texts.extend_from_slice(&sources.set_texts);
    scopes(&flats, &built, report);
    idle_links(raw, &flats, &built, report);
    let (nodes, graph) = match report.errors() {
        0 => assemble(&flats, built),
        _ => (Vec::new(), Graph::default()),
    };
    // A chain with mistakes has no graph to hold the options against.
    let known = (report.errors() == 0).then_some(&graph);
    let plan = raw.plan.as_ref();
    let plan = plan.map(|node| plan_key::read(node, known, report));
    Chain {
        stage: Stage {
            chain: raw.name.clone(),
            number: number as u8,
            first: 0,
            nodes,
            flows,
            pools,
            sets: sources.sets.clone(),
        },
        graph,
        plan: plan.unwrap_or_default(),
        instances,
        ports,
        selector,
        tenant: raw.tenant.clone(),
        texts,
    }
}

/// What [`build_all`] has made.
struct Built {
    /// By processor; `None` where its settings are wrong.
    built: Vec<Option<SharedProcessor>>,
    pools: Vec<PoolSpec>,
    texts: Vec<NamedText>,
}

/// Builds the processors of a chain and the pools that they lease from; notes what they claim and
/// read.
fn build_all(
    input: &Input<'_>,
    raw: &RawChain,
    flats: &[Flat<'_>],
    library: &Library,
    sources: &mut Recorder<'_>,
    claims: &mut Claims,
    report: &mut Report<'_>,
) -> Built {
    let mut pools = Vec::new();
    let mut texts = Vec::new();
    let mut built: Vec<Option<SharedProcessor>> = Vec::new();
    for flat in flats {
        let remark = flat.note.as_ref().map(|note| Remark {
            from: library.first_text(),
            note: note.clone(),
        });
        let before = report.remark(remark);
        let known = pools.len();
        let (processor, leased_at) = build(flat, input.seed, &mut pools, sources, report);
        texts.extend(sources.read.drain(..).map(|(name, digest)| NamedText {
            function: flat.name.clone(),
            name,
            digest,
        }));
        let at = |path: &str| setting(flat, path);
        let added = pools.iter().skip(known).zip(&leased_at);
        for (pool, path) in added {
            claims.lease(&raw.name, &flat.name, at(path), pool);
        }
        for owned in processor.iter().flat_map(|processor| processor.owns()) {
            claims.serve(&raw.name, &flat.name, flat.instance_span, &owned);
        }
        built.push(processor);
        report.remark(before);
    }
    Built {
        built,
        pools,
        texts,
    }
}

/// The nodes and the graph of a chain without mistakes, in an order in which all links lead forward.
fn assemble(flats: &[Flat<'_>], built: Vec<Option<SharedProcessor>>) -> (Vec<StageNode>, Graph) {
    let next: Vec<Vec<To>> = flats.iter().map(|flat| flat.next.clone()).collect();
    let order = links::order(&next);
    let place = |to: &To| match to {
        To::Entry(other) => match order.iter().position(|at| at == other) {
            Some(place) => Target::Node(place),
            None => Target::Out,
        },
        To::Exit(_) => Target::Out,
        To::Drop => Target::Drop,
    };
    let mut nodes = Vec::new();
    let mut graph = Graph::default();
    for at in &order {
        let flat = &flats[*at];
        let processor = built[*at].as_ref().expect("an error was reported");
        let next: Vec<Target> = flat.next.iter().map(place).collect();
        graph.nodes.push(Processor {
            name: flat.name.clone(),
            instance: flat.instance.clone(),
            kind: flat.kind.descriptor.name.to_owned(),
            settings: template::canonical(flat.settings.as_ref()),
            effects: Effects::of(processor),
            labels: template::link_names(flat.kind),
            next: next.clone(),
            same_as: None,
        });
        nodes.push(StageNode {
            name: flat.name.clone(),
            processor: processor.clone(),
            same_as: None,
            next,
        });
    }
    (nodes, graph)
}

/// Builds a processor from its settings; gives the settings that ask for its
/// pools as well.
fn build(
    flat: &Flat<'_>,
    seed: u64,
    pools: &mut Vec<PoolSpec>,
    sources: &mut Recorder<'_>,
    report: &mut Report<'_>,
) -> (Option<SharedProcessor>, Vec<String>) {
    let Some(settings) = settings(flat, report) else {
        return (None, Vec::new());
    };
    let mut warnings = Vec::new();
    let sets = sources.sets.clone();
    let find = |name: &str| Recorder::find_set(&sets, name);
    let mut set_up = SetUp::new(sources, pools, &mut warnings, seed).with_sets(&find);
    let made = (flat.kind.make)(settings, &mut set_up);
    let leased_at = set_up.leased_at().to_vec();
    for warning in warnings {
        let span = match warning.path.as_str() {
            "" => flat.instance_span,
            path => setting(flat, path),
        };
        let message = format!("{}: {}", flat.name, warning.message);
        report.warning_help(span, message, warning.help);
    }
    let made = made.map_err(|errors| {
        for error in errors.each() {
            refused(flat, error, sources, report);
        }
    });
    (made.ok(), leased_at)
}

/// The place of a setting; that of the function where it is not written.
fn setting(flat: &Flat<'_>, path: &str) -> Span {
    let steps = overrides::path(path).unwrap_or_default();
    let settings = flat.settings.as_ref();
    settings
        .and_then(|settings| overrides::locate(settings, &steps))
        .unwrap_or(flat.kind_span)
}

/// Links by labels that a function does not give under its settings. A
/// template's own links are for all the settings that it may have.
fn idle_links(
    raw: &RawChain,
    flats: &[Flat<'_>],
    built: &[Option<SharedProcessor>],
    report: &mut Report<'_>,
) {
    for (flat, built) in flats.iter().zip(built) {
        let entry = raw.entries.iter().find(|e| e.instance == flat.name);
        let (Some(entry), Some(built)) = (entry, built) else {
            continue;
        };
        let labels = flat.kind.descriptor.labels;
        for link in &entry.links {
            let Some(place) = labels.iter().position(|label| *label == link.label) else {
                continue;
            };
            if built.labels_used() >> (place + 1).min(63) & 1 == 0 {
                let (name, label) = (&flat.name, &link.label);
                report.warning(
                    link.label_span,
                    format!("a label nobody gives: `{name}` has no `{label}` under its settings"),
                );
            }
        }
    }
}

/// The scopes of a stage nest, so that the coarsest is its unit. A function
/// that was built says its scope under its settings; one whose settings are
/// wrong is judged by its descriptor, to tell both mistakes at once.
fn scopes(flats: &[Flat<'_>], built: &[Option<SharedProcessor>], report: &mut Report<'_>) {
    let known: Vec<(&Flat<'_>, Scope)> = flats
        .iter()
        .zip(built)
        .map(|(flat, built)| {
            let scope = match built {
                Some(processor) => processor.scope(),
                None => flat.kind.descriptor.scope,
            };
            (flat, scope)
        })
        .collect();
    for (number, (entry, scope)) in known.iter().enumerate() {
        let conflict = known
            .iter()
            .take(number)
            .find(|(_, before)| !before.nests(*scope));
        if let Some((first, before)) = conflict {
            report.error_help(
                entry.instance_span,
                format!(
                    "`{}` keeps its state per {}, `{}` per {}: neither contains the other, \
                     so they can't be in one chain",
                    entry.name,
                    scope.describe(),
                    first.name,
                    before.describe()
                ),
                "put them in two chains, one behind the other, or leave one out",
            );
        }
    }
}

/// The settings of a processor, typed.
fn settings(entry: &Flat<'_>, report: &mut Report<'_>) -> Option<Settings> {
    let kind = entry.kind;
    let node = match &entry.settings {
        Some(node) if !node.is_null() => node,
        _ => return Some((kind.default)()),
    };
    let track = Track::default();
    let mut deserializer = <dyn erased_serde::Deserializer<'_>>::erase(NodeDe::new(node, &track));
    let result = (kind.parse)(&mut deserializer);
    let ignored = track.ignored();
    match result {
        Ok(settings) => {
            for (span, key) in &ignored {
                let key = Node::scalar(key, *span);
                report.unknown_key(&key, &[]);
            }
            ignored.is_empty().then_some(settings)
        }
        Err(error) => {
            let (mut span, message, help) = match track.first() {
                Some((span, fault)) => (span, fault.message, fault.help),
                None => (node.span, error.to_string(), None),
            };
            // The settings as a whole are shown by the function's name.
            let beside = span.text == entry.kind_span.text;
            if span == node.span && beside && matches!(node.value, Value::Map(_)) {
                span = entry.kind_span;
            }
            match help {
                Some(help) => report.error_help(span, message, help),
                None => report.error(span, message),
            }
            None
        }
    }
}

/// The place in the chain file of line and column of a text that stands in it, where each line
/// of the text is part of a line of the file (it is not folded, and nothing in it is escaped).
fn written_inline(
    entry: &Flat<'_>,
    path: &str,
    span: Span,
    (line, column): (usize, usize),
    report: &Report<'_>,
) -> Option<(usize, usize)> {
    let Value::Scalar { text, .. } = &entry.settings.as_ref()?.get(path)?.value else {
        return None;
    };
    let inner = text.lines().nth(line.checked_sub(1)?)?;
    let (first, ..) = report.texts.place(span);
    let at = first + line - 1;
    let outer = report.texts.text(span.text).lines().nth(at - 1)?;
    let before = outer.find(inner).filter(|_| !inner.is_empty())?;
    Some((at, outer.get(..before)?.chars().count() + column.max(1)))
}

/// Reports what the function itself said about its settings.
fn refused(
    entry: &Flat<'_>,
    error: SettingsError,
    sources: &Recorder<'_>,
    report: &mut Report<'_>,
) {
    let span = setting(entry, &error.path);
    let message = error.message;
    if let Some((name, line, column)) = error.at {
        let file = sources.texts.contains_key(&name);
        if let Some(place) = written_inline(entry, &error.path, span, (line, column), report)
            && !file
        {
            let (file, text) = (report.texts.name(span.text), report.texts.text(span.text));
            let (line, column) = place;
            let here = (line, column, 1);
            let mut diagnostic = Diagnostic::new(Severity::Error, file, Some(text), here, message);
            diagnostic.help = report.remarked(span.text, error.help);
            report.push(diagnostic);
            return;
        }
        let diagnostic = Diagnostic::new(
            Severity::Error,
            &name,
            sources.texts.get(&name).map(String::as_str),
            (line.max(1), column.max(1), 1),
            message,
        );
        let asked = format!("`{}` at {}", entry.name, report.texts.line(span));
        report.push(diagnostic.with_help(match error.help {
            Some(help) => format!("{help} (read for {asked})"),
            None => format!("read for {asked}"),
        }));
        return;
    }
    // An error without a place in the settings names the setting itself.
    let message = if error.path.is_empty() {
        format!("{}: {message}", entry.name)
    } else {
        format!("{}.{}: {message}", entry.name, error.path)
    };
    match error.help {
        Some(help) => report.error_help(span, message, help),
        None => report.error(span, message),
    }
}
