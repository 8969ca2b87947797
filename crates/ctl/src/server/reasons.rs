//! Why packets are dropped, in words: the tables beside the code that drops, as one list.

use weir_io::port::PortDrop;
use weir_packet::Malformed;
use weir_protocol::switch::SwitchDrop;
use weir_runtime::EngineDrop;
use weir_telemetry::Label;

use crate::drops::DriverDrop;

/// Description of a reason that no table has.
pub(super) const UNKNOWN: &str = "Not a reason of weir's own.";

/// A reason, as it is counted, and what it means.
pub(super) type Reason = (String, &'static str);

fn of<K: Label>(prefix: &str) -> impl Iterator<Item = Reason> {
    let table = K::TABLE.iter();
    table.map(move |entry| (format!("{prefix}{}", entry.name()), entry.meaning()))
}

/// Reasons of ports, switches and the engine.
pub(super) fn own() -> impl Iterator<Item = Reason> {
    // Drops of functions have reasons of their own.
    let switch = of::<SwitchDrop>("").filter(|(name, _)| name != SwitchDrop::Functions.name());
    let own = of::<PortDrop>("").chain(of::<DriverDrop>(""));
    let own = own.chain(of::<EngineDrop>("")).chain(switch);
    own.chain(of::<Malformed>("malformed."))
}

/// Reasons of a router around the chains.
pub(super) fn of_router() -> impl Iterator<Item = Reason> {
    of::<weir_router::Reason>("network.")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANUAL: &str = include_str!("../../../../docs/drops.md");

    #[test]
    fn the_manual_lists_every_reason_and_no_other() {
        let functions = weir_functions::kinds().iter().flat_map(|kind| {
            let (kind, drops) = (kind.descriptor.name, kind.descriptor.drops.iter());
            drops.map(move |drop| (format!("{kind}.{}", drop.name()), drop.meaning()))
        });
        let all: Vec<Reason> = own().chain(of_router()).chain(functions).collect();
        let rows = all.iter();
        let rows = rows.map(|(name, meaning)| format!("| `{name}` | {meaning} |"));
        let wanted: Vec<String> = rows.collect();
        let rows: Vec<&str> = MANUAL
            .lines()
            .filter(|line| line.starts_with("| `"))
            .collect();
        assert!(
            rows == wanted,
            "docs/drops.md should have:\n{}",
            wanted.join("\n")
        );
        let mut names: Vec<&String> = all.iter().map(|(name, _)| name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all.len(), "a name occurs twice");
    }
}
