//! `links:` — where packets go from one function to the next.

use std::collections::VecDeque;

use crate::diagnostic::Report;
use crate::nearest::{listed, suggestion};
use crate::raw::{RawEntry, RawLink};
use crate::tree::shorten;

/// Label of the link that every function has.
pub(crate) const PASS: &str = "pass";

/// Target of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    /// To the entry with this number.
    Entry(usize),
    /// Out: of a chain by 0, of a template by its label with this number (0 is
    /// `pass`).
    Exit(usize),
    /// Nowhere.
    Drop,
}

/// How the ways out are called where the entries are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Exits<'a> {
    /// A chain's: `out`.
    Chain,
    /// A template's: `exit LABEL`, with the labels behind `pass`.
    Template(&'a [&'a str]),
}

impl Exits<'_> {
    const fn help(self) -> &'static str {
        match self {
            Exits::Chain => "a link leads to a later entry, `out` or `drop`",
            Exits::Template(_) => "a link leads to a later processor, `exit LABEL` or `drop`",
        }
    }

    const fn place(self) -> &'static str {
        match self {
            Exits::Chain => "this chain",
            Exits::Template(_) => "this template",
        }
    }
}

/// Targets of the links of each entry: `pass`, then its labels (`None` for an unknown function's).
/// Entries are numbered as they are written. Reports links to nothing, circles, and entries that
/// no link leads to.
pub(crate) fn resolve(
    entries: &[RawEntry],
    labels: &[Option<Vec<&str>>],
    exits: Exits<'_>,
    report: &mut Report<'_>,
) -> Vec<Vec<To>> {
    let before = report.errors();
    let mut next: Vec<Vec<To>> = Vec::new();
    for (number, (entry, known)) in entries.iter().zip(labels).enumerate() {
        let labels: &[&str] = known.as_deref().unwrap_or(&[]);
        let straight = if number + 1 < entries.len() {
            To::Entry(number + 1)
        } else {
            To::Exit(0)
        };
        let mut links = vec![straight; 1 + labels.len()];
        for link in &entry.links {
            if report.full() {
                break;
            }
            let place = match labels.iter().position(|label| *label == link.label) {
                _ if link.label == PASS => Some(0),
                Some(place) => Some(place + 1),
                None if known.is_none() => None,
                None => {
                    let names: Vec<&str> =
                        [PASS].into_iter().chain(labels.iter().copied()).collect();
                    report.error_help(
                        link.label_span,
                        format!("`{}` has no label `{}`", entry.kind, shorten(&link.label)),
                        match suggestion(&link.label, "its labels", &names) {
                            Some(help) if help.starts_with("did") => {
                                format!("{help} its labels: {}", listed(&names))
                            }
                            help => help.unwrap_or_default(),
                        },
                    );
                    None
                }
            };
            let target = target(number, link, entries, exits, report);
            match (place.and_then(|place| links.get_mut(place)), target) {
                (Some(place), Some(target)) => *place = target,
                // Of an unknown function: still a way that packets may go.
                (None, Some(target)) if known.is_none() => links.push(target),
                _ => {}
            }
        }
        next.push(links);
    }
    loops(entries, &next, exits, report);
    if report.errors() == before && labels.iter().all(Option::is_some) {
        unreachable(entries, &next, report);
    }
    next
}

fn target(
    number: usize,
    link: &RawLink,
    entries: &[RawEntry],
    exits: Exits<'_>,
    report: &mut Report<'_>,
) -> Option<To> {
    match (link.target.as_str(), exits) {
        ("drop", _) => return Some(To::Drop),
        ("out", Exits::Chain) => return Some(To::Exit(0)),
        (target, Exits::Template(labels)) => {
            if let Some(label) = target.strip_prefix("exit ") {
                return exit(label.trim(), labels, link, report);
            }
        }
        _ => {}
    }
    match entries.iter().position(|e| e.instance == link.target) {
        Some(other) if other == number => {
            report.error_help(
                link.target_span,
                format!("a loop: `{0}` leads to itself", link.target),
                exits.help(),
            );
            None
        }
        Some(other) => Some(To::Entry(other)),
        None => {
            let ways: &[&str] = match exits {
                Exits::Chain => &["out", "drop"],
                Exits::Template(_) => &["exit pass", "drop"],
            };
            let names: Vec<&str> = entries
                .iter()
                .map(|entry| entry.instance.as_str())
                .chain(ways.iter().copied())
                .collect();
            let help = match (link.target.as_str(), exits) {
                ("out" | "exit" | "pass", Exits::Template(_)) => Some(
                    "a template is left by `exit pass`, or by `exit LABEL` with one of its \
                     `labels`"
                        .to_owned(),
                ),
                (target, _) => suggestion(target, "a link leads to", &names),
            };
            report.error_help(
                link.target_span,
                format!(
                    "there is no instance `{}` in {}",
                    shorten(&link.target),
                    exits.place()
                ),
                help.unwrap_or_default(),
            );
            None
        }
    }
}

