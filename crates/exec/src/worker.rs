//! The loop of a worker: take commands, step nodes, park, finish.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::node::{Node, Round};
use crate::park::{IdleStrategy, Parks};

/// Rounds with work after which commands are looked for. In rounds without
/// work they always are.
const LOOK: u32 = 64;

/// A node until it is over, then its report.
enum Slot<N: Node> {
    Runs {
        node: N,
        /// A command's answer is under way.
        answers: bool,
    },
    Over(N::Report),
    /// Its `finish` failed, or is running.
    Taken,
}

impl<N: Node> Slot<N> {
    /// Has the node take commands, if it is time, and steps it. `None` where
    /// it is over.
    fn round(&mut self, look: bool) -> Result<Option<Round>, String> {
        let Slot::Runs { node, answers } = self else {
            return Ok(None);
        };
        if look || *answers {
            *answers = node.take_commands();
        }
        let mut round = node.step()?;
        round.gave |= *answers;
        if round.over {
            // At once: the next node of this worker may wait for its end.
            if let Slot::Runs { node, .. } = std::mem::replace(self, Slot::Taken) {
                *self = Slot::Over(node.finish()?);
            }
            round.worked = true;
        }
        Ok(Some(round))
    }
}

/// The nodes of one thread.
pub struct Nodes<N: Node> {
    slots: Vec<Slot<N>>,
    rounds: u32,
    /// The last round found no work.
    idle: bool,
}

impl<N: Node> Nodes<N> {
    /// These, to be stepped in this order.
    pub fn new(nodes: Vec<N>) -> Nodes<N> {
        let slots = nodes.into_iter().map(|node| Slot::Runs {
            node,
            answers: false,
        });
        Nodes {
            slots: slots.collect(),
            rounds: 0,
            idle: true,
        }
    }

    /// Has each node take commands, if it is time, and steps it. `None` once all
    /// are over.
    ///
    /// # Errors
    ///
    /// That of the first node that can't go on.
    pub fn round(&mut self) -> Result<Option<Round>, String> {
        self.rounds = self.rounds.wrapping_add(1);
        let look = self.idle || self.rounds.is_multiple_of(LOOK);
        let mut all = None;
        for slot in &mut self.slots {
            if let Some(round) = slot.round(look)? {
                all.get_or_insert_with(Round::default).add(round);
            }
        }
        self.idle = !all.is_some_and(|round| round.worked);
        Ok(all)
    }

    /// True where all are over.
    pub fn all_over(&self) -> bool {
        let over = |slot: &Slot<N>| matches!(slot, Slot::Over(_));
        self.slots.iter().all(over)
    }

    /// The reports of the nodes that are over, in the order of the nodes.
    pub fn into_reports(self) -> Vec<N::Report> {
        let reports = self.slots.into_iter().filter_map(|slot| match slot {
            Slot::Over(report) => Some(report),
            Slot::Runs { .. } | Slot::Taken => None,
        });
        reports.collect()
    }

    fn running(&mut self) -> impl Iterator<Item = &mut N> {
        self.slots.iter_mut().filter_map(|slot| match slot {
            Slot::Runs { node, .. } => Some(node),
            Slot::Over(_) | Slot::Taken => None,
        })
    }
}

impl<N: Node> Parks for Nodes<N> {
    fn prepare_park(&mut self) -> bool {
        let mut may = true;
        for node in self.running() {
            // Each is told, also behind one that must not.
            may &= node.prepare_park();
        }
        may
    }

    fn unpark(&mut self) {
        self.running().for_each(Node::unpark);
    }

    fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        for slot in &self.slots {
            if let Slot::Runs { node, .. } = slot {
                node.descriptors(into);
            }
        }
    }

    fn longest(&self) -> Duration {
        let deadline = |slot: &Slot<N>| match slot {
            Slot::Runs { node, .. } => node.longest(),
            Slot::Over(_) | Slot::Taken => Duration::MAX,
        };
        let deadlines = self.slots.iter().map(deadline);
        deadlines.min().unwrap_or(Duration::MAX)
    }
}

