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
use crate::driver::cluster::ClusterError;
use crate::driver::inbox::{FlowParts, Inbox, Post, Question, Reply};
use crate::driver::step_aside;
use crate::watch::{Arm, TapFeed, TraceFeed};

/// The relay to one stage's process, and to those that take its place.
pub(super) struct Relay {
    post: Post,
    /// To the processes, one after another.
    links: Option<Sender<UnixStream>>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// To a stage, of a chain and a step of its plan.
    pub(super) fn start(stage: Stage, place: (usize, usize)) -> Result<Relay, ClusterError> {
        let (post, inbox) = Inbox::new(true).map_err(outside)?;
        let (links, come) = channel();
        let mut clerk = Clerk {
            inbox,
            come,
            link: None,
            stage,
            place,
            watches: Vec::new(),
            numbers: 0,
            waiting: VecDeque::new(),
            asked: None,
        };
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
    pub(super) fn connect(&self) -> Result<UnixStream, ClusterError> {
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

/// What is done with an answer.
enum Then {
    Nothing,
    /// One more engine has done it.
    Count(Reply<usize>),
    States(Reply<FlowParts>),
}

/// A watch that is on.
struct Watch {
    number: u64,
    /// What begins it, also in a process that takes the place of one.
    begin: What,
    /// What was lost in processes that are no more, and in this one.
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
    fn run(&mut self) {
        loop {
            match self.come.try_recv() {
                Ok(stream) => self.begin(stream),
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => return,
            }
            for question in self.inbox.all() {
                self.take(question);
            }
            self.hear();
            self.ask();
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
            // What it counts it says by itself, and the first stage has the
            // flows.
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
        // Whoever has gone meanwhile needs no answer; but what ends a watch is
        // done all the same.
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

    fn hear(&mut self) {
        while let Some(link) = &mut self.link {
            match link.receive(false) {
                Ok(Some(message)) => {
                    // A trusted one says what makes sense, or it is no more.
                    if self.understand(&message).is_none() {
                        self.end();
                    }
                }
                Ok(None) if !link.has_ended() => return,
                Ok(None) | Err(_) => self.end(),
            }
            self.ask();
        }
    }

    fn understand(&mut self, message: &Message) -> Option<()> {
        let (number, rest) = split(&message.bytes)?;
        match message.kind {
            question::DONE | question::STATES => {
                let (_, then) = self.asked.take_if(|(asked, _)| *asked == number)?;
                match then {
                    Then::Nothing => {}
                    // Who has asked may be gone.
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
                // What comes of a watch that has ended since is for nobody.
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
