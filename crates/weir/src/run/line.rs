//! Packets from ports through threads that work on them to ports.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use weir_ctl::command::{
    CommandHandler, CommandSender, CommandTarget, HandingOver, MoveUnits, Moving, Part,
    Replacement, Resize, Resizing, ThreadCounts, Visit,
};
use weir_exec::{Node, Parker, Round, Wakers, worker};
use weir_graph::ChainFile;
use weir_io::IdlePolicy;
use weir_io::port::Received;
use weir_packet::{Frame, Time};

use crate::args::Run;
use crate::driver::{
    BATCH, CHAINS, COMING, Dispatcher, EventFile, Executor, LEAVING, take_log, thread_counts,
};
use crate::exit::Failure;
use crate::service::Service;

use super::commands::command_channel;
use super::control_socket::{Control, open_control};
use super::events_told::EventsTold;
use super::input::{Input, PassedOver};
use super::onlook::Watched;
use super::ports::{Outputs, Ports};
use super::progress::{progress_bar, show_progress};
use super::summary::{Ended, More};

/// All that packets pass through on the calling thread.
pub(super) struct Line<C> {
    pub(super) executor: C,
    input: Input,
    outputs: Outputs,
    dispatcher: Dispatcher,
    events: Option<EventFile>,
    /// Away while commands are carried out.
    handler: Option<CommandHandler>,
    control: Option<Control>,
    /// It ends, as the switch hands over.
    hands_over: bool,
    // Buffers of a round, kept to save their allocation.
    out: Vec<Frame>,
    lines: Vec<u8>,
}

impl<C: Executor> CommandTarget for Line<C> {
    fn counts(&mut self) -> ThreadCounts {
        ThreadCounts {
            inputs: self.input.counters(),
            outputs: self.outputs.counters(),
            refused: self.dispatcher.refused,
            ..thread_counts(&mut self.executor)
        }
    }

    fn parts(&mut self, visit: &mut Visit<'_>) {
        self.executor.parts(&mut self.out, visit);
    }

    fn move_units(&mut self, wanted: &MoveUnits) -> Moving {
        self.executor.move_units(wanted)
    }

    fn resize(&mut self, wanted: &Resize) -> Resizing {
        self.executor.resize(wanted)
    }

    fn hand_over(&mut self) -> HandingOver {
        let answer = self.executor.hand_over();
        self.hands_over |= matches!(answer, Some(Ok(())));
        answer
    }

    fn replace(&mut self, new: &Arc<Replacement>) {
        self.executor.replace(new);
    }

    fn take_events(&mut self) {
        // Written with the next step; a failure of that ends the run.
        let lines = &mut self.lines;
        let take = &mut |part: Part<'_>| take_log(part.runtime.events(), lines);
        self.executor.parts(&mut self.out, take);
    }

    fn now(&self) -> Option<Time> {
        None
    }
}

impl<C: Executor> Line<C> {
    /// Opens the ports and files. The inputs are given: one that can't be read
    /// must show before anything is started.
    pub(super) fn open(
        executor: C,
        input: Input,
        args: &Run,
        file: &ChainFile,
        ports: &Ports,
    ) -> Result<Line<C>, Failure> {
        let events = EventFile::create(&args.events)?;
        Ok(Line {
            executor,
            input,
            outputs: ports.open_outputs()?,
            dispatcher: Dispatcher::new(file),
            events,
            handler: None,
            control: None,
            hands_over: false,
            out: Vec::with_capacity(16 * BATCH),
            lines: Vec::new(),
        })
    }

    /// Opens the control socket where one is wanted; `senders` are the executor's.
    pub(super) fn open_control(
        &mut self,
        args: &Run,
        file: &ChainFile,
        ports: &Ports,
        mode: &str,
        mut senders: Vec<CommandSender>,
    ) -> Result<(), Failure> {
        let (sender, handler) = command_channel(false)?;
        senders.push(sender);
        self.handler = Some(handler);
        self.control = open_control(args, file, mode, ports, senders, self.executor.unseen())?;
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
        let progress = progress_bar(args);
        let start = Instant::now();
        let ended = self.pump(&progress, watched)?;
        let elapsed = start.elapsed();
        self.control = None;
        progress.finish_and_clear();
        Ok((self.ended(elapsed), ended))
    }

    fn ended(&self, elapsed: Duration) -> Ended {
        let told = self.events.iter();
        let told = told.map(|events| Box::new(EventsTold::of(events, None)) as Box<dyn More>);
        let passed = Some(self.input.passed_over()).filter(|passed| *passed > 0);
        let passed = passed.map(|passed| Box::new(PassedOver(passed)) as Box<dyn More>);
        Ended {
            more: told.chain(passed).collect(),
            inputs: self.input.counters(),
            outputs: self.outputs.counters(),
            refused: self.dispatcher.refused,
            elapsed,
            ..Ended::default()
        }
    }

