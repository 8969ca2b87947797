//! Commands to the engines of a process, in the main process.
//!
//! A thread sleeps until a command comes, writes it to the process's socket, and
//! passes on replies and what watches saw. Packets never wait for it.

use std::collections::VecDeque;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, poll};
use weir_api::{Message as _, v1};
use weir_ctl::command::{
    Command, CommandSender, Comparing, Counted, Ended, FlowParts, FlowsFound, PartReport, Reply,
    ThreadCounts,
};
use weir_ctl::observe::{Arm, TapFeed, TraceFeed};
use weir_ctl::sets::{SetChange, What};
use weir_io::shared::{Channel, Message};
use weir_nf::Sets;
use weir_nf::host::Stage;
use weir_packet::AddressSet;

use super::command_wire::{
    self, NumberedCommand, Traced, WireCommand, WireReply, flows_command, split,
};
use super::start::outside;
use weir_exec::{CommandReceiver, ExecError, command_channel, step_aside};

/// Messages read before commands and new processes have their turn.
const AT_ONCE: usize = 32;

/// The engines of a process.
pub(in super::super) enum Engines {
    /// Stage `place.1` of chain `place.0`, a later one: it has no flow table, and sends its
    /// counts unasked.
    Stage(Stage, (usize, usize)),
    /// A runtime with these chains, in the order of the file; its name for people.
    Runtime(String, Vec<Stage>),
}

impl Engines {
    /// The stage that an engine of a chain runs, with its number there.
    fn of_chain(&self, chain: usize) -> Option<(usize, &Stage)> {
        match self {
            Engines::Stage(stage, place) => (place.0 == chain).then_some((place.1, stage)),
            Engines::Runtime(_, stages) => Some((0, stages.get(chain)?)),
        }
    }

    /// What one of them says, for people.
    fn said(&self, what: &str) -> String {
        match self {
            Engines::Runtime(name, _) => format!("{name}: {what}"),
            Engines::Stage(stage, _) => format!("a stage of {}: {what}", stage.chain),
        }
    }

    /// The sets into which they look.
    fn sets(&self) -> Sets {
        let stage = match self {
            Engines::Stage(stage, _) => Some(stage),
            Engines::Runtime(_, stages) => stages.first(),
        };
        stage.map(|stage| stage.sets.clone()).unwrap_or_default()
    }

    fn are_whole(&self) -> bool {
        matches!(self, Engines::Runtime(..))
    }
}

/// The relay to one process, and to those that take its place.
pub(in super::super) struct Relay {
    sender: CommandSender,
    /// To the processes, one after another.
    links: Option<Sender<UnixStream>>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// To a process with these engines.
    ///
    /// # Errors
    ///
    /// No thread or descriptor is left.
    pub(in super::super) fn start(engines: Engines) -> Result<Relay, ExecError> {
        let (sender, receiver) = command_channel(true).map_err(outside)?;
        let (links, come) = channel();
        let mut relay = RelayThread::new(receiver, come, engines);
        let thread = std::thread::Builder::new()
            .name("relay".to_owned())
            .spawn(move || {
                step_aside();
                relay.run();
            })
            .map_err(outside)?;
        Ok(Relay {
            sender,
            links: Some(links),
            thread: Some(thread),
        })
    }

    /// Commands to the process.
    pub(in super::super) fn command_sender(&self) -> CommandSender {
        self.sender.clone()
    }

    /// A way to a process that is about to be started: its end.
    pub(in super::super) fn connect(&self) -> Result<UnixStream, ExecError> {
        self.later().connect()
    }

    /// The same for a process that may take long to start: until the way is there, callers are
    /// answered as by one that has ended.
    pub(in super::super) fn later(&self) -> RelayWay {
        RelayWay {
            links: self.links.clone(),
            sender: self.sender.clone(),
        }
    }
}

/// A way to a process, to be made when it is there. The relay's end waits for it.
pub(in super::super) struct RelayWay {
    /// Until this is dropped.
    links: Option<Sender<UnixStream>>,
    sender: CommandSender,
}

