//! The end of a run with interfaces.

use weir_runtime::RuntimeConfig;

use super::super::conclude::print;
use super::super::events_told::EventsTold;
use super::super::summary::{Ended, Summary};
use super::super::wires::Sorted;
use crate::args::{Format, Run};
use crate::driver::EventFile;
use crate::exit::{Exit, Failure, Outcome};

/// A run with interfaces that has ended.
pub(super) struct Ran<C> {
    pub(super) executor: C,
    pub(super) sorted: Sorted,
    /// Without the reports.
    pub(super) of_run: Ended,
    /// Warnings that were printed when it began.
    pub(super) said: Vec<String>,
    pub(super) events: Option<EventFile>,
    pub(super) ended: Result<(), Failure>,
}

impl<C> Ran<C> {
    /// Sums up what the executor did, prints it, and ends as the run did.
    pub(super) fn end(
        self,
        args: &Run,
        config: RuntimeConfig,
        sum_up: impl FnOnce(C, &mut Ended),
    ) -> Outcome {
        let Ran {
            executor,
            sorted,
            mut of_run,
            said,
            events,
            ended,
        } = self;
        let ended = match ended {
            // The runtimes go on with another switch, and have the counts.
            Err(handed_over) if handed_over.exit == Exit::Done => {
                if let Some(mut events) = events {
                    events.settle();
                }
                return Err(handed_over);
            }
            ended => ended,
        };
        sum_up(executor, &mut of_run);
        let mut kept = Ok(());
        if let Some(mut events) = events {
            let lost = events.settle();
            let told = EventsTold::of(&events, Some(lost));
            of_run.more.push(Box::new(told));
            kept = events.loss();
        }
        let mut summary = Summary::of(of_run, &sorted.all(), config.seed);
        if matches!(args.output, Format::Text) {
            summary.warnings.retain(|warning| !said.contains(warning));
        }
        print(args, &sorted.all(), summary)?;
        ended?;
        kept?;
        Ok(Exit::Done)
    }
}