/// Steps nodes on the calling thread until all are over, and gives their
/// reports in their order.
///
/// # Errors
///
/// That of the first node that can't go on.
pub fn run<N: Node>(nodes: Vec<N>, mut idle: impl IdleStrategy) -> Result<Vec<N::Report>, String> {
    let mut nodes = Nodes::new(nodes);
    while let Some(round) = nodes.round()? {
        idle.after(round, &mut nodes)?;
    }
    Ok(nodes.into_reports())
}

#[cfg(test)]
mod tests {
    use rtrb::Consumer;
    use weir_io::IdlePolicy;

    use super::*;
    use crate::park::{Parker, Wakers};
    use crate::queue::{Sender, drain, queue};

    /// Passes numbers on. The end of its input is the number 0.
    struct Pass {
        input: Consumer<u64>,
        output: Option<Sender<u64>>,
        taken: Vec<u64>,
        sum: u64,
        commands: u32,
        ended: bool,
    }

    impl Pass {
        fn new(input: Consumer<u64>, output: Option<Sender<u64>>) -> Pass {
            Pass {
                input,
                output,
                taken: Vec::new(),
                sum: 0,
                commands: 0,
                ended: false,
            }
        }
    }

    impl Node for Pass {
        type Report = (u64, u32);

        fn step(&mut self) -> Result<Round, String> {
            let mut round = Round::default();
            if let Some(output) = &mut self.output
                && !output.flush()
            {
                round.blocked = true;
                return Ok(round);
            }
            round.worked = drain(&mut self.input, 2, &mut self.taken) > 0;
            self.sum += self.taken.iter().sum::<u64>();
            self.ended |= self.taken.contains(&0);
            match &mut self.output {
                Some(output) => output.extend(&mut self.taken),
                None => self.taken.clear(),
            }
            let sent = self.output.as_ref().is_none_or(|o| o.waiting() == 0);
            round.over = self.ended && sent;
            Ok(round)
        }

        fn take_commands(&mut self) -> bool {
            self.commands += 1;
            !self.commands.is_multiple_of(3)
        }

        fn finish(self) -> Result<(u64, u32), String> {
            Ok((self.sum, self.commands))
        }
    }

    fn parker() -> Parker {
        Parker::new(&Wakers::new(1).unwrap(), 0, IdlePolicy::default())
    }

    /// The second node's queue is shorter than a burst of the first, so the
    /// first blocks until the second, on the same thread, has made room.
    #[test]
    fn nodes_of_one_worker_feed_one_another_and_end_in_order() {
        let (mut source, first) = queue(64);
        let (between, second) = queue(1);
        source.extend(&mut (1..=50).rev().chain([0]).collect());
        let nodes = vec![Pass::new(first, Some(between)), Pass::new(second, None)];
        let reports = run(nodes, parker()).unwrap();
        let sums: Vec<u64> = reports.iter().map(|(sum, _)| *sum).collect();
        assert_eq!(sums, [1_275, 1_275]);
        assert!(reports.iter().all(|(_, commands)| *commands > 0));
    }

    #[test]
    fn a_worker_without_work_sleeps_and_knows_how_long() {
        /// Has nothing to do for so many steps.
        struct Quiet(u32);
        impl Node for Quiet {
            type Report = std::time::Duration;
            fn step(&mut self) -> Result<Round, String> {
                // A park that lasts its whole time is a few steps after it began.
                self.0 -= u32::from(crate::asleep() > std::time::Duration::ZERO);
                Ok(Round {
                    over: self.0 == 0,
                    ..Round::default()
                })
            }
            fn longest(&self) -> std::time::Duration {
                std::time::Duration::from_millis(5)
            }
            fn finish(self) -> Result<std::time::Duration, String> {
                Ok(crate::asleep())
            }
        }
        let began = std::time::Instant::now();
        let slept = run(vec![Quiet(1)], parker()).unwrap()[0];
        assert!(slept.as_millis() >= 4, "{slept:?}");
        assert!(slept <= began.elapsed(), "{slept:?}");
    }

    #[test]
    fn a_node_that_fails_ends_its_worker() {
        struct Broken;
        impl Node for Broken {
            type Report = ();
            fn step(&mut self) -> Result<Round, String> {
                Err("it broke".to_owned())
            }
            fn finish(self) -> Result<(), String> {
                Ok(())
            }
        }
        assert_eq!(run(vec![Broken], parker()), Err("it broke".to_owned()));
    }
}
