//! Gates on events: bits of hosts and pairs of hosts that events set, and that others wait for.
//!
//! What one flow has shown may decide whether an event of another one is written. Flows live in many runtimes, and a
//! packet waits for no other one: so bits are kept where events are written, by the
//! [`EventLimiter`](crate::EventLimiter). An event says in its first field which bits it tests and which it changes; an
//! event may be there for its changes alone.

use core::fmt;

use crate::timed::Timed;

/// What an event does with a bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateWord {
    /// It is written only where the bit is set.
    IsSet,
    /// It is written only where the bit is not set.
    IsNotSet,
    /// It sets the bit.
    Set,
    /// It clears the bit.
    Unset,
    /// It sets a bit that is not set, and clears one that is.
    Toggle,
}

/// One step of an event's gate; the steps are taken in order, up to the first test that fails.
#[derive(Clone, Copy, Debug)]
pub struct GateStep<K> {
    /// What is done.
    pub word: GateWord,
    /// How long a bit stays set, by the times of packets.
    pub seconds: u32,
    /// Names the bit; it prints no quote, backslash, semicolon or control character.
    pub key: K,
}

/// How an event with a gate begins.
pub(crate) const MARK: &str = "{\"gate\":\"";

impl GateWord {
    const ALL: [GateWord; 5] = [
        GateWord::IsSet,
        GateWord::IsNotSet,
        GateWord::Set,
        GateWord::Unset,
        GateWord::Toggle,
    ];

    const fn word(self) -> &'static str {
        match self {
            GateWord::IsSet => "isset",
            GateWord::IsNotSet => "isnotset",
            GateWord::Set => "set",
            GateWord::Unset => "unset",
            GateWord::Toggle => "toggle",
        }
    }
}

/// The step, as an event has it; a semicolon follows.
impl<K: fmt::Display> fmt::Display for GateStep<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.word.word(), self.seconds, self.key)
    }
}

/// The bits of a run that are set, each for its time.
#[derive(Debug, Default)]
pub(crate) struct Bits(Timed<()>);

/// What becomes of an event with a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passage {
    /// It goes on to its limit, or is written.
    Written,
    /// A test has failed.
    Unmet,
    /// It was there for its changes alone, whether it has made them or not.
    Silent,
}

impl Bits {
    /// Takes the steps of an event, given as it has them; `None` where they are not what an event writes.
    pub(crate) fn pass(&mut self, about: &str) -> Option<Passage> {
        let (head, steps) = about.split_once(';')?;
        let (told, time) = head.split_once(' ')?;
        let (told, time) = (told == "told", time.parse().ok()?);
        for step in steps.split_terminator(';') {
            let mut parts = step.splitn(3, ' ');
            let word = parts.next()?;
            let word = GateWord::ALL
                .into_iter()
                .find(|known| known.word() == word)?;
            let seconds: u32 = parts.next()?.parse().ok()?;
            if !self.take(word, time, seconds, parts.next()?.as_bytes()) {
                return Some(match told {
                    true => Passage::Unmet,
                    false => Passage::Silent,
                });
            }
        }
        Some(match told {
            true => Passage::Written,
            false => Passage::Silent,
        })
    }

    /// Bits that were forgotten before their time, because there were 65,536 others.
    pub(crate) fn forgotten(&self) -> u64 {
        self.0.forgotten()
    }

    /// False where it is a test that fails.
    fn take(&mut self, word: GateWord, now: u64, seconds: u32, key: &[u8]) -> bool {
        let is_set = self.0.get_mut(key, now).is_some();
        let sets = match word {
            GateWord::IsSet => return is_set,
            GateWord::IsNotSet => return !is_set,
            GateWord::Set => true,
            GateWord::Unset => false,
            GateWord::Toggle => !is_set,
        };
        if sets {
            let end = now.saturating_add(u64::from(seconds) * 1_000_000);
            self.0.put(key, (now, end), ());
        } else {
            self.0.remove(key);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(told: bool, seconds: u64, steps: &[(GateWord, u32, &str)]) -> String {
        let told = if told { "told" } else { "silent" };
        let step = |&(word, seconds, key): &(GateWord, u32, &str)| {
            format!("{};", GateStep { word, seconds, key })
        };
        let steps: String = steps.iter().map(step).collect();
        format!("{told} {};{steps}", seconds * 1_000_000)
    }

    #[test]
    fn bits_are_set_for_their_time() {
        use GateWord::{IsNotSet, IsSet, Set, Toggle, Unset};
        use Passage::{Silent, Unmet, Written};
        let mut bits = Bits::default();
        let mut pass = |at, steps: &[(GateWord, u32, &str)]| {
            bits.pass(&about(true, at, steps)).expect("it can be read")
        };
        assert_eq!(pass(1, &[(IsSet, 0, "a")]), Unmet);
        assert_eq!(pass(1, &[(IsNotSet, 0, "a"), (Set, 10, "a")]), Written);
        assert_eq!(pass(11, &[(IsSet, 0, "a")]), Written);
        assert_eq!(pass(12, &[(IsSet, 0, "a")]), Unmet);
        // A test that fails takes no later step.
        assert_eq!(pass(12, &[(IsSet, 0, "a"), (Set, 10, "b")]), Unmet);
        assert_eq!(pass(12, &[(IsNotSet, 0, "b")]), Written);
        assert_eq!(pass(13, &[(Toggle, 10, "b")]), Written);
        assert_eq!(pass(14, &[(IsSet, 0, "b"), (Toggle, 10, "b")]), Written);
        assert_eq!(pass(14, &[(IsNotSet, 0, "b"), (Set, 10, "b")]), Written);
        assert_eq!(pass(15, &[(Unset, 0, "b")]), Written);
        assert_eq!(pass(15, &[(IsSet, 0, "b")]), Unmet);
        assert_eq!(bits.pass(&about(false, 16, &[(Set, 5, "c")])), Some(Silent));
        assert_eq!(
            bits.pass(&about(true, 16, &[(IsSet, 0, "c")])),
            Some(Written)
        );
        for wrong in [
            "",
            "told;",
            "told x;",
            "told 1;jump 1 a;",
            "told 1;set a;",
            "told 1;set 1",
        ] {
            assert_eq!(bits.pass(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn bits_are_bounded() {
        let mut bits = Bits(Timed::new(4));
        for key in 0..100_u64 {
            let key = key.to_string();
            bits.pass(&about(true, 1, &[(GateWord::Set, 10, &key)]));
        }
        assert_eq!((bits.0.sizes(), bits.forgotten()), ((4, 4), 96));
        bits.pass(&about(true, 100, &[(GateWord::Set, 10, "new")]));
        assert_eq!((bits.0.sizes().0, bits.forgotten()), (3, 96));
    }
}
