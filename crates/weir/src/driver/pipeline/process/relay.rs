//! Asks a stage's process, for those who ask the threads of this one: a thread
//! that sleeps until somebody does, and takes what the process has seen to those
//! who look on. Packets never wait for it.

use std::collections::VecDeque;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, poll};
use weir_api::{Message as _, v1};
use weir_io::shared::{Channel, Message};
use weir_nf::host::Stage;

use super::question::{self, Ask, SaidState, What, split};
use super::start::outside;
use crate::driver::inbox::{FlowParts, Inbox, Post, Question, Reply};
use crate::observe::{Arm, TapFeed, TraceFeed};
use weir_exec::ExecError;
use weir_exec::step_aside;

/// Messages that are heard before questions and processes have their turn.
const AT_ONCE: usize = 32;

/// The relay to one stage's process, and to those that take its place.
pub(super) struct Relay {
    post: Post,
    /// To the processes, one after another.
    links: Option<Sender<UnixStream>>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// To a stage, of a chain and a step of its plan.
    pub(super) fn start(stage: Stage, place: (usize, usize)) -> Result<Relay, ExecError> {
        let (post, inbox) = Inbox::new(true).map_err(outside)?;
        let (links, come) = channel();
        let mut clerk = Clerk::new(inbox, come, stage, place);
        let thread = std::thread::Builder::new()
            .name("relay".to_owned())
            .spawn(move || {
                step_aside();
                clerk.run();
            })
            .map_err(outside)?;
        Ok(Relay {
            post,
            links: Some(links),
            thread: Some(thread),
        })
    }

    /// Where the process is asked.
    pub(super) fn post(&self) -> Post {
        self.post.clone()
    }

    /// A way to a process that is about to be started: its end.
    pub(super) fn connect(&self) -> Result<UnixStream, ExecError> {
        let (ours, theirs) = UnixStream::pair().map_err(outside)?;
        if let Some(links) = &self.links {
            // It ends after this does.
            let _ = links.send(ours);
        }
        self.post.wake();
        Ok(theirs)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.links = None;
        self.post.wake();
        if let Some(thread) = self.thread.take() {
            // A panic of its was printed.
            drop(thread.join());
        }
    }
}

/// Receiver of an answer.
enum Then {
    Nothing,
    /// One more engine has done it.
    Count(Reply<usize>),
    States(Reply<FlowParts>),
}

/// A watch that is on.
struct Watch {
    number: u64,
    /// The command that begins it, also sent to a process that was started again.
    begin: What,
    /// Losses of processes that have ended, and of this one.
    lost: Vec<u64>,
    feed: Feed,
}

enum Feed {
    Trace(TraceFeed),
    Tap(TapFeed),
}

struct Clerk {
    inbox: Inbox,
    come: Receiver<UnixStream>,
    link: Option<Channel>,
    stage: Stage,
    place: (usize, usize),
    watches: Vec<Watch>,
    numbers: u64,
    /// To be asked. One question is under way at a time, so that there is room
    /// for it in the socket.
    waiting: VecDeque<(What, Then)>,
    asked: Option<(u64, Then)>,
}

impl Clerk {
    fn new(inbox: Inbox, come: Receiver<UnixStream>, stage: Stage, place: (usize, usize)) -> Clerk {
        Clerk {
            inbox,
            come,
            link: None,
            stage,
            place,
            watches: Vec::new(),
            numbers: 0,
            waiting: VecDeque::new(),
            asked: None,
        }
    }