/// A way out of a template.
fn exit(label: &str, labels: &[&str], link: &RawLink, report: &mut Report<'_>) -> Option<To> {
    if label == PASS {
        return Some(To::Exit(0));
    }
    let place = labels.iter().position(|known| *known == label);
    if place.is_none() {
        let names: Vec<&str> = [PASS].into_iter().chain(labels.iter().copied()).collect();
        report.error_help(
            link.target_span,
            format!("this template declares no label `{}`", shorten(label)),
            match suggestion(label, "its labels", &names) {
                Some(help) if help.starts_with("did") => help,
                _ => format!("write `{}: MEANING` under `labels:`", shorten(label)),
            },
        );
    }
    place.map(|place| To::Exit(place + 1))
}

/// Reports every link that closes a circle: only links that lead backwards can.
fn loops(entries: &[RawEntry], next: &[Vec<To>], exits: Exits<'_>, report: &mut Report<'_>) {
    for (number, entry) in entries.iter().enumerate() {
        for link in &entry.links {
            let Some(back) = entries.iter().position(|e| e.instance == link.target) else {
                continue;
            };
            let leads = next
                .get(number)
                .is_some_and(|links| links.contains(&To::Entry(back)));
            if back >= number || !leads {
                continue;
            }
            let Some(way) = way(back, number, next) else {
                continue;
            };
            let names: Vec<String> = way
                .iter()
                .chain([&back])
                .filter_map(|number| entries.get(*number))
                .map(|entry| format!("`{}`", entry.instance))
                .collect();
            report.error_help(
                link.target_span,
                format!("a loop: {}", names.join(" → ")),
                exits.help(),
            );
        }
    }
}

/// A shortest way from one entry to another, both included.
fn way(from: usize, to: usize, next: &[Vec<To>]) -> Option<Vec<usize>> {
    let mut before: Vec<Option<usize>> = vec![None; next.len()];
    let mut queue = VecDeque::from([from]);
    while let Some(at) = queue.pop_front() {
        if at == to {
            let mut way = vec![to];
            let mut at = to;
            while at != from {
                at = before.get(at).copied().flatten()?;
                way.push(at);
            }
            way.reverse();
            return Some(way);
        }
        for target in next.get(at).into_iter().flatten() {
            if let To::Entry(other) = target
                && *other != from
                && let Some(place) = before.get_mut(*other)
                && place.is_none()
            {
                *place = Some(at);
                queue.push_back(*other);
            }
        }
    }
    None
}

fn unreachable(entries: &[RawEntry], next: &[Vec<To>], report: &mut Report<'_>) {
    for (number, entry) in entries.iter().enumerate() {
        if number > 0 && way(0, number, next).is_none() {
            report.error_help(
                entry.kind_span,
                format!(
                    "nothing leads to `{}`: no packet can reach it",
                    entry.instance
                ),
                "leave it out, or let a link before it lead there",
            );
        }
    }
}

/// The entries in an order in which every link leads forward, as written where
/// possible. Must be free of loops.
pub(crate) fn order(next: &[Vec<To>]) -> Vec<usize> {
    let mut waiting = vec![0usize; next.len()];
    for target in next.iter().flatten() {
        if let To::Entry(other) = target
            && let Some(count) = waiting.get_mut(*other)
        {
            *count += 1;
        }
    }
    let mut order = Vec::new();
    let mut done = vec![false; next.len()];
    while let Some(at) = (0..next.len()).find(|&at| !done[at] && waiting[at] == 0) {
        done[at] = true;
        order.push(at);
        for target in &next[at] {
            if let To::Entry(other) = target
                && let Some(count) = waiting.get_mut(*other)
            {
                *count -= 1;
            }
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_puts_every_link_forward_and_keeps_what_it_can() {
        use To::{Entry as Node, Exit};
        // 0 -> 2 or 3, 2 -> 1, 1 -> 3: written 0 1 2 3, runs 0 2 1 3.
        let next = [
            vec![Node(2), Node(3)],
            vec![Node(3)],
            vec![Node(1)],
            vec![Exit(0)],
        ];
        assert_eq!(order(&next), [0, 2, 1, 3]);
        assert_eq!(way(0, 3, &next), Some(vec![0, 3]));
        assert_eq!(way(3, 0, &next), None);
    }
}
