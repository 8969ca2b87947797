//! The start of a switch: its phases, and the ids of its runtimes.

use weir_protocol::RuntimeId;

use super::super::link::Found;

/// Phase of the switch's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The first runtimes start: the run does not begin without one of them.
    Starts,
    /// Links to runtimes of the switch before are made. No switch knows any of them yet.
    TakesOver,
    /// The run outlives deaths.
    Runs,
}

/// The id of the first runtime at a place, of so many, under a switch that has found those of others.
/// Ids of earlier switches are lower.
pub(super) fn first_id(found: &Found, place: u32, places: u32) -> RuntimeId {
    let before = u32::from(found.generation.saturating_sub(1)) << 16;
    let before = before.max(found.highest);
    let rounded = before.div_ceil(places.max(1)) * places.max(1);
    RuntimeId(rounded.saturating_add(place + 1))
}

#[cfg(test)]
mod tests {
    use super::super::super::wiring::place_of;
    use super::*;

    fn found(generation: u16, highest: u32) -> Found {
        Found {
            generation,
            highest,
            ..Found::default()
        }
    }

    #[test]
    fn each_switch_has_ids_of_its_own() {
        for places in [1, 2, 3, 7, 64, 128] {
            let mut last = 0;
            for generation in 1..=9 {
                for place in 0..places {
                    let RuntimeId(id) = first_id(&found(generation, 0), place, places);
                    assert!(id > last, "{generation}, {place} of {places}");
                    assert_eq!(place_of(RuntimeId(id), places as usize), place as usize);
                    last = id;
                }
            }
        }
        assert_eq!(first_id(&found(1, 0), 0, 3), RuntimeId(1));
        // One switch has started more than that.
        assert_eq!(first_id(&found(2, 70_000), 0, 3), RuntimeId(70_003));
        // The last generation has room for its first ones.
        assert!(first_id(&found(u16::MAX, 0), 127, 128) < RuntimeId(u32::MAX));
    }
}
