//! Notes of a flow that wait for more: requests for their responses, a greeting for the other side's.

use std::collections::VecDeque;

use super::note::Note;

/// Version of the bytes.
const VERSION: u8 = 1;
/// Notes that wait; the oldest is given up for a new one.
const MOST: usize = 32;
/// Bytes of them.
const MOST_BYTES: usize = 64 * 1024;

/// Notes that wait, the oldest first. Their bytes are in a side buffer of the flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Pending {
    /// Transactions before the first one here.
    done: u32,
    notes: VecDeque<Note>,
    changed: bool,
}

impl Pending {
    /// Out of a side buffer; what another release wrote counts as nothing.
    pub(in super::super) fn read(bytes: &[u8]) -> Pending {
        let mut pending = Pending::default();
        let Some(([VERSION, a, b, c, d], mut rest)) = bytes.split_first_chunk::<5>() else {
            return pending;
        };
        pending.done = u32::from_le_bytes([*a, *b, *c, *d]);
        while let Some((length, behind)) = rest.split_first_chunk::<4>()
            && let length = u32::from_le_bytes(*length) as usize
            && let Some((note, behind)) = behind.split_at_checked(length)
        {
            pending.notes.push_back(Note::read(note));
            rest = behind;
        }
        pending
    }

    /// Appends the bytes.
    pub(in super::super) fn write(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        out.extend_from_slice(&self.done.to_le_bytes());
        for note in &self.notes {
            out.extend_from_slice(&(note.bytes().len() as u32).to_le_bytes());
            out.extend_from_slice(note.bytes());
        }
    }

    /// True where the side buffer has other bytes than these.
    pub(in super::super) fn is_changed(&self) -> bool {
        self.changed
    }

    /// Transactions before the first one that waits: its number, from 0.
    pub(super) fn done(&self) -> u32 {
        self.done
    }

    /// A note more, behind the first `places`, which stay; gives how many older ones it has displaced.
    pub(super) fn push(&mut self, note: Note, places: usize) -> u64 {
        self.changed = true;
        self.notes.push_back(note);
        let mut displaced = 0;
        while self.notes.len() > places + 1 && !self.fits() {
            self.notes.remove(places);
            self.next();
            displaced += 1;
        }
        displaced
    }

    fn fits(&self) -> bool {
        let bytes = self.notes.iter().map(|note| note.bytes().len() + 4);
        self.notes.len() <= MOST && bytes.sum::<usize>() <= MOST_BYTES
    }

    /// The oldest note, with the number of its transaction.
    pub(super) fn pop(&mut self) -> Option<(u32, Note)> {
        let note = self.notes.pop_front()?;
        Some((self.next(), note))
    }

    /// The number of a transaction of which nothing waits.
    pub(super) fn next(&mut self) -> u32 {
        self.changed = true;
        self.done = self.done.wrapping_add(1);
        self.done.wrapping_sub(1)
    }

    /// The number of the next transaction, where each note behind the first `places` is of one.
    pub(super) fn coming(&self, places: usize) -> u32 {
        let waiting = self.notes.len().saturating_sub(places);
        self.done.wrapping_add(waiting as u32)
    }

    /// The note of a place that protocols with one transaction at a time give it.
    pub(super) fn at(&self, place: usize) -> Option<&Note> {
        self.notes.get(place)
    }

    /// Replaces the note of a place.
    pub(super) fn set(&mut self, place: usize, note: Note) {
        while self.notes.len() <= place {
            self.notes.push_back(Note::default());
        }
        if let Some(old) = self.notes.get_mut(place)
            && *old != note
        {
            *old = note;
            self.changed = true;
        }
    }

    /// Takes the note of a place and leaves an empty one.
    pub(super) fn take(&mut self, place: usize) -> Note {
        let Some(note) = self.notes.get_mut(place) else {
            return Note::default();
        };
        self.changed |= !note.is_empty();
        core::mem::take(note)
    }

    /// The note that came last, with the number of its transaction where each note is of one.
    pub(super) fn last(&self) -> Option<(u32, &Note)> {
        let note = self.notes.back()?;
        Some((self.coming(1), note))
    }

    /// Takes the first note behind the given places.
    pub(super) fn take_behind(&mut self, places: usize) -> Option<Note> {
        let note = self.notes.remove(places)?;
        self.changed = true;
        Some(note)
    }
}

#[cfg(test)]
mod tests {
    use super::super::note::Part;
    use super::*;
    use weir_dissect::Field;

    fn note(bytes: &[u8]) -> Note {
        let mut note = Note::default();
        note.put(Part::Value(Field::HttpUri, bytes));
        note
    }

    #[test]
    fn notes_come_back_out_of_their_bytes_in_order() {
        let mut pending = Pending::default();
        for place in 0..MOST as u8 + 3 {
            let displaced = pending.push(note(&[place]), 0);
            assert_eq!(displaced, u64::from(usize::from(place) >= MOST));
        }
        let mut bytes = Vec::new();
        pending.write(&mut bytes);
        let mut read = Pending::read(&bytes);
        assert!(!read.is_changed());
        assert_eq!(read.pop(), Some((3, note(&[3]))));
        assert!(read.is_changed());
        let last = note(&[MOST as u8 + 2]);
        assert_eq!(read.last(), Some((MOST as u32 + 2, &last)));
        bytes[0] = VERSION + 1;
        assert_eq!(Pending::read(&bytes), Pending::default());
        assert_eq!(Pending::read(&[]), Pending::default());
    }

    #[test]
    fn bytes_are_bounded() {
        let mut pending = Pending::default();
        let long = note(&[b'x'; 4096]);
        let displaced: u64 = (0..30).map(|_| pending.push(long.clone(), 0)).sum();
        let mut bytes = Vec::new();
        pending.write(&mut bytes);
        assert!(displaced > 0 && bytes.len() <= MOST_BYTES + 5);
    }
}
