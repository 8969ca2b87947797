//! Packets from ports through threads that work on them to ports.

use std::time::{Duration, Instant};

use weir_graph::ChainFile;
use weir_io::port::{InputPort, Received};
use weir_packet::{Frame, Time};

use crate::args::Run;
use crate::control::{self, Control};
use crate::driver::inbox::{Chains, Inbox, Post, Shows, ThreadCounts};
use crate::driver::{ClusterError, Crew};
use crate::exit::Failure;

use super::input::Input;
use super::onlook::Watched;
use super::ports::{Outputs, Ports};
use super::summary::Ended;
use super::{BATCH, LOOK, progress, show};
use crate::driver::{Dispatcher, EventFile};

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
}

impl<C: Crew> Shows for Line<C> {
    fn counts(&mut self) -> ThreadCounts {
        let pool = self.crew.pool();
        ThreadCounts {
            name: "ports".to_owned(),
            frames: (pool.available() + pool.outstanding()) as u64,
            frames_free: pool.available() as u64,
            inputs: self.input.ports().map(InputPort::counters).collect(),
            outputs: self.outputs.counters(),
            refused: self.dispatcher.refused,
            ..ThreadCounts::default()
        }
    }

    fn chains(&mut self) -> Option<Chains<'_>> {
        None
    }

    fn take_events(&mut self) {}

    fn now(&self) -> Option<Time> {
        None
    }
}

pub(super) fn failure(error: ClusterError) -> Failure {
    Failure::outside(error.to_string())
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
        self.control = super::control(args, file, mode, ports, posts)?;
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
        let mut out = Vec::with_capacity(16 * BATCH);
        let mut lines = Vec::new();
        let mut batches = 0u64;
        let mut rounds = 0u64;
        let mut ended: Option<Result<(), Failure>> = None;
        loop {
            let mut read = 0;
            self.input.look();
            rounds += 1;
            if rounds.is_multiple_of(LOOK)
                && let Some(mut inbox) = self.inbox.take()
            {
                inbox.answer(self);
                self.inbox = Some(inbox);
            }
            if ended.is_none() {
                let room = self.crew.room().min(BATCH);
                if room > 0 {
                    let received = self.input.receive(self.crew.pool(), &mut input, room);
                    match received {
                        Err(error) => ended = Some(Err(Failure::outside(error.to_string()))),
                        Ok(Received::End) => ended = Some(Ok(())),
                        Ok(Received::More) => {}
                    }
                    read = input.len();
                    self.take(&mut input);
                    batches += 1;
                    if batches.is_multiple_of(1_024) {
                        show(progress, &self.input);
                    }
                }
            } else {
                self.crew.stop();
            }
            let stepped = self.crew.step(&mut out, &mut lines, read == 0);
            self.write(&mut out, &mut lines)?;
            stepped.map_err(failure)?;
            if !watched.look()? && ended.is_none() {
                ended = Some(Ok(()));
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

    /// Hands packets to the chains that take them.
    fn take(&mut self, input: &mut Vec<Frame>) {
        if self.dispatcher.is_trivial() {
            return self.crew.take(0, input);
        }
        self.dispatcher.sort(self.crew.pool(), input);
        for (chain, batch) in self.dispatcher.batches().enumerate() {
            if !batch.is_empty() {
                self.crew.take(chain, batch);
            }
        }
    }

    fn write(&mut self, out: &mut Vec<Frame>, lines: &mut Vec<u8>) -> Result<(), Failure> {
        if let Some(events) = &mut self.events {
            events.write_lines(lines)?;
        }
        lines.clear();
        self.outputs.send(self.crew.pool(), out)
    }

    fn close(&mut self) -> Result<(), Failure> {
        self.outputs.finish()?;
        match &mut self.events {
            Some(events) => events.finish(),
            None => Ok(()),
        }
    }
}
