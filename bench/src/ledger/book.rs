//! The judge: what was sent, what came, and in which order; it knows nothing of weir.

use super::packet::Numbered;

/// Latest packets of a flow whose arrival is remembered.
const REMEMBERED: u32 = 64;

/// Source address and port of a flow after the NAT.
pub(super) type Mapping = ([u8; 4], u16);

#[derive(Clone, Copy, Default)]
struct Flow {
    /// The number that comes next.
    next: u32,
    /// Of the `REMEMBERED` numbers before `next`, the latest in the lowest bit: it has come.
    seen: u64,
    mapping: Option<Mapping>,
}

/// Counts of packets by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Packets that came, each once.
    pub(super) came: u64,
    /// Packets that had come before.
    pub(super) doubled: u64,
    /// Packets that came behind a later one of their flow.
    pub(super) reordered: u64,
    /// Packets whose flow had another address or port before.
    pub(super) remapped: u64,
    /// Packets of no flow or number that there is.
    pub(super) unknown: u64,
}

/// The book of all flows.
pub(super) struct Book {
    flows: Box<[Flow]>,
    verdict: Verdict,
}

impl Book {
    /// An empty one for so many flows.
    pub(super) fn new(flows: u32) -> Book {
        Book {
            flows: vec![Flow::default(); flows as usize].into(),
            verdict: Verdict::default(),
        }
    }

    /// A packet has come.
    pub(super) fn enter(&mut self, packet: Numbered, mapping: Mapping) {
        let Some(flow) = self.flows.get_mut(packet.flow as usize) else {
            self.verdict.unknown += 1;
            return;
        };
        if *flow.mapping.get_or_insert(mapping) != mapping {
            self.verdict.remapped += 1;
            flow.mapping = Some(mapping);
        }
        if packet.number >= flow.next {
            let skipped = packet.number - flow.next;
            flow.seen = match skipped < REMEMBERED - 1 {
                true => flow.seen << (skipped + 1) | 1,
                false => 1,
            };
            flow.next = packet.number + 1;
            self.verdict.came += 1;
            return;
        }
        let back = flow.next - 1 - packet.number;
        let bit = 1u64.checked_shl(back).unwrap_or(0);
        if bit == 0 {
            self.verdict.unknown += 1;
        } else if flow.seen & bit != 0 {
            self.verdict.doubled += 1;
        } else {
            flow.seen |= bit;
            self.verdict.came += 1;
            self.verdict.reordered += 1;
        }
    }

    /// The counts so far.
    pub(super) const fn verdict(&self) -> Verdict {
        self.verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Mapping = ([203, 0, 113, 1], 1_024);

    fn verdict(numbers: &[u32]) -> Verdict {
        let mut book = Book::new(1);
        for &number in numbers {
            let packet = Numbered {
                flow: 0,
                number,
                sent: 0,
            };
            book.enter(packet, A);
        }
        book.verdict()
    }

    #[test]
    fn each_offence_has_its_count() {
        let of = |came, doubled, reordered| Verdict {
            came,
            doubled,
            reordered,
            ..Verdict::default()
        };
        assert_eq!(verdict(&[0, 1, 2]), of(3, 0, 0));
        assert_eq!(verdict(&[0, 2, 1]), of(3, 0, 1));
        assert_eq!(verdict(&[0, 2]), of(2, 0, 0));
        assert_eq!(verdict(&[0, 1, 1]), of(2, 1, 0));
        assert_eq!(verdict(&[0, 2, 1, 1, 0]), of(3, 2, 1));
        assert_eq!(verdict(&[0, 63, 0, 1]), of(3, 1, 1));
        assert_eq!(verdict(&[5, 4, 4]), of(2, 1, 1));
        // Too long ago to say.
        assert_eq!(verdict(&[0, 64, 0]).unknown, 1);
        assert_eq!(verdict(&[0, 1_000, 936]).unknown, 1);
    }

    #[test]
    fn a_mapping_that_changes_and_a_flow_that_is_not_there_are_seen() {
        let mut book = Book::new(1);
        let packet = |flow, number| Numbered {
            flow,
            number,
            sent: 0,
        };
        book.enter(packet(0, 0), A);
        book.enter(packet(0, 1), ([203, 0, 113, 2], 1_024));
        book.enter(packet(1, 0), A);
        assert_eq!((book.verdict().remapped, book.verdict().unknown), (1, 1));
    }
}
