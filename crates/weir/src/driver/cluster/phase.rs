//! The start of a switch: what it is about, and which ids its runtimes have.

use weir_protocol::RuntimeId;

/// What the switch's thread is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The first runtimes start: the run does not begin without one of them.
    Starts,
    /// Links to runtimes of the switch before are made. No switch knows any of them yet.
    TakesOver,
    /// The run outlives deaths.
    Runs,
}

/// The id of the first runtime at a place, of so many, under a switch of this generation. Ids of
/// earlier switches are lower.
pub(super) fn first_id(generation: u16, place: u32, places: u32) -> RuntimeId {
    let before = u32::from(generation.saturating_sub(1)) << 16;
    let rounded = before.div_ceil(places.max(1)) * places.max(1);
    RuntimeId(rounded.saturating_add(place + 1))
}

#[cfg(test)]
mod tests {
    use super::super::super::wiring::place_of;
    use super::*;

    #[test]
    fn each_switch_has_ids_of_its_own() {
        for places in [1, 2, 3, 7, 64, 128] {
            let mut last = 0;
            for generation in 1..=9 {
                for place in 0..places {
                    let RuntimeId(id) = first_id(generation, place, places);
                    assert!(id > last, "{generation}, {place} of {places}");
                    assert_eq!(place_of(RuntimeId(id), places as usize), place as usize);
                    last = id;
                }
            }
        }
        assert_eq!(first_id(1, 0, 3), RuntimeId(1));
        // The last generation has room for its first ones.
        assert!(first_id(u16::MAX, 127, 128) < RuntimeId(u32::MAX));
    }
}
