//! Deaths: of a panic or of a signal, between the parts of a round or in the middle of its
//! work, when only some of what it says is in its queues.

use weir_protocol::in_process::MESSAGES;

use super::Word;
use super::doom::Doom;
use crate::slip::Slip;
use crate::world::links::ProcessNo;
use crate::world::process::Body;
use crate::world::{Phase, World};

/// Most frames and messages that a runtime still says in the round in which it dies.
const LAST_WORDS: u64 = 12;

impl World<'_> {
    /// A runtime is to die in the middle of its next round in which it has work, in one of
    /// two cases; false in the other.
    pub(in crate::world) fn doom(
        &mut self,
        no: ProcessNo,
        notice: u64,
        restart: Option<u64>,
    ) -> bool {
        let Some(threads) = &mut self.threads else {
            return false;
        };
        let random = &mut threads.random;
        let (is_it, says) = (random.chance(500), random.below(LAST_WORDS) as usize);
        let Some(thread) = threads.runtimes.get_mut(&no).filter(|_| is_it) else {
            return false;
        };
        thread.doom = Some(Doom {
            says,
            is_due: false,
            notice,
            restart,
        });
        self.call(no);
        true
    }

    /// True where a runtime dies in this round: no unit depends on it alone.
    pub(super) fn is_doom_due(&mut self, no: ProcessNo) -> bool {
        let may = self.phase == Phase::Busy && self.may_fail(no);
        let Some(thread) = self
            .threads
            .as_mut()
            .and_then(|threads| threads.runtimes.get_mut(&no))
        else {
            return false;
        };
        match &mut thread.doom {
            Some(doom) if may => {
                doom.is_due = true;
                true
            }
            Some(_) => {
                thread.doom = None;
                self.count("failures_skipped");
                false
            }
            None => false,
        }
    }

    /// It dies now.
    pub(super) fn die_at_work(&mut self, no: ProcessNo) {
        let threads = self.threads.as_ref();
        let thread = threads.and_then(|threads| threads.runtimes.get(&no));
        if let Some(doom) = thread.and_then(|thread| thread.doom) {
            self.count("crashes_at_work");
            self.crash(no, doom.notice, doom.restart);
        }
    }

    /// A thread is over.
    pub(in crate::world) fn end_thread(&mut self, no: ProcessNo) {
        let living = self.processes.get_mut(no).and_then(|p| p.living.take());
        let (Some((body, mut pool)), Some(threads)) = (living, &mut self.threads) else {
            return;
        };
        match body {
            Body::Runtime(mut actors) => actors.finish(&mut pool),
            Body::Switch(mut switch) => switch.finish(&mut pool),
        }
        threads.end(no, pool);
    }

    /// The switch's thread joins one that is over, when it has heard all that this
    /// one has said.
    pub(in crate::world) fn join_thread(&mut self, no: ProcessNo) {
        let Some(switch) = self.switch.filter(|_| self.threads.is_some()) else {
            return;
        };
        while let Some(heard) = self.left_words(switch, no) {
            self.hear(switch, no, heard);
        }
        let keeps = self.settings.slip() == Some(Slip::CutEntryKept);
        let living = self.processes.get_mut(switch);
        let living = living.and_then(|p| p.living.as_mut());
        if let (Some((_, pool)), Some(threads)) = (living, &mut self.threads) {
            threads.join(no, pool, keeps);
        }
    }

    /// Messages that a thread which is over has left for the switch; `None` where
    /// neither those nor entries are left.
    fn left_words(&mut self, switch: ProcessNo, no: ProcessNo) -> Option<Vec<Word>> {
        let threads = self.threads.as_mut()?;
        if threads.hearing.front() == Some(&no)
            && let Some(heard) = threads.heard.take()
        {
            threads.hearing.pop_front();
            return Some(heard);
        }
        let words = threads.words.get_mut(&(no, switch));
        let heard: Vec<Word> = words.map_or_else(Vec::new, |ring| ring.take(MESSAGES).collect());
        let thread = threads.runtimes.get(&no)?;
        (!heard.is_empty() || !thread.entries.is_empty()).then_some(heard)
    }
}
