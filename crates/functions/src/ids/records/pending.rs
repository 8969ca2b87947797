//! Notes of a flow that wait for more: requests for their responses, a greeting for the other side's.

use std::collections::VecDeque;

use super::super::side_buffers::BUFFER_BYTES;
use super::note::{NAMES, Note};

/// Version of the bytes: a hash of all names, since tags are places in the lists of names.
const VERSION: [u8; 4] = NAMES.to_le_bytes();
/// Notes that wait; the oldest is given up for a new one.
const MOST: usize = 32;
/// Bytes of them.
const MOST_BYTES: usize = 64 * 1024;
/// Bytes before the notes: version, transactions done, and given up.
const HEAD: usize = 12;
/// Bytes of a length.
const LENGTH: usize = 4;

// All that waits fits a side buffer.
const _: () = assert!(HEAD + MOST_BYTES <= BUFFER_BYTES as usize);

/// Notes that wait, the oldest first. Their bytes are in a side buffer of the flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Pending {
    /// Transactions that are over: the number of the first one that is not.
    done: u32,
    /// Transactions behind those whose notes were given up for newer ones.
    given_up: u32,
    notes: VecDeque<Note>,
    changed: bool,
}

impl Pending {
    /// Reads a side buffer; the bytes of another release count as none.
    pub(in super::super) fn read(bytes: &[u8]) -> Pending {
        let mut pending = Pending::default();
        let Some((head, mut rest)) = bytes.split_first_chunk::<HEAD>() else {
            return pending;
        };
        let ([version, done, given_up], []) = head.as_chunks::<4>() else {
            return pending;
        };
        if *version != VERSION {
            return pending;
        }
        pending.done = u32::from_le_bytes(*done);
        pending.given_up = u32::from_le_bytes(*given_up);
        while let Some((length, behind)) = rest.split_first_chunk::<LENGTH>()
            && let Some((note, behind)) =
                behind.split_at_checked(u32::from_le_bytes(*length) as usize)
        {
            pending.notes.push_back(Note::read(note));
            rest = behind;
        }
        pending
    }

    /// Appends the bytes.
    pub(in super::super) fn write(&self, out: &mut Vec<u8>) {
        self.write_head(out);
        for note in &self.notes {
            out.extend_from_slice(&(note.bytes().len() as u32).to_le_bytes());
            out.extend_from_slice(note.bytes());
        }
    }

    /// Appends the bytes without notes, which are then lost: their number.
    pub(in super::super) fn write_head(&self, out: &mut Vec<u8>) -> u64 {
        out.extend_from_slice(&VERSION);
        out.extend_from_slice(&self.done.to_le_bytes());
        out.extend_from_slice(&self.given_up.to_le_bytes());
        self.notes.len() as u64
    }

    /// True where the side buffer has other bytes than these.
    pub(in super::super) fn is_changed(&self) -> bool {
        self.changed
    }

    /// The number of the first transaction that is not over.
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
            self.given_up = self.given_up.saturating_add(1);
            displaced += 1;
        }
        displaced
    }

    fn fits(&self) -> bool {
        let bytes = self.notes.iter().map(|note| note.bytes().len() + LENGTH);
        self.notes.len() <= MOST && bytes.sum::<usize>() <= MOST_BYTES
    }

    /// The oldest note behind the first `places`, with the number of its transaction. The note of one that was
    /// given up is empty.
    pub(super) fn pop(&mut self, places: usize) -> Option<(u32, Note)> {
        let note = if self.given_up > 0 {
            self.given_up -= 1;
            Note::default()
        } else {
            self.notes.remove(places)?
        };
        Some((self.next(), note))
    }

    /// True where a transaction waits behind the first `places`.
    pub(super) fn waits_behind(&self, places: usize) -> bool {
        self.given_up > 0 || self.notes.len() > places
    }

    /// The number of a transaction that is over with this.
    pub(super) fn next(&mut self) -> u32 {
        self.changed = true;
        self.done = self.done.wrapping_add(1);
        self.done.wrapping_sub(1)
    }

    /// The number of the next transaction, where each note behind the first `places` is of one.
    pub(super) fn coming(&self, places: usize) -> u32 {
        let waiting = self.notes.len().saturating_sub(places) as u32;
        self.done.wrapping_add(self.given_up).wrapping_add(waiting)
    }

    /// The oldest note, unless it was given up.
    pub(super) fn first(&self) -> Option<&Note> {
        self.notes.front().filter(|_| self.given_up == 0)
    }

    /// The note that came last.
    pub(super) fn last(&self) -> Option<&Note> {
        self.notes.back()
    }

    /// The note of a place that protocols with one transaction at a time give it.
    pub(super) fn at(&self, place: usize) -> Option<&Note> {
        self.notes.get(place)
    }

    fn at_mut(&mut self, place: usize) -> Option<&mut Note> {
        while self.notes.len() <= place {
            self.notes.push_back(Note::default());
        }
        self.changed = true;
        self.notes.get_mut(place)
    }

    /// Replaces the note of a place.
    pub(super) fn set(&mut self, place: usize, note: Note) {
        if let Some(old) = self.at_mut(place) {
            *old = note;
        }
    }

    /// Adds to the note of a place.
    pub(super) fn add(&mut self, place: usize, note: &Note) {
        if let Some(old) = self.at_mut(place) {
            old.add(note);
        }
    }

    /// Takes the note of a place and leaves an empty one.
    pub(super) fn take(&mut self, place: usize) -> Note {
        self.at_mut(place).map(core::mem::take).unwrap_or_default()
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
        assert_eq!((read.first(), read.coming(0)), (None, MOST as u32 + 3));
        // Those that were given up keep their numbers.
        for number in 0..3 {
            assert_eq!(read.pop(0), Some((number, Note::default())));
        }
        assert_eq!(read.first(), Some(&note(&[3])));
        assert_eq!(read.pop(0), Some((3, note(&[3]))));
        assert!(read.is_changed());
        assert_eq!(read.last(), Some(&note(&[MOST as u8 + 2])));
        bytes[0] ^= 1;
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
        assert!(displaced > 0 && bytes.len() <= MOST_BYTES + HEAD);
    }
}
