//! Packets from ports through threads that work on them to ports.

use std::time::{Duration, Instant};

use weir_graph::ChainFile;
use weir_io::port::{InputPort, Received};
use weir_packet::{Frame, Time};

use crate::Outcome;
use crate::args::Run;
use crate::control::{self, Control};
use crate::driver::inbox::{Inbox, Post, Shows, ThreadCounts};
use crate::driver::{
    CHAINS, COMING, Crew, Dispatcher, EventFile, ExecError, LEAVING, Part, Visit, take_log,
};
use crate::exit::{Exit, Failure};

use super::input::Input;
use super::onlook::Watched;
use super::ports::{Outputs, Ports};
use super::summary::{Ended, Summary};
use super::{BATCH, LOOK, print, progress, show};

/// All that packets pass through on the calling thread.
pub(super) struct Line<C> {
    pub(super) crew: C,
    input: Input,
    outputs: Outputs,
    dispatcher: Dispatcher,
    events: Option<EventFile>,
    /// Away while it is answered.
    inbox: Option<Inbox>,
    control: Option<Control>,
    // What a round needs, kept to save its allocation.
    out: Vec<Frame>,
    lines: Vec<u8>,
}

impl<C: Crew> Shows for Line<C> {
    fn counts(&mut self) -> ThreadCounts {
        ThreadCounts {
            inputs: self.input.ports().map(InputPort::counters).collect(),
            outputs: self.outputs.counters(),
            refused: self.dispatcher.refused,
            ..ThreadCounts::of(&mut self.crew)
        }
    }

    fn parts(&mut self, visit: &mut Visit<'_>) {
        self.crew.parts(&mut self.out, visit);
    }

    fn take_events(&mut self) {
        // Written with the next step; a failure of that ends the run.
        let lines = &mut self.lines;
        let take = &mut |part: Part<'_>| take_log(part.runtime.events(), lines);
        self.crew.parts(&mut self.out, take);
    }

    fn now(&self) -> Option<Time> {
        None
    }
}

pub(super) fn failure(error: ExecError) -> Failure {
    Failure::outside(error.to_string())
}

/// Prints what a run did that has been summed up, unless somebody looks on, and
/// ends as it did.
pub(super) fn conclude(
    args: &Run,
    ports: &Ports,
    of_run: Ended,
    ended: Result<(), Failure>,
    seed: u64,
    watched: &mut Watched<'_>,
) -> Outcome {
    if watched.is_on() {
        watched.look()?;
    } else {
        print(args, ports, Summary::of(of_run, ports, seed))?;
    }
    ended?;
    Ok(Exit::Done)
}

impl<C: Crew> Line<C> {
    /// Opens the ports and files. The inputs are given: one that can't be read
    /// must show before anything is started.
    pub(super) fn open(
        crew: C,
        input: Input,
        args: &Run,
        file: &ChainFile,
        ports: &Ports,
    ) -> Result<Line<C>, Failure> {
        let events = args.events.as_deref().map(EventFile::create).transpose()?;
        Ok(Line {
            crew,
            input,
            outputs: ports.open_outputs()?,
            dispatcher: Dispatcher::new(file),
            events,
            inbox: None,
            control: None,
            out: Vec::with_capacity(16 * BATCH),
            lines: Vec::new(),
        })
    }

    /// Opens the control socket where one is wanted; `posts` are the crew's.
    pub(super) fn be_asked(
        &mut self,
        args: &Run,
        file: &ChainFile,
        ports: &Ports,
        mode: &str,
        mut posts: Vec<Post>,
    ) -> Result<(), Failure> {
        let (post, inbox) = control::inbox(false)?;
        posts.push(post);
        self.inbox = Some(inbox);
        self.control = super::control(args, file, mode, ports, posts, self.crew.unseen())?;
        Ok(())
    }

    /// Moves packets until the inputs have ended, all of them are out and all
    /// threads are over. Gives what is to be summed up, without the reports,
    /// and how the run ended.
    pub(super) fn drive(
        &mut self,
        args: &Run,
        watched: &mut Watched<'_>,
    ) -> Result<(Ended, Result<(), Failure>), Failure> {
        let progress = progress(args);
        let start = Instant::now();
        let ended = self.pump(&progress, watched)?;
        let elapsed = start.elapsed();
        self.control = None;
        progress.finish_and_clear();
        Ok((self.ended(elapsed), ended))
    }

    fn ended(&self, elapsed: Duration) -> Ended {
        Ended {
            reports: Vec::new(),
            inputs: self.input.ports().map(InputPort::counters).collect(),
            outputs: self.outputs.counters(),
            refused: self.dispatcher.refused,
            elapsed,
            more: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// The inner result is that of the inputs.
    fn pump(
        &mut self,
        progress: &indicatif::ProgressBar,
        watched: &mut Watched<'_>,
    ) -> Result<Result<(), Failure>, Failure> {
        let mut input = Vec::with_capacity(2 * BATCH);
        let mut batches = 0u64;
        let mut rounds = 0u64;
        let mut ended: Option<Result<(), Failure>> = None;
        loop {
            let mut read = 0;
            self.input.look();
            rounds += 1;
            if rounds.is_multiple_of(LOOK) || self.inbox.as_ref().is_some_and(Inbox::is_busy) {
                self.answer();
            }
            if ended.is_none() {
                let room = self.crew.room().min(BATCH);
                if room > 0 {
                    let pool = self.crew.pool();
                    pool.set_holder(COMING);
                    let received = self.input.receive(pool, &mut input, room);
                    pool.memory().hold(&input, CHAINS);
                    pool.set_holder(CHAINS);
                    match received {
                        Err(error) => ended = Some(Err(Failure::outside(error.to_string()))),
                        Ok(Received::End) => ended = Some(Ok(())),
                        Ok(Received::More) => {}
                    }
                    read = input.len();
                    self.dispatcher.hand_out(&mut self.crew, &mut input);
                    batches += 1;
                    if batches.is_multiple_of(1_024) {
                        show(progress, &self.input);
                    }
                }
            } else {
                self.crew.stop();
            }
            let stepped = self.crew.step(&mut self.out, &mut self.lines, read == 0);
            self.write()?;
            stepped.map_err(failure)?;
            if !watched.look()? && ended.is_none() {
                self.input.end();
            }
            if let Some(why) = &ended
                && self.crew.is_over()
            {
                let why = why.clone();
                self.close()?;
                return Ok(why);
            }
        }
    }

    /// Answers what is asked, or a part of it.
    fn answer(&mut self) {
        if let Some(mut inbox) = self.inbox.take() {
            inbox.answer(self);
            self.inbox = Some(inbox);
        }
    }

    fn write(&mut self) -> Result<(), Failure> {
        if let Some(events) = &mut self.events {
            events.write_lines(&self.lines)?;
        }
        self.lines.clear();
        let pool = self.crew.pool();
        pool.memory().hold(&self.out, LEAVING);
        pool.set_holder(LEAVING);
        let sent = self.outputs.send(pool, &mut self.out);
        pool.set_holder(CHAINS);
        sent
    }

    fn close(&mut self) -> Result<(), Failure> {
        self.outputs.finish(self.crew.pool())?;
        match &mut self.events {
            Some(events) => events.finish(),
            None => Ok(()),
        }
    }
}
