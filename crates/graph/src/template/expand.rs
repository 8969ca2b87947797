//! From the entries of a chain to its processors.

use std::collections::BTreeSet;

use weir_nf::Descriptor;
use weir_nf::host::{Kind, MAX_LABELS};

use crate::diagnostic::{Remark, Report};
use crate::links::{self, Exits, PASS, To};
use crate::nearest::nearest;
use crate::raw::{MAX_FUNCTIONS, RawEntry};
use crate::template::join::{Flat, Piece, join, keep, reachable};
use crate::template::library::Library;
use crate::template::raw::Template;
use crate::template::reference::{self, Failure, Values};
use crate::template::values::{Place, holds, values};
use crate::tree::{MAX_COPIES, MAX_DEPTH, Node, Value, shorten};

/// Most templates inside one another.
const MAX_NESTING: usize = 8;

/// Function or template that an entry names.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Of<'k> {
    Function(&'k Kind),
    Template(&'k Template),
}

/// Finds the function or template that an entry names; reports an unknown name.
pub(crate) fn of<'k>(
    entry: &RawEntry,
    kinds: &'k [Kind],
    library: &'k Library,
    report: &mut Report<'_>,
) -> Option<Of<'k>> {
    if let Some(template) = library.find(&entry.kind) {
        return Some(Of::Template(template));
    }
    let found = kinds.iter().find(|k| k.descriptor.name == entry.kind);
    let Some(kind) = found else {
        if entry.kind.is_empty() || library.incomplete() {
            return None; // reported where it was read
        }
        let functions = kinds.iter().map(|kind| kind.descriptor.name);
        let near = nearest(&entry.kind, functions.chain(library.names()));
        report.error_help(
            entry.kind_span,
            format!("there is no function `{}`", shorten(&entry.kind)),
            match near {
                Some(near) => format!("did you mean `{near}`? `weir nf list` shows all"),
                None => "`weir nf list` shows all".to_owned(),
            },
        );
        return None;
    };
    let descriptor = kind.descriptor;
    if descriptor.labels.len() >= MAX_LABELS || descriptor.buffers > Descriptor::MAX_BUFFERS {
        report.error(
            entry.kind_span,
            format!(
                "the function `{}` declares more than {} labels or {} side buffers: \
                 it can't be used",
                entry.kind,
                MAX_LABELS - 1,
                Descriptor::MAX_BUFFERS
            ),
        );
        return None;
    }
    Some(Of::Function(kind))
}

/// The labels of what entries name, without `pass`.
pub(crate) fn labels<'k>(of: &[Option<Of<'k>>]) -> Vec<Option<Vec<&'k str>>> {
    of.iter()
        .map(|of| {
            of.map(|of| match of {
                Of::Function(kind) => kind.descriptor.labels.to_vec(),
                Of::Template(template) => template.label_names(),
            })
        })
        .collect()
}

/// Result of expanding an entry that names a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Name of the instance.
    pub name: String,
    /// Name of its template.
    pub template: String,
    /// Summary by the template's author, one line.
    pub summary: String,
    /// Names of its processors, in the order of the template.
    pub processors: Vec<String>,
    /// Names of the processors that its settings leave out.
    pub left_out: Vec<String>,
}

/// Puts processors in the place of entries that name templates. Processors are
/// in the order in which they are written.
pub(crate) fn expand<'k>(
    entries: &[RawEntry],
    of: &[Option<Of<'k>>],
    next: &[Vec<To>],
    library: &'k Library,
    kinds: &'k [Kind],
    report: &mut Report<'_>,
) -> (Vec<Flat<'k>>, Vec<Instance>) {
    let mut expander = Expander {
        library,
        kinds,
        room: MAX_COPIES,
        count: 0,
        left_out: Vec::new(),
    };
    let pieces = entries
        .iter()
        .zip(of)
        .map(|(entry, of)| match of {
            Some(Of::Function(kind)) => {
                expander.count += 1;
                Piece::of(Flat {
                    name: entry.instance.clone(),
                    instance: entry.instance.clone(),
                    instance_span: entry.kind_span,
                    kind,
                    kind_span: entry.kind_span,
                    settings: entry.settings.clone(),
                    next: Vec::new(),
                    note: None,
                })
            }
            Some(Of::Template(template)) => {
                let place = Place {
                    name: &entry.instance,
                    instance: &entry.instance,
                    span: entry.kind_span,
                    kind_span: entry.kind_span,
                    depth: 1,
                };
                let settings = entry.settings.as_ref();
                let piece = expander.template(template, settings, &place, report);
                piece.unwrap_or_else(Piece::nothing)
            }
            None => Piece::nothing(),
        })
        .collect();
    let whole = join(pieces, next);
    // With errors the chain won't run: what follows from them isn't told.
    let nodes = if report.errors() == 0 {
        reachable_of_chain(whole, &mut expander.left_out, report)
    } else {
        whole.nodes
    };
    let instances = entries.iter().zip(of).filter_map(|(entry, of)| match of {
        Some(Of::Template(template)) => Some(instance(entry, template, &nodes, &expander.left_out)),
        _ => None,
    });
    let instances = instances.collect();
    (nodes, instances)
}