    /// Runs the ports' node. The inner result is that of the inputs.
    fn pump(
        &mut self,
        progress: &ProgressBar,
        watched: &mut Watched<'_>,
    ) -> Result<Result<(), Failure>, Failure> {
        let parker = self.executor.parker().map(Parker::anew);
        let alone = parker.is_none();
        let park = match parker {
            Some(park) => park,
            None => Parker::new(&Wakers::new(0)?, 0, IdlePolicy::default()),
        };
        let node = PortsNode {
            line: self,
            progress,
            watched,
            alone,
            input: Vec::with_capacity(2 * BATCH),
            batches: 0,
            service: Service::of_process(),
            ended: None,
            failed: None,
        };
        node.service.ready();
        let mut ends = worker::run(vec![node], park).map_err(Failure::outside)?;
        // One node, one report.
        ends.pop().unwrap_or(Ok(Ok(())))
    }

    /// Carries out some of the commands that wait.
    fn carry_out_commands(&mut self) {
        if let Some(mut handler) = self.handler.take() {
            handler.carry_out(self);
            self.handler = Some(handler);
        }
    }

    fn write(&mut self) -> Result<(), Failure> {
        if let Some(events) = &mut self.events {
            events.write_lines(&self.lines)?;
        }
        self.lines.clear();
        let pool = self.executor.pool();
        pool.memory().hold(&self.out, LEAVING);
        pool.set_holder(LEAVING);
        let sent = self.outputs.send(pool, &mut self.out);
        pool.set_holder(CHAINS);
        sent
    }

    fn close(&mut self) -> Result<(), Failure> {
        self.outputs.finish(self.executor.pool())?;
        match &mut self.events {
            Some(events) => events.finish(),
            None => Ok(()),
        }
    }
}

/// The ports as the node of the calling thread.
struct PortsNode<'a, 'w, C> {
    line: &'a mut Line<C>,
    progress: &'a ProgressBar,
    watched: &'a mut Watched<'w>,
    /// No other thread is to be waited for.
    alone: bool,
    input: Vec<Frame>,
    batches: u64,
    service: Service,
    /// Why reading has ended.
    ended: Option<Result<(), Failure>>,
    /// Why the run can't go on.
    failed: Option<Failure>,
}

impl<C: Executor> PortsNode<'_, '_, C> {
    /// Takes a batch in: how many packets; `None` where there is no room for one.
    fn read(&mut self) -> Option<usize> {
        let line = &mut *self.line;
        let room = match line.executor.room().min(BATCH) {
            // Room may never come again. The end needs none, and a packet of each input that was
            // read before has its frame.
            0 if line.input.is_over() => 1,
            0 => return None,
            room => room,
        };
        let pool = line.executor.pool();
        pool.set_holder(COMING);
        let received = line.input.receive(pool, &mut self.input, room);
        pool.memory().hold(&self.input, CHAINS);
        pool.set_holder(CHAINS);
        match received {
            Err(error) => self.ended = Some(Err(Failure::outside(error.to_string()))),
            Ok(Received::End) => self.ended = Some(Ok(())),
            Ok(Received::More) => {}
        }
        let read = self.input.len();
        line.dispatcher
            .hand_out(&mut line.executor, &mut self.input);
        self.batches += 1;
        if self.batches.is_multiple_of(1_024) {
            show_progress(self.progress, &line.input);
        }
        Some(read)
    }

    fn round(&mut self) -> Result<Round, Failure> {
        self.line.input.look();
        self.service.alive();
        let mut read = None;
        if self.line.hands_over && self.ended.is_none() {
            self.ended = Some(Ok(()));
        }
        match self.ended {
            None => read = self.read(),
            Some(_) => self.line.executor.stop(),
        }
        let line = &mut *self.line;
        let stepped = line.executor.step(&mut line.out, &mut line.lines);
        line.write()?;
        if stepped.is_err() {
            // Nothing else is written, also where the switch hands over.
            line.close()?;
        }
        let round = stepped?;
        if !self.watched.look()? && self.ended.is_none() {
            line.input.end();
        }
        let over = self.ended.is_some() && line.executor.is_over();
        if over {
            line.close()?;
        }
        let alone = self.alone && read != Some(0);
        Ok(Round {
            worked: round.worked || read.is_some_and(|packets| packets > 0) || alone,
            // Nobody says when packets come out of a pipe.
            blocked: round.blocked || (self.ended.is_none() && read == Some(0)),
            over,
            ..round
        })
    }
}

impl<C: Executor> Node for PortsNode<'_, '_, C> {
    /// The inner result is that of the inputs.
    type Report = Result<Result<(), Failure>, Failure>;

    fn step(&mut self) -> Result<Round, String> {
        Ok(self.round().unwrap_or_else(|failure| {
            self.failed = Some(failure);
            Round {
                over: true,
                ..Round::default()
            }
        }))
    }

    fn take_commands(&mut self) -> bool {
        self.line.carry_out_commands();
        self.line
            .handler
            .as_ref()
            .is_some_and(CommandHandler::is_busy)
    }

    fn prepare_park(&mut self) -> bool {
        self.line.executor.prepare_park()
    }

    fn unpark(&mut self) {
        self.line.executor.unpark();
    }

    fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        self.line.executor.descriptors(into);
    }

    fn finish(self) -> Result<Self::Report, String> {
        Ok(match (self.failed, self.ended) {
            (Some(failure), _) => Err(failure),
            (None, ended) => Ok(ended.unwrap_or(Ok(()))),
        })
    }
}
