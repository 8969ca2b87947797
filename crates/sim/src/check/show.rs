//! Units, views and entries as people read them.

use weir_packet::{Disposition, frame_flags};
use weir_protocol::message::{Entry, Part};
use weir_protocol::{UnitId, View};
use weir_runtime::notes::{self, NotNotes, Note};

pub(super) fn is_tick(part: &Part) -> bool {
    part.flags & frame_flags::TICK != 0
}

/// True where what was let out has the same effects as `right`, but for emitted packets
/// that it says it lacks.
pub(super) fn same(made: &Entry, right: &Entry) -> bool {
    let (made, right) = (Effects::of(made), Effects::of(right));
    // Each that was emitted is the next but some of the right ones.
    let mut all = right.emitted.iter();
    let in_order = |a: &&Part| all.any(|b| are_alike(a, b));
    made.emitted.iter().all(in_order)
        && made.emitted.len() + made.lost == right.emitted.len() + right.lost
        && made.notes == right.notes
        && made.rest.len() == right.rest.len()
        && made
            .rest
            .iter()
            .zip(right.rest)
            .all(|(a, b)| are_alike(a, b))
}

/// True where one entry was said twice.
pub(super) fn is_again(one: &Entry, other: &Entry) -> bool {
    let mut parts = one.parts.iter().zip(&other.parts);
    one.parts.len() == other.parts.len() && parts.all(|(a, b)| are_alike(a, b))
}

fn are_alike(a: &Part, b: &Part) -> bool {
    a.disposition == b.disposition && a.bytes == b.bytes && a.time == b.time
}

/// An entry's parts, by kind.
#[derive(Default)]
struct Effects<'a> {
    emitted: Vec<&'a Part>,
    /// Packets that were to be emitted.
    lost: usize,
    /// All other notes.
    notes: Vec<Result<Note<'a>, NotNotes>>,
    rest: Vec<&'a Part>,
}

impl<'a> Effects<'a> {
    fn of(entry: &'a Entry) -> Effects<'a> {
        let mut effects = Effects::default();
        for part in &entry.parts {
            match part.disposition {
                Disposition::Emitted => effects.emitted.push(part),
                Disposition::Notes => effects.notes.extend(notes::read(&part.bytes)),
                _ => effects.rest.push(part),
            }
        }
        let lost = &mut effects.lost;
        effects.notes.retain(|note| {
            let Ok(Note::EmitsLost { count }) = note else {
                return true;
            };
            *lost += *count as usize;
            false
        });
        effects
    }
}

/// A unit as people read it.
pub(crate) fn show_unit(unit: UnitId) -> String {
    format!("{}.{}", unit.slot(), unit.incarnation())
}

/// A view as people read it.
pub(crate) fn show_view(view: View) -> String {
    format!("{}.{}", view.generation(), view.number())
}

/// An entry as people read it.
pub(crate) fn show_entry(entry: &Entry) -> String {
    let parts: Vec<String> = entry.parts.iter().map(show_part).collect();
    parts.join(" + ")
}

fn show_part(part: &Part) -> String {
    if part.disposition != Disposition::Notes {
        return format!("{:?} {} bytes", part.disposition, part.bytes.len());
    }
    let notes = notes::read(&part.bytes).map(|note| match note {
        Ok(Note::Event(line)) => format!("event {}", String::from_utf8_lossy(line).trim_end()),
        Ok(Note::Alias { request, .. }) => format!("alias {}", request.key),
        Ok(Note::FlowEnded { key }) => format!("end of {key}"),
        Ok(Note::FlowOpened { key, .. }) => format!("beginning of {key}"),
        Ok(Note::AliasEnded { key }) => format!("end of alias {key}"),
        Ok(Note::Leased { lease, .. }) => format!("port {}", lease.port),
        Ok(Note::EmitsLost { count }) => format!("{count} emitted packets lost"),
        Err(_) => "no notes".to_owned(),
    });
    notes.collect::<Vec<_>>().join(", ")
}