fn instance(
    entry: &RawEntry,
    template: &Template,
    nodes: &[Flat<'_>],
    left_out: &[(String, String)],
) -> Instance {
    let own = nodes.iter().filter(|n| n.instance == entry.instance);
    Instance {
        name: entry.instance.clone(),
        template: template.name.clone(),
        summary: template.summary.clone(),
        processors: own.map(|node| node.name.clone()).collect(),
        left_out: left_out
            .iter()
            .filter(|(instance, _)| *instance == entry.instance)
            .map(|(_, name)| name.clone())
            .collect(),
    }
}

/// Drops the processors of templates that nothing leads to under the settings;
/// an entry of the chain that nothing leads to is an error.
fn reachable_of_chain<'k>(
    piece: Piece<'k>,
    left_out: &mut Vec<(String, String)>,
    report: &mut Report<'_>,
) -> Vec<Flat<'k>> {
    let reached = reachable(&piece);
    let alive: BTreeSet<&str> = piece
        .nodes
        .iter()
        .zip(&reached)
        .filter(|(_, reached)| **reached)
        .map(|(node, _)| node.instance.as_str())
        .collect();
    let mut told = BTreeSet::new();
    for (node, reached) in piece.nodes.iter().zip(&reached) {
        if *reached {
            continue;
        }
        if alive.contains(node.instance.as_str()) {
            left_out.push((node.instance.clone(), node.name.clone()));
        } else if told.insert(node.instance.as_str()) {
            report.error_help(
                node.instance_span,
                format!(
                    "nothing leads to `{}`: no packet can reach it",
                    node.instance
                ),
                "leave it out, or let a link before it lead there; what would lead there may be \
                 left out by a template's settings (`weir check` shows it)",
            );
        }
    }
    keep(piece, &reached).nodes
}

struct Expander<'k> {
    library: &'k Library,
    kinds: &'k [Kind],
    /// Octets of settings that may still be made.
    room: usize,
    /// Processors that were made.
    count: usize,
    /// Instances and their processors that settings leave out.
    left_out: Vec<(String, String)>,
}

