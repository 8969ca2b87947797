//! Parts of an expanded chain, joined by the links of their entries.

use weir_nf::host::Kind;

use crate::diagnostic::Span;
use crate::links::To;
use crate::tree::Node;

/// A processor of an expanded chain, not built yet.
#[derive(Debug)]
pub(crate) struct Flat<'k> {
    /// Its name in the chain.
    pub(crate) name: String,
    /// The entry of the chain that it is of, and where that stands.
    pub(crate) instance: String,
    pub(crate) instance_span: Span,
    pub(crate) kind: &'k Kind,
    /// Place where the function is named: in the chain or in a template.
    pub(crate) kind_span: Span,
    pub(crate) settings: Option<Node>,
    /// Targets of its links, by numbers of the expanded chain.
    pub(crate) next: Vec<To>,
    /// For whom a template is read, behind errors in it.
    pub(crate) note: Option<String>,
}

/// A part of an expanded chain. Links lead to its own nodes, or out of it by
/// the labels of the entry that it stands for.
pub(crate) struct Piece<'k> {
    pub(crate) nodes: Vec<Flat<'k>>,
    /// First processor that packets come to.
    pub(crate) start: To,
}

impl<'k> Piece<'k> {
    /// An empty piece: packets go through it unseen.
    pub(crate) const fn nothing() -> Piece<'k> {
        Piece {
            nodes: Vec::new(),
            start: To::Exit(0),
        }
    }

    pub(crate) fn of(mut node: Flat<'k>) -> Piece<'k> {
        let labels = node.kind.descriptor.labels.len() + 1;
        node.next = (0..labels).map(To::Exit).collect();
        Piece {
            nodes: vec![node],
            start: To::Entry(0),
        }
    }
}

/// Joins the pieces of entries by the entries' links.
pub(crate) fn join<'k>(pieces: Vec<Piece<'k>>, next: &[Vec<To>]) -> Piece<'k> {
    let mut starts = Vec::new();
    let mut offset = 0;
    for piece in &pieces {
        starts.push(match piece.start {
            To::Entry(at) => To::Entry(offset + at),
            other => other,
        });
        offset += piece.nodes.len();
    }
    // Target of packets that leave an entry by a label.
    let leave = |mut entry: usize, mut label: usize| {
        // No way is longer, but where links make loops, which were reported.
        for _ in 0..=pieces.len() {
            match next.get(entry).and_then(|links| links.get(label)) {
                Some(To::Entry(other)) => match starts.get(*other) {
                    Some(To::Exit(exit)) => (entry, label) = (*other, *exit),
                    Some(start) => return *start,
                    None => break,
                },
                Some(other) => return *other,
                None => break,
            }
        }
        To::Drop
    };
    let start = match starts.first() {
        Some(To::Exit(label)) => leave(0, *label),
        Some(start) => *start,
        None => To::Exit(0),
    };
    let links: Vec<Vec<Vec<To>>> = pieces
        .iter()
        .zip(0..)
        .scan(0, |offset, (piece, entry)| {
            let first = *offset;
            *offset += piece.nodes.len();
            let of_node = |node: &Flat<'_>| -> Vec<To> {
                let links = node.next.iter().map(|to| match to {
                    To::Entry(at) => To::Entry(first + at),
                    To::Exit(label) => leave(entry, *label),
                    To::Drop => To::Drop,
                });
                links.collect()
            };
            Some(piece.nodes.iter().map(of_node).collect())
        })
        .collect();
    let nodes = pieces
        .into_iter()
        .zip(links)
        .flat_map(|(piece, links)| piece.nodes.into_iter().zip(links))
        .map(|(node, next)| Flat { next, ..node })
        .collect();
    Piece { nodes, start }
}

/// Which nodes packets can reach.
pub(crate) fn reachable(piece: &Piece<'_>) -> Vec<bool> {
    let mut reached = vec![false; piece.nodes.len()];
    let mut waiting = vec![piece.start];
    while let Some(to) = waiting.pop() {
        if let To::Entry(at) = to
            && let Some(place) = reached.get_mut(at)
            && !core::mem::replace(place, true)
            && let Some(node) = piece.nodes.get(at)
        {
            waiting.extend(&node.next);
        }
    }
    reached
}

/// Keeps the nodes that are marked.
pub(crate) fn keep<'k>(piece: Piece<'k>, kept: &[bool]) -> Piece<'k> {
    let renumber = |to: To| match to {
        To::Entry(at) => {
            let before = kept.iter().take(at).filter(|kept| **kept).count();
            To::Entry(before)
        }
        to => to,
    };
    let nodes = piece
        .nodes
        .into_iter()
        .zip(kept)
        .filter(|(_, kept)| **kept)
        .map(|(node, _)| Flat {
            next: node.next.iter().map(|to| renumber(*to)).collect(),
            ..node
        })
        .collect();
    Piece {
        nodes,
        start: renumber(piece.start),
    }
}