impl RelayWay {
    /// The process's end.
    ///
    /// # Errors
    ///
    /// No descriptor is left.
    pub(in super::super) fn connect(self) -> Result<UnixStream, ExecError> {
        let (ours, theirs) = UnixStream::pair().map_err(outside)?;
        if let Some(links) = &self.links {
            // It ends after this does.
            let _ = links.send(ours);
        }
        Ok(theirs)
    }
}

impl Drop for RelayWay {
    /// The relay looks at what has come, or ends if it waited for this alone.
    fn drop(&mut self) {
        self.links = None;
        self.sender.wake();
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.links = None;
        self.sender.wake();
        if let Some(thread) = self.thread.take() {
            // A panic of its was printed.
            drop(thread.join());
        }
    }
}

/// The receiver of a reply.
enum Then {
    Nothing,
    Engines(Reply<usize>),
    Counts(Reply<ThreadCounts>),
    Flows(Reply<FlowsFound>),
    /// Of a flow of this chain.
    Flow(usize, Reply<FlowParts>),
    Ended(Reply<Option<Ended>>),
    Compared(Reply<Comparing>),
    Prepared(Reply<Result<(), String>>),
    /// A set has changed.
    Set(Reply<Result<(), String>>),
    /// A set of this number may be as it was loaded, or else it is told whole.
    SetBegun(usize),
}

/// A watch that is on.
struct Watch {
    number: u64,
    /// The command that begins it, also sent to a process that was started again.
    begin: WireCommand,
    /// Losses of processes that have ended, and of this one.
    lost: Vec<u64>,
    feed: Feed,
}

enum Feed {
    Trace(TraceFeed),
    Tap(TapFeed),
}

struct RelayThread {
    receiver: CommandReceiver<Command>,
    come: Receiver<UnixStream>,
    link: Option<Channel>,
    engines: Engines,
    watches: Vec<Watch>,
    numbers: u64,
    /// Commands to be sent. One is under way at a time, so that there is room for it
    /// in the socket.
    waiting: VecDeque<(WireCommand, Then)>,
    under_way: Option<(u64, Then)>,
}

impl RelayThread {
    fn new(
        receiver: CommandReceiver<Command>,
        come: Receiver<UnixStream>,
        engines: Engines,
    ) -> RelayThread {
        RelayThread {
            receiver,
            come,
            link: None,
            engines,
            watches: Vec::new(),
            numbers: 0,
            waiting: VecDeque::new(),
            under_way: None,
        }
    }

