//! Units, views and entries as people read them.

use weir_packet::{Disposition, frame_flags};
use weir_protocol::message::{Entry, Part};
use weir_protocol::{UnitId, View};
use weir_runtime::notes::{self, Note};

pub(super) fn is_tick(part: &Part) -> bool {
    part.flags & frame_flags::TICK != 0
}

/// True where both entries have the same effects.
pub(super) fn same(one: &Entry, other: &Entry) -> bool {
    one.parts.len() == other.parts.len()
        && one
            .parts
            .iter()
            .zip(&other.parts)
            .all(|(a, b)| a.disposition == b.disposition && a.bytes == b.bytes && a.time == b.time)
}

/// A unit as people read it.
pub(crate) fn show_unit(unit: UnitId) -> String {
    format!("{}.{}", unit.slot(), unit.incarnation())
}

/// A view as people read it.
pub(crate) fn show_view(view: View) -> String {
    format!("{}.{}", view.generation(), view.0 & 0xffff_ffff)
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
        Err(_) => "no notes".to_owned(),
    });
    notes.collect::<Vec<_>>().join(", ")
}
