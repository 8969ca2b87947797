//! Packets that wait for neighbours: lists in one bounded memory.

use weir_packet::Frame;

const NONE: u32 = u32::MAX;

/// The packets of one neighbour, oldest first.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    first: u32,
    last: u32,
    pub(super) len: u32,
}

impl List {
    pub(super) const EMPTY: List = List {
        first: NONE,
        last: NONE,
        len: 0,
    };
}

/// All of them.
#[derive(Debug)]
pub(super) struct Held {
    /// A frame and the place of the next one, or of the next free place.
    places: Vec<(Option<Frame>, u32)>,
    free: u32,
    len: u32,
}

impl Held {
    pub(super) fn new(most: u32) -> Held {
        let next = |place: u32| if place + 1 < most { place + 1 } else { NONE };
        Held {
            places: (0..most).map(|place| (None, next(place))).collect(),
            free: if most > 0 { 0 } else { NONE },
            len: 0,
        }
    }

    pub(super) const fn is_full(&self) -> bool {
        self.free == NONE
    }

    pub(super) const fn len(&self) -> u32 {
        self.len
    }

    /// Adds a packet; gives it back where there is no place.
    pub(super) fn push(&mut self, list: &mut List, frame: Frame) -> Result<(), Frame> {
        let place = self.free;
        let Some((held, next)) = self.places.get_mut(place as usize) else {
            return Err(frame);
        };
        self.free = *next;
        (*held, *next) = (Some(frame), NONE);
        match self.places.get_mut(list.last as usize) {
            Some((_, next)) => *next = place,
            None => list.first = place,
        }
        list.last = place;
        list.len += 1;
        self.len += 1;
        Ok(())
    }

    /// Takes the oldest packet.
    pub(super) fn pop(&mut self, list: &mut List) -> Option<Frame> {
        let place = list.first;
        let (held, next) = self.places.get_mut(place as usize)?;
        let frame = held.take();
        list.first = *next;
        if list.first == NONE {
            list.last = NONE;
        }
        *next = self.free;
        self.free = place;
        list.len -= 1;
        self.len -= 1;
        frame
    }
}
