//! Changes between two states of a unit, so that a replica need not get all of a
//! state of which a packet has changed a few octets.

use crate::message::Change;

/// Octets of a change's form beside its own.
pub(crate) const FORM: usize = 8;

/// The changes that lead from `before` to `after`; `None` where they are not
/// shorter than half of `after`, or where they differ in length.
pub(crate) fn between(before: &[u8], after: &[u8]) -> Option<Vec<Change>> {
    if before.len() != after.len() {
        return None;
    }
    let mut changes: Vec<Change> = Vec::new();
    let (mut length, most) = (0, after.len() / 2);
    let mut differing = before
        .iter()
        .zip(after)
        .enumerate()
        .filter(|(_, (b, a))| b != a);
    let mut next = differing.next();
    while let Some((at, _)) = next {
        // Octets between two differences that are cheaper sent than left out.
        let mut end = at + 1;
        next = differing.next();
        while let Some((other, _)) = next
            && other < end + FORM
        {
            end = other + 1;
            next = differing.next();
        }
        length += FORM + end - at;
        if length > most {
            return None;
        }
        changes.push(Change {
            at: at as u32,
            bytes: after.get(at..end)?.to_vec(),
        });
    }
    Some(changes)
}

/// Octets of changes, with their form.
pub(crate) fn octets(changes: &[Change]) -> usize {
    let octets = |change: &Change| FORM + change.bytes.len();
    changes.iter().map(octets).sum()
}

/// Makes the changes; false, and nothing changed, where one lies outside.
pub(crate) fn apply(state: &mut [u8], changes: &[Change]) -> bool {
    let range = |change: &Change| change.at as usize..change.at as usize + change.bytes.len();
    let fits = |change| state.get(range(change)).is_some();
    if !changes.iter().all(fits) {
        return false;
    }
    for change in changes {
        if let Some(place) = state.get_mut(range(change)) {
            place.copy_from_slice(&change.bytes);
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_make_the_one_state_the_other() {
        let before: Vec<u8> = (0..200).collect();
        for places in [&[][..], &[0], &[199], &[3, 4, 10, 90], &[0, 50, 60, 199]] {
            let mut after = before.clone();
            places.iter().for_each(|at: &usize| after[*at] ^= 0x55);
            let changes = between(&before, &after).unwrap();
            let mut state = before.clone();
            assert!(apply(&mut state, &changes));
            assert_eq!(state, after);
        }
        // Two that are near are one change.
        let mut after = before.clone();
        (after[20], after[26]) = (1, 1);
        assert_eq!(
            between(&before, &after).map(|changes| changes.len()),
            Some(1)
        );
    }

    #[test]
    fn what_is_no_shorter_or_lies_outside_is_refused() {
        let before = [0; 64];
        assert_eq!(between(&before, &[1; 64]), None);
        assert_eq!(between(&before, &[0; 63]), None);
        let outside = Change {
            at: u32::MAX,
            bytes: vec![1],
        };
        let inside = Change {
            at: 0,
            bytes: vec![1],
        };
        let mut state = before;
        assert!(!apply(&mut state, &[inside, outside]));
        assert_eq!(state, before);
    }
}