    fn run(&mut self) {
        loop {
            // First, since it takes the wake-ups: processes, too, that come from here
            // on wake it again, and so does the end.
            let commands = self.receiver.take_all();
            loop {
                match self.come.try_recv() {
                    Ok(stream) => self.begin(stream),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
            }
            for command in commands {
                self.take(command);
            }
            let more = self.hear();
            self.send_next();
            if more {
                continue;
            }
            let fds = [self.receiver.descriptor()].into_iter().flatten();
            let mut polled: Vec<PollFd<'_>> = fds
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
                .collect();
            polled.extend(self.link.iter().map(|l| PollFd::new(l, PollFlags::IN)));
            // An error is a reason to look, as a signal is.
            let _ = poll(&mut polled, None);
        }
    }

    /// A new process: it begins with the watches that are on.
    fn begin(&mut self, stream: UnixStream) {
        self.end();
        self.link = Some(Channel::new(stream, command_wire::LONGEST));
        for watch in self.watches.iter_mut().rev() {
            watch.lost.fill(0);
            self.waiting
                .push_front((watch.begin.clone(), Then::Nothing));
        }
        self.tell_sets(SetChange::first);
    }

    /// Tells the process of all sets.
    fn tell_sets(&mut self, of: fn(usize, &AddressSet) -> Vec<SetChange>) {
        for (number, named) in self.engines.sets().iter().enumerate() {
            for change in of(number, &named.set) {
                let then = match change.what {
                    What::AsLoaded => Then::SetBegun(number),
                    _ => Then::Nothing,
                };
                self.waiting.push_back((set_command(&change), then));
            }
        }
    }

    /// The process is no more. Callers that wait for its reply get none.
    fn end(&mut self) {
        self.link = None;
        self.under_way = None;
        self.waiting.clear();
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn take(&mut self, command: Command) {
        let whole = self.engines.are_whole();
        match command {
            // The first stage has the flows.
            Command::Counts(_) | Command::Flows(..) | Command::End(..) if !whole => {}
            Command::Counts(reply) => self.put((WireCommand::Counts, Then::Counts(reply))),
            Command::Flows(query, reply) => {
                self.put((flows_command(&query), Then::Flows(reply)));
            }
            Command::End(filter, reply) => {
                let filter = filter.to_string();
                self.put((WireCommand::End { filter }, Then::Ended(reply)));
            }
            Command::Flow(query, reply) if self.engines.of_chain(query.chain).is_some() => {
                let what = WireCommand::Flow {
                    chain: query.chain,
                    record: query.record,
                    id: query.id,
                };
                self.put((what, Then::Flow(query.chain, reply)));
            }
            Command::Flow(_, reply) => drop(reply.send(FlowParts::default())),
            // Only the switch moves units, and has runtimes come and go.
            Command::Move(_, reply) => drop(reply.send(None)),
            Command::Compare(_, reply) if !whole => drop(reply.send(None)),
            Command::Compare(begin, reply) => {
                self.put((WireCommand::Compare { begin }, Then::Compared(reply)));
            }
            Command::Resize(_, reply) => drop(reply.send(None)),
            Command::HandOver(reply) => drop(reply.send(None)),
            // One that is being started reads the files as they are.
            Command::Prepare(_, reply) if self.link.is_none() => drop(reply.send(Ok(()))),
            Command::Prepare(digest, reply) => {
                self.put((WireCommand::Prepare { digest }, Then::Prepared(reply)));
            }
            Command::Replace(_, reply) if self.link.is_none() => drop(reply.send(0)),
            Command::Replace(new, reply) => {
                let digest = new.digest();
                self.put((WireCommand::Replace { digest }, Then::Engines(reply)));
            }
            // One that is being started is told what is in the sets when it is there.
            Command::Sets(_, reply) if self.link.is_none() => drop(reply.send(Ok(()))),
            Command::Sets(None, reply) => {
                self.tell_sets(SetChange::whole);
                drop(reply.send(Ok(())));
            }
            Command::Sets(Some(change), reply) => {
                self.put((set_command(&change), Then::Set(reply)));
            }
            Command::Each(arm, reply) => {
                let what = self.watch(&arm);
                self.put((what, Then::Engines(reply)));
            }
        }
    }

    /// Notes that a watch is on, or is no more.
    fn watch(&mut self, arm: &Arm) -> WireCommand {
        let number = self.number();
        let (begin, points, feed) = match arm {
            Arm::EndTrace(slot) => {
                let ended = |w: &WireCommand| matches!(w, WireCommand::Trace { slot: of, .. } if of == slot);
                self.watches.retain(|watch| !ended(&watch.begin));
                return WireCommand::EndTrace { slot: *slot };
            }
            Arm::EndTap(tap) => {
                let ended =
                    |w: &WireCommand| matches!(w, WireCommand::Tap { tap: of, .. } if of == tap);
                self.watches.retain(|watch| !ended(&watch.begin));
                return WireCommand::EndTap { tap: *tap };
            }
            Arm::Trace(slot, trace) => {
                let spec = trace.spec();
                let begin = WireCommand::Trace {
                    watch: number,
                    slot: *slot,
                    full: spec.full,
                    of: self.engines.are_whole().then(|| Traced::of(spec)),
                };
                (begin, 1, Feed::Trace(trace.feed()))
            }
            Arm::Tap(tap, spec) => {
                let begin = WireCommand::tap(number, *tap, spec.spec());
                let points = spec.spec().points.len();
                (begin, points, Feed::Tap(spec.feed()))
            }
        };
        self.watches.push(Watch {
            number,
            begin: begin.clone(),
            lost: vec![0; points],
            feed,
        });
        begin
    }

    fn put(&mut self, (command, then): (WireCommand, Then)) {
        if self.link.is_some() {
            return self.waiting.push_back((command, then));
        }
        // It is being started: it will begin with the watches that are on.
        if let Then::Engines(reply) = then {
            let _ = reply.send(1);
        }
    }

    fn send_next(&mut self) {
        if self.under_way.is_some() {
            return;
        }
        // A command is sent also if its caller has gone: it may end a watch.
        let Some((command, then)) = self.waiting.pop_front() else {
            return;
        };
        let number = self.number();
        let Some(link) = &mut self.link else { return };
        // Names, numbers and text only.
        let bytes = serde_json::to_vec(&NumberedCommand { number, command }).unwrap_or_default();
        match link.send(command_wire::COMMAND, &bytes, &[], true) {
            Ok(()) => self.under_way = Some((number, then)),
            Err(_) => self.end(),
        }
    }

    /// Hears what has come: true where there may be more. A process that tells
    /// faster than it is heard keeps nobody waiting.
    fn hear(&mut self) -> bool {
        for _ in 0..AT_ONCE {
            let Some(link) = &mut self.link else {
                return false;
            };
            match link.receive(false) {
                Ok(Some(message)) => {
                    // A trusted one says what makes sense, or it is no more.
                    if self.understand(&message).is_none() {
                        self.end();
                    }
                }
                Ok(None) if !link.has_ended() => return false,
                Ok(None) | Err(_) => self.end(),
            }
            self.send_next();
        }
        true
    }

    fn understand(&mut self, message: &Message) -> Option<()> {
        let (number, rest) = split(&message.bytes)?;
        match message.kind {
            command_wire::DONE => {
                let (_, then) = self.under_way.take_if(|(sent, _)| *sent == number)?;
                self.answer(then, serde_json::from_slice(rest).ok()?)?;
            }
            command_wire::TRACED => {
                let (lost, part) = split(rest)?;
                // Answers of a watch that has ended are dropped.
                if let Some((Feed::Trace(feed), known)) = self.feed(number) {
                    feed.lose(more(known.first_mut(), lost));
                    if !part.is_empty() {
                        feed.put(v1::PacketTrace::decode(part).ok()?);
                    }
                }
            }
            command_wire::TAPPED => {
                let said = v1::TappedPackets::decode(rest).ok()?;
                if let Some((Feed::Tap(feed), known)) = self.feed(number) {
                    for (point, lost) in said.lost_by_point.into_iter().enumerate() {
                        feed.lose(point, more(known.get_mut(point), lost));
                    }
                    for packet in said.packets {
                        feed.put(packet);
                    }
                }
            }
            _ => return None,
        }
        Some(())
    }

    /// Passes a reply on; its caller may have gone. `None` where it is that of another
    /// command.
    fn answer(&mut self, then: Then, reply: WireReply) -> Option<()> {
        match (then, reply) {
            (Then::Nothing, _) => {}
            (Then::Engines(to), WireReply::Engines(count)) => drop(to.send(count)),
            (Then::Counts(to), WireReply::Counts(process, said)) => {
                let reports = said.into_iter().filter_map(|(chain, said)| {
                    let (number, stage) = self.engines.of_chain(chain)?;
                    Some(PartReport {
                        chain,
                        part: Counted::Stage(number),
                        report: said.report(stage),
                    })
                });
                let name = match &self.engines {
                    Engines::Runtime(name, _) => name.clone(),
                    Engines::Stage(stage, _) => stage.chain.clone(),
                };
                let _ = to.send(ThreadCounts {
                    name,
                    process,
                    reports: reports.collect(),
                    ..ThreadCounts::default()
                });
            }
            (Then::Flows(to), WireReply::Flows(said)) => drop(to.send(said.found())),
            (Then::Flow(chain, to), WireReply::Flow(said)) => {
                let stage = self.engines.of_chain(chain)?;
                let _ = to.send(said.parts(stage));
            }
            (Then::Prepared(to), WireReply::Prepared(result))
            | (Then::Set(to), WireReply::Set(result)) => {
                let _ = to.send(result.map_err(|why| self.engines.said(&why)));
            }
            (Then::SetBegun(_), WireReply::Set(Ok(()))) => {}
            // It has outlived another main process.
            (Then::SetBegun(number), WireReply::Set(Err(_))) => {
                let sets = self.engines.sets();
                let whole = sets.get(number).map(|of| SetChange::whole(number, &of.set));
                for change in whole.into_iter().flatten().rev() {
                    self.waiting
                        .push_front((set_command(&change), Then::Nothing));
                }
            }
            // Its caller is told that it is not there.
            (then, WireReply::Unknown) => drop(then),
            (Then::Compared(to), WireReply::Compared(found)) => {
                let _ = to.send(found.map(Into::into));
            }
            (Then::Ended(to), WireReply::Ended(ended)) => {
                let _ = to.send(ended.map(Ended::from_parts));
            }
            _ => return None,
        }
        Some(())
    }

    fn feed(&mut self, number: u64) -> Option<(&mut Feed, &mut Vec<u64>)> {
        let mut watches = self.watches.iter_mut();
        let watch = watches.find(|watch| watch.number == number)?;
        Some((&mut watch.feed, &mut watch.lost))
    }
}

fn set_command(change: &SetChange) -> WireCommand {
    WireCommand::Set {
        change: change.encode(),
    }
}

/// How much a count has grown.
fn more(known: Option<&mut u64>, now: u64) -> u64 {
    known.map_or(0, |known| now.saturating_sub(std::mem::replace(known, now)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    use tokio::sync::oneshot;
    use weir_functions::nop::Nop;
    use weir_runtime::harness::Harness;

    use super::*;

    /// Much longer than anything takes here.
    const LONG: Duration = Duration::from_secs(60);

    fn stage() -> Stage {
        let builder = Harness::builder().with::<Nop>(Default::default()).unwrap();
        builder.stage()
    }

    fn relay() -> Relay {
        Relay::start(Engines::Stage(stage(), (0, 1))).unwrap()
    }

    #[test]
    fn it_ends_whenever_it_is_told() {
        let (done, ended) = channel();
        std::thread::spawn(move || {
            for _ in 0..2_000 {
                let relay = relay();
                drop(relay.connect().unwrap());
                drop(relay);
            }
            done.send(()).unwrap();
        });
        ended.recv_timeout(LONG).expect("a thread sleeps for ever");
    }

    #[test]
    fn so_many_messages_are_heard_at_once() {
        let (_post, receiver) = command_channel(true).unwrap();
        let (_links, come) = channel();
        let mut relay = RelayThread::new(receiver, come, Engines::Stage(stage(), (0, 1)));
        let (ours, theirs) = UnixStream::pair().unwrap();
        relay.begin(ours);
        let mut answer = Channel::new(theirs, command_wire::LONGEST);
        for _ in 0..65 {
            let told = 99u64.to_le_bytes();
            answer.send(command_wire::TAPPED, &told, &[], true).unwrap();
        }
        assert_eq!([0; 4].map(|_| relay.hear()), [true, true, false, false]);
        assert!(relay.link.is_some());
    }

    #[test]
    fn a_process_that_never_stops_telling_is_asked() {
        let relay = relay();
        let mut answer = Channel::new(relay.connect().unwrap(), command_wire::LONGEST);
        // To be heard takes longer than to be said.
        let said = v1::TappedPackets {
            packets: vec![v1::Tapped::default(); 500],
            lost_by_point: Vec::new(),
        };
        let told = [&99u64.to_le_bytes()[..], &said.encode_to_vec()].concat();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let (begin, begun) = channel();
        let process = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                while let Some(message) = answer.receive(false).unwrap() {
                    let ask: NumberedCommand = serde_json::from_slice(&message.bytes).unwrap();
                    assert_eq!(ask.command, WireCommand::EndTap { tap: 7 });
                    let number = ask.number.to_le_bytes();
                    let reply = serde_json::to_vec(&WireReply::Engines(1)).unwrap();
                    let done = [&number[..], &reply].concat();
                    answer.send(command_wire::DONE, &done, &[], true).unwrap();
                }
                for _ in 0..1_000 {
                    answer.send(command_wire::TAPPED, &told, &[], true).unwrap();
                }
                let _ = begin.send(());
            }
        });
        begun.recv_timeout(LONG).unwrap();
        let (reply, mut answer) = oneshot::channel();
        let command = Command::Each(Arm::EndTap(7), reply);
        assert!(relay.command_sender().send(command).is_ok());
        let began = Instant::now();
        let mut answered = answer.try_recv();
        while answered.is_err() && began.elapsed() < LONG / 4 {
            std::thread::sleep(Duration::from_millis(1));
            answered = answer.try_recv();
        }
        stop.store(true, Ordering::Relaxed);
        process.join().unwrap();
        assert_eq!(answered, Ok(1));
    }
}