impl<'k> Expander<'k> {
    /// The processors of a template. `None` where that was reported.
    fn template(
        &mut self,
        template: &'k Template,
        settings: Option<&Node>,
        place: &Place<'_>,
        report: &mut Report<'_>,
    ) -> Option<Piece<'k>> {
        if place.depth > MAX_NESTING {
            report.error_help(
                place.span,
                format!(
                    "`{}` has templates inside one another more than {MAX_NESTING} deep",
                    place.instance
                ),
                "use fewer levels",
            );
            return None;
        }
        let values = values(template, settings, place, report)?;
        // The template was checked: none of the following reports an error.
        let of: Vec<Option<Of<'k>>> = template
            .entries
            .iter()
            .map(|entry| of(entry, self.kinds, self.library, report))
            .collect();
        let exits = template.label_names();
        let next = links::resolve(
            &template.entries,
            &labels(&of),
            Exits::Template(&exits),
            report,
        );
        let mut pieces = Vec::new();
        for (entry, of) in template.entries.iter().zip(of) {
            let name = format!("{}/{}", place.name, entry.instance);
            let there = entry.when.as_ref().is_none_or(|when| holds(when, &values));
            if !there {
                self.left_out.push((place.instance.to_owned(), name));
                pieces.push(Piece::nothing());
                continue;
            }
            pieces.push(self.entry(entry, of?, name, &values, place, report)?);
        }
        let whole = join(pieces, &next);
        let reached = reachable(&whole);
        for (node, reached) in whole.nodes.iter().zip(&reached) {
            if !reached {
                self.left_out
                    .push((place.instance.to_owned(), node.name.clone()));
            }
        }
        let whole = keep(whole, &reached);
        if whole.nodes.is_empty() {
            report.error_help(
                place.span,
                format!(
                    "nothing is left of `{}` with these settings: each of its processors is left \
                     out",
                    place.name
                ),
                format!(
                    "`weir nf show {}` says which settings leave them out",
                    template.name
                ),
            );
            return None;
        }
        Some(whole)
    }

    /// The processors of a template's entry, named `name`. `None` where that was reported.
    fn entry(
        &mut self,
        entry: &RawEntry,
        of: Of<'k>,
        name: String,
        values: &Values,
        place: &Place<'_>,
        report: &mut Report<'_>,
    ) -> Option<Piece<'k>> {
        let note = format!(
            "read for `{name}`, which {} asks for",
            report.texts.line(place.span)
        );
        let settings = match &entry.settings {
            None => None,
            Some(settings) => {
                let made = self.settings(settings, values, entry, place);
                let before = report.remark(self.remark(&note));
                let made = made_or_reported(made, entry, place, report);
                report.remark(before);
                made?
            }
        };
        match of {
            Of::Function(kind) => {
                if self.count >= MAX_FUNCTIONS {
                    report.error_help(
                        place.span,
                        format!(
                            "templates make more than {MAX_FUNCTIONS} processors of this \
                             chain: it has at most {MAX_FUNCTIONS}"
                        ),
                        "split it into several chains",
                    );
                    return None;
                }
                self.count += 1;
                Some(Piece::of(Flat {
                    name,
                    instance: place.instance.to_owned(),
                    instance_span: place.span,
                    kind,
                    kind_span: entry.kind_span,
                    settings,
                    next: Vec::new(),
                    note: Some(note),
                }))
            }
            Of::Template(inner) => {
                let place = Place {
                    name: &name,
                    instance: place.instance,
                    span: place.span,
                    kind_span: entry.kind_span,
                    depth: place.depth + 1,
                };
                let before = report.remark(self.remark(&note));
                let piece = self.template(inner, settings.as_ref(), &place, report);
                report.remark(before);
                piece
            }
        }
    }

    fn remark(&self, note: &str) -> Option<Remark> {
        Some(Remark {
            from: self.library.first_text(),
            note: note.to_owned(),
        })
    }

    /// The settings of a processor.
    fn settings(
        &mut self,
        settings: &Node,
        values: &Values,
        entry: &RawEntry,
        place: &Place<'_>,
    ) -> Result<Option<Node>, Failure> {
        let made = reference::substitute(settings, values, &mut self.room)?;
        let Some(node) = made else {
            return Ok(None);
        };
        if node.measure().1 > MAX_DEPTH {
            let message = format!(
                "the settings of `{}/{}` have more than {MAX_DEPTH} levels of nesting",
                place.name, entry.instance
            );
            return Err(Failure::Misfit(place.span, message));
        }
        // A mapping of which all is left out is as good as none.
        let empty = matches!(&node.value, Value::Map(entries) if entries.is_empty());
        Ok((!empty).then_some(node))
    }
}

/// Reports why settings could not be made.
fn made_or_reported(
    made: Result<Option<Node>, Failure>,
    entry: &RawEntry,
    place: &Place<'_>,
    report: &mut Report<'_>,
) -> Option<Option<Node>> {
    match made {
        Ok(settings) => Some(settings),
        Err(Failure::Misfit(span, message)) => {
            report.error(span, message);
            None
        }
        Err(Failure::TooMuch) => {
            report.error_help(
                place.span,
                format!(
                    "templates make more than {MAX_COPIES} octets of settings (at `{}/{}`)",
                    place.name, entry.instance
                ),
                "use shorter values",
            );
            None
        }
    }
}

/// Names of a node's links: `pass`, then its labels.
pub(crate) fn link_names(kind: &Kind) -> Vec<String> {
    [PASS]
        .into_iter()
        .chain(kind.descriptor.labels.iter().copied())
        .map(str::to_owned)
        .collect()
}
