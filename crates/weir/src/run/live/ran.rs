//! The end of a run with interfaces.

use std::fmt::Write as _;

use serde_json::{Value, json};
use weir_runtime::RuntimeConfig;

use super::super::conclude::print;
use super::super::summary::{Ended, More, Summary};
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
        sum_up(executor, &mut of_run);
        let mut kept = Ok(());
        if let Some(mut events) = events {
            of_run.more.push(Box::new(EventsLost(events.settle())));
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

/// Events that could not be written.
struct EventsLost(u64);

impl More for EventsLost {
    fn add_json(&self, value: &mut Value) {
        value["events_lost"] = json!(self.0);
    }

    fn add_text(&self, text: &mut String) {
        if self.0 > 0 {
            // Writing to a `String` can't fail.
            let _ = writeln!(text, "\n{} events could not be written", self.0);
        }
    }
}