    fn run(&mut self) {
        loop {
            // First, since it takes the wake-ups: processes, too, that come from here
            // on wake it again, and so does the end.
            let questions = self.inbox.all();
            loop {
                match self.come.try_recv() {
                    Ok(stream) => self.begin(stream),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
            }
            for question in questions {
                self.take(question);
            }
            let more = self.hear();
            self.ask();
            if more {
                continue;
            }
            let fds = [self.inbox.descriptor()].into_iter().flatten();
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
        self.link = Some(Channel::new(stream, question::LONGEST));
        for watch in self.watches.iter_mut().rev() {
            watch.lost.fill(0);
            self.waiting
                .push_front((watch.begin.clone(), Then::Nothing));
        }
    }

    /// The process is no more. Who waits for its answer hears that there is
    /// none.
    fn end(&mut self) {
        self.link = None;
        self.asked = None;
        self.waiting.clear();
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn take(&mut self, question: Question) {
        match question {
            // It reports its counts unasked, and the first stage has the flows.
            Question::Counts(_) | Question::Flows(..) | Question::End(..) => {}
            Question::Flow(asked, reply) if asked.chain == self.place.0 => {
                let what = What::Flow {
                    record: asked.record,
                    id: asked.id,
                };
                self.put((what, Then::States(reply)));
            }
            Question::Flow(_, reply) => drop(reply.send(FlowParts::default())),
            Question::Each(arm, reply) => {
                let what = self.watch(&arm);
                self.put((what, Then::Count(reply)));
            }
        }
    }

    /// Notes that a watch is on, or is no more.
    fn watch(&mut self, arm: &Arm) -> What {
        let number = self.number();
        let (begin, points, feed) = match arm {
            Arm::EndTrace(slot) => {
                let ended = |w: &What| matches!(w, What::Trace { slot: of, .. } if of == slot);
                self.watches.retain(|watch| !ended(&watch.begin));
                return What::EndTrace { slot: *slot };
            }
            Arm::EndTap(tap) => {
                let ended = |w: &What| matches!(w, What::Tap { tap: of, .. } if of == tap);
                self.watches.retain(|watch| !ended(&watch.begin));
                return What::EndTap { tap: *tap };
            }
            Arm::Trace(slot, trace) => {
                let begin = What::Trace {
                    watch: number,
                    slot: *slot,
                    full: trace.is_full(),
                };
                (begin, 1, Feed::Trace(trace.feed()))
            }
            Arm::Tap(tap, spec) => {
                let begin = What::tap(number, *tap, spec.spec());
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

    fn put(&mut self, (what, then): (What, Then)) {
        if self.link.is_some() {
            return self.waiting.push_back((what, then));
        }
        // It is being started: it will begin with the watches that are on.
        if let Then::Count(reply) = then {
            let _ = reply.send(1);
        }
    }

    fn ask(&mut self) {
        if self.asked.is_some() {
            return;
        }
        // A client that has gone needs no answer, but its watch must end.
        let Some((what, then)) = self.waiting.pop_front() else {
            return;
        };
        let number = self.number();
        let Some(link) = &mut self.link else { return };
        // Names, numbers and text only.
        let bytes = serde_json::to_vec(&Ask { number, what }).unwrap_or_default();
        match link.send(question::ASK, &bytes, &[], true) {
            Ok(()) => self.asked = Some((number, then)),
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
            self.ask();
        }
        true
    }

    fn understand(&mut self, message: &Message) -> Option<()> {
        let (number, rest) = split(&message.bytes)?;
        match message.kind {
            question::DONE | question::STATES => {
                let (_, then) = self.asked.take_if(|(asked, _)| *asked == number)?;
                match then {
                    Then::Nothing => {}
                    // The client may have gone.
                    Then::Count(reply) => drop(reply.send(1)),
                    Then::States(reply) => {
                        let said: Vec<SaidState> = serde_json::from_slice(rest).ok()?;
                        let states = said.into_iter();
                        let states = states.filter_map(|state| state.remembered(&self.stage));
                        let _ = reply.send(FlowParts {
                            seen: None,
                            states: states.map(|state| (self.place.1, state)).collect(),
                        });
                    }
                }
            }
            question::TRACED => {
                let (lost, part) = split(rest)?;
                // Answers of a watch that has ended are dropped.
                if let Some((Feed::Trace(feed), known)) = self.feed(number) {
                    feed.lose(more(known.first_mut(), lost));
                    if !part.is_empty() {
                        feed.put(v1::PacketTrace::decode(part).ok()?);
                    }
                }
            }
            question::TAPPED => {
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

    fn feed(&mut self, number: u64) -> Option<(&mut Feed, &mut Vec<u64>)> {
        let mut watches = self.watches.iter_mut();
        let watch = watches.find(|watch| watch.number == number)?;
        Some((&mut watch.feed, &mut watch.lost))
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
        Relay::start(stage(), (0, 1)).unwrap()
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
        let (_post, inbox) = Inbox::new(true).unwrap();
        let (_links, come) = channel();
        let mut clerk = Clerk::new(inbox, come, stage(), (0, 1));
        let (ours, theirs) = UnixStream::pair().unwrap();
        clerk.begin(ours);
        let mut answer = Channel::new(theirs, question::LONGEST);
        for _ in 0..65 {
            let told = 99u64.to_le_bytes();
            answer.send(question::TAPPED, &told, &[], true).unwrap();
        }
        assert_eq!([0; 4].map(|_| clerk.hear()), [true, true, false, false]);
        assert!(clerk.link.is_some());
    }

    #[test]
    fn a_process_that_never_stops_telling_is_asked() {
        let relay = relay();
        let mut answer = Channel::new(relay.connect().unwrap(), question::LONGEST);
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
                    let ask: Ask = serde_json::from_slice(&message.bytes).unwrap();
                    assert_eq!(ask.what, What::EndTap { tap: 7 });
                    let number = ask.number.to_le_bytes();
                    answer.send(question::DONE, &number, &[], true).unwrap();
                }
                for _ in 0..1_000 {
                    answer.send(question::TAPPED, &told, &[], true).unwrap();
                }
                let _ = begin.send(());
            }
        });
        begun.recv_timeout(LONG).unwrap();
        let (reply, mut answer) = oneshot::channel();
        let asked = Question::Each(Arm::EndTap(7), reply);
        assert!(relay.post().send(asked).is_ok());
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
