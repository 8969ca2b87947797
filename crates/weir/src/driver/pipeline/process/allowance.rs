//! How much a process that is not trusted may write to the run's events: its
//! lines take room on a disk that is the operator's, for as long as it likes.

/// Octets of events that each packet that it is lent earns.
const PER_PACKET: u64 = 1 << 10;
/// Those that each octet of a notice earns: the shortest notice of a flow's end
/// is of about twenty.
const PER_TOLD: u64 = 64;
/// Allowance at the start, and the most that is saved up.
const FIRST: u64 = 1 << 20;
const MOST: u64 = 16 << 20;
/// Longest line of an event.
const LINE: usize = 64 << 10;

/// Bytes of events that a stage's processes may write.
#[derive(Debug)]
pub(super) struct Allowance {
    /// True if the run writes events.
    wanted: bool,
    octets: u64,
    /// Packets, and octets of notices, that were counted.
    shown: [u64; 2],
    /// Events that were let through, and those that were not.
    through: u64,
    refused: u64,
}

impl Allowance {
    pub(super) fn new(wanted: bool) -> Allowance {
        Allowance {
            wanted,
            octets: FIRST,
            shown: [0; 2],
            through: 0,
            refused: 0,
        }
    }

    /// True if these lines are within the allowance. `shown` is the total of
    /// packets, and of octets of notices, that the process has received so far.
    /// `None` if the lines are no events. Refused lines are not parsed.
    pub(super) fn lets(&mut self, shown: [u64; 2], text: &[u8]) -> Option<bool> {
        if !self.wanted {
            return Some(false);
        }
        for ((now, before), each) in shown.iter().zip(&self.shown).zip([PER_PACKET, PER_TOLD]) {
            let earned = now.saturating_sub(*before).saturating_mul(each);
            self.octets = self.octets.saturating_add(earned).min(MOST);
        }
        self.shown = shown;
        let Some(left) = self.octets.checked_sub(text.len() as u64) else {
            self.refused += text.iter().filter(|byte| **byte == b'\n').count() as u64;
            return Some(false);
        };
        self.through += lines(text)?;
        self.octets = left;
        Some(true)
    }

    /// Events that were let through; nothing is known where the run has none.
    pub(super) fn through(&self) -> Option<u64> {
        self.wanted.then_some(self.through)
    }

    pub(super) fn refused(&self) -> u64 {
        self.refused
    }
}

/// How many events these lines are; `None` where they are no whole lines of
/// text with an object of JSON each.
fn lines(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?.strip_suffix('\n')?;
    let mut count = 0;
    for line in text.split('\n') {
        if line.len() > LINE || !line.starts_with('{') {
            return None;
        }
        let _: serde::de::IgnoredAny = serde_json::from_str(line).ok()?;
        count += 1;
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_whole_lines_of_json() {
        assert_eq!(lines("{\"a\":\"ä\"}\n{}\n".as_bytes()), Some(2));
        for bad in [
            &b""[..],
            b"{}",
            b"\n",
            b"{}\n\n",
            b"[1]\n",
            b"{}x\n",
            b"{\"\x01\":1}\n",
            b"{\"a\":\"\xff\"}\n",
        ] {
            assert_eq!(lines(bad), None, "{bad:?}");
        }
        let long = format!("{{\"a\":\"{}\"}}\n", "x".repeat(LINE));
        assert_eq!(lines(long.as_bytes()), None);
    }

    #[test]
    fn events_are_earned() {
        let text = b"{\"event_type\":\"x\"}\n".repeat(1_000);
        let len = text.len() as u64;
        let mut allowance = Allowance::new(true);
        let mut let_through = 0;
        for _ in 0..1_000 {
            let_through += u64::from(allowance.lets([0; 2], &text).unwrap());
        }
        assert_eq!(let_through, FIRST / len);
        assert_eq!(allowance.through(), Some(let_through * 1_000));
        assert_eq!(allowance.refused(), (1_000 - let_through) * 1_000);
        let packets = len / PER_PACKET + 1;
        assert_eq!(allowance.lets([packets, 0], &text), Some(true));
        assert_eq!(allowance.lets([packets, 0], b"{}\n"), Some(true));
        let told = len / PER_TOLD + 1;
        assert_eq!(allowance.lets([packets, told], &text), Some(true));
        // They are not kept for ever.
        allowance.lets([u64::MAX, told], b"{}\n");
        assert!(allowance.octets < MOST);
        assert_eq!(allowance.lets([u64::MAX, told], b"noise\n"), None);
        assert_eq!(Allowance::new(false).lets([9, 9], b"noise"), Some(false));
    }
}
