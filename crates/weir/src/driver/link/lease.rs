//! The place of a run's switch, where several hosts have one: a switch waits until most agents
//! promise it the place ([`Standing`]), and keeps it while it runs ([`Lease`]).
//!
//! What decides is in [`weir_control::lease`]; here are its sockets, and the thread that asks
//! again in time.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weir_control::lease::{Ask, Contender, Stand, Tenant};
use weir_exec::ExecError;
use weir_packet::Time;
use weir_protocol::link::control::{self, Control, Head};
use weir_protocol::stream::ProcessStart;
use weir_protocol::{Key, Peer};

use super::super::clock::Clock;
use super::socket::{NETWORK, socket_for};
use super::votes::{SaidAsk, SaidTold};

/// Octets of the longest answer.
const ROOM: usize = 4 << 10;
/// Longest sleep between two looks.
const NAP: Duration = Duration::from_millis(5);
/// Longest wait until the agents are told that the place is free.
const LEAVING: Duration = Duration::from_millis(100);
/// Questions in an interval of heartbeats: the end of a lease is noticed the sooner.
const ASKS: u64 = 4;
/// Times that they are told: each may be lost.
const TOLD: usize = 3;

/// Where, and as what, a switch asks for the place.
#[derive(Clone, Debug)]
pub(crate) struct LeasePlan {
    /// The agents.
    pub(crate) voters: Vec<SocketAddr>,
    /// The cluster's key.
    pub(crate) key: Key,
    /// Name of the run.
    pub(crate) run: String,
    /// What all switches of the run have in common.
    pub(crate) kind: String,
    /// Interval of heartbeats in ns, and how many may be missing.
    pub(crate) beats: (u64, u32),
    /// A number that no other start of a switch has.
    pub(crate) start: u32,
}

/// A switch that stands by.
#[derive(Debug)]
pub(crate) struct Standing {
    plan: LeasePlan,
    contender: Contender,
    /// By voter.
    sockets: Vec<UdpSocket>,
    clock: Clock,
    number: u64,
    /// The switch that had the place last.
    before: Option<Tenant>,
    began: Instant,
}

impl LeasePlan {
    /// Length of a lease in ns: a heartbeat shorter than the silence after which a runtime is
    /// suspected, so that a switch that hears nobody stops before it starts others.
    fn length(&self) -> u64 {
        let (interval, missed) = self.beats;
        interval * u64::from(missed.saturating_sub(1).max(1))
    }
}

impl Standing {
    /// One that knows nothing yet.
    ///
    /// # Errors
    ///
    /// There is no socket.
    pub(crate) fn open(plan: LeasePlan) -> Result<Standing, ExecError> {
        let mut sockets = Vec::with_capacity(plan.voters.len());
        for agent in &plan.voters {
            let failed = |error: std::io::Error| ExecError(format!("agent {agent}: {error}"));
            let socket = socket_for(*agent).map_err(failed)?;
            socket.connect(agent).map_err(failed)?;
            socket.set_nonblocking(true).map_err(failed)?;
            sockets.push(socket);
        }
        let clock = Clock::start();
        let (interval, _) = plan.beats;
        let length = plan.length();
        let voters = plan.voters.len();
        Ok(Standing {
            contender: Contender::new(clock.now(), plan.start, voters, length, interval / ASKS),
            plan,
            sockets,
            clock,
            number: 0,
            before: None,
            began: Instant::now(),
        })
    }

    /// The switch that had the place when agents answered last.
    pub(crate) fn before(&self) -> Option<Tenant> {
        self.before
    }

    /// Since when it asks.
    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    /// The agents that have not answered lately, and how many there are.
    pub(crate) fn silent(&self) -> (Vec<SocketAddr>, usize) {
        let heard: Vec<usize> = self.contender.heard(self.clock.now()).collect();
        let silent = self.plan.voters.iter().enumerate();
        let silent = silent.filter(|(voter, _)| !heard.contains(voter));
        let silent = silent.map(|(_, agent)| *agent).collect();
        (silent, self.plan.voters.len())
    }

    /// A switch with this start is dead.
    pub(crate) fn know_dead(&mut self, start: u32) {
        self.contender.know_dead(self.clock.now(), start);
    }

    /// Asks and hears, and sleeps for a short time. True where it has the place.
    ///
    /// # Errors
    ///
    /// A switch of this name has the place that is of another kind.
    pub(crate) fn step(&mut self) -> Result<bool, ExecError> {
        let now = self.clock.now();
        if let Some(ask) = self.contender.poll(now) {
            self.send(&ask);
        }
        self.sleep();
        if let Some(kind) = self.hear() {
            return Err(ExecError(format!(
                "the switch of this name that runs has another chain file, number of places, \
                 replication, heartbeat or list of agents ({kind}) than this one ({})",
                self.plan.kind
            )));
        }
        Ok(self.contender.holds(self.clock.now()))
    }

    /// Keeps the place from now on, on a thread.
    ///
    /// # Errors
    ///
    /// There is no thread.
    pub(crate) fn keep(mut self) -> Result<Lease, ExecError> {
        let generation = match self.contender.stand() {
            Stand::Has(generation) => generation,
            _ => return Err(ExecError("the place is another switch's".to_owned())),
        };
        let shared = Arc::new(Shared {
            clock: self.clock,
            until: AtomicU64::new(0),
            lost: AtomicBool::new(false),
            leaves: AtomicBool::new(false),
            left: AtomicBool::new(false),
        });
        self.publish(&shared);
        let now = self.clock.now();
        let heard = self.contender.heard(now);
        let lease = Lease {
            shared: Arc::clone(&shared),
            start: self.plan.start,
            generation,
            before: self.before,
            heard: heard
                .filter_map(|voter| self.plan.voters.get(voter).copied())
                .collect(),
            longest: Duration::from_nanos(self.plan.length()),
        };
        let thread = std::thread::Builder::new().name("lease".to_owned());
        let keep = move || self.keep_on(&shared);
        let failed = |error| ExecError(format!("can't start a thread: {error}"));
        thread.spawn(keep).map_err(failed)?;
        Ok(lease)
    }

    fn keep_on(&mut self, shared: &Shared) {
        while !shared.leaves.load(Ordering::Acquire) {
            let now = self.clock.now();
            if let Some(ask) = self.contender.poll(now) {
                self.send(&ask);
            }
            // Another kind has it only where this one has lost it.
            let _ = self.hear();
            self.publish(shared);
            if self.contender.stand() == Stand::Lost {
                shared.lost.store(true, Ordering::Release);
                return;
            }
            self.sleep();
        }
        if let Some(ask) = self.contender.leave(self.clock.now()) {
            (0..TOLD).for_each(|_| self.send(&ask));
        }
        shared.left.store(true, Ordering::Release);
    }

    fn publish(&self, shared: &Shared) {
        let until = self.contender.until().unwrap_or(Time::ZERO);
        shared.until.store(until.0, Ordering::Release);
    }

    fn sleep(&self) {
        let next = Duration::from_nanos(self.contender.next().since(self.clock.now()));
        let nap = Timespec {
            tv_sec: 0,
            tv_nsec: i64::from(next.min(NAP).subsec_nanos()),
        };
        let sockets = self.sockets.iter();
        let mut polled: Vec<PollFd<'_>> =
            sockets.map(|its| PollFd::new(its, PollFlags::IN)).collect();
        // An error is a reason to look.
        let _ = poll(&mut polled, Some(&nap));
    }

    fn own(&self) -> ProcessStart {
        // Its generation depends on the answers.
        ProcessStart::of(Peer::Switch(0), self.plan.start)
    }

    fn send(&mut self, ask: &Ask) {
        let body = SaidAsk::octets(ask, &self.plan.run, &self.plan.kind);
        for socket in &self.sockets {
            self.number += 1;
            let head = Head {
                source: self.own(),
                destination: self.own(),
                number: self.number,
            };
            let asked = control::datagram(NETWORK, &self.plan.key, head, Control::Ask(&body));
            for datagram in asked.iter() {
                // Like a loss: it is asked again.
                let _ = socket.send(datagram);
            }
        }
    }

    /// Hears the agents. The kind of the switch that has the place, where that is another one.
    fn hear(&mut self) -> Option<String> {
        let own = self.own();
        let mut other = None;
        let mut room = [0; ROOM];
        for (voter, socket) in self.sockets.iter().enumerate() {
            // A refusal of the host is no answer.
            while let Some(length) = received(socket, &mut room) {
                let heard = control::unwrap(room.get(..length).unwrap_or(&[]));
                let heard = heard.and_then(|frame| control::read(&self.plan.key, frame));
                let Ok((head, Control::Told(body))) = heard else {
                    continue;
                };
                let Some((told, kind)) = SaidTold::read(body).filter(|_| head.destination == own)
                else {
                    continue;
                };
                self.contender.hear(self.clock.now(), voter, told);
                let Some(tenant) = told.by.filter(|by| by.start != self.plan.start) else {
                    continue;
                };
                let newer = |before: &Tenant| before.generation <= tenant.generation;
                if self.before.as_ref().is_none_or(newer) {
                    self.before = Some(tenant);
                }
                if kind != self.plan.kind {
                    other = Some(kind);
                }
            }
        }
        other
    }
}

/// Length of the next datagram that is there.
fn received(socket: &UdpSocket, room: &mut [u8]) -> Option<usize> {
    loop {
        match socket.recv(room) {
            Ok(length) => return Some(length),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return None,
            // A host says that nobody is there, of an earlier question.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {}
            Err(_) => return None,
        }
    }
}

#[derive(Debug)]
struct Shared {
    clock: Clock,
    /// When the lease ends, in ns of the clock.
    until: AtomicU64,
    /// Another switch has the place, or may have it.
    lost: AtomicBool,
    leaves: AtomicBool,
    left: AtomicBool,
}

/// The place of the run's switch, as long as most agents say so.
#[derive(Clone, Debug)]
pub struct Lease {
    shared: Arc<Shared>,
    start: u32,
    generation: u16,
    before: Option<Tenant>,
    heard: Vec<SocketAddr>,
    longest: Duration,
}

impl Lease {
    /// The number of this switch's start.
    pub(crate) fn start(&self) -> u32 {
        self.start
    }

    /// Another switch had the place before.
    pub(crate) fn takes_over(&self) -> bool {
        self.before.is_some()
    }

    /// Generation of this switch.
    pub(super) fn generation(&self) -> u16 {
        self.generation
    }

    /// The start of the switch before, which has the place no more.
    pub(super) fn before(&self) -> Option<u32> {
        self.before.map(|tenant| tenant.start)
    }

    /// Agents that had answered when this one got the place.
    pub(super) fn heard(&self) -> &[SocketAddr] {
        &self.heard
    }

    /// The switch may go on at this moment.
    fn holds(&self) -> bool {
        self.shared.clock.now().0 < self.shared.until.load(Ordering::Acquire)
    }

    /// Returns while the switch may go on; where its lease has run out, waits until the agents
    /// have renewed it, for the length of another one at most.
    ///
    /// # Errors
    ///
    /// Another switch may have the place.
    pub(in super::super) fn go_on(&self) -> Result<(), &'static str> {
        if self.holds() {
            return Ok(());
        }
        let until = Instant::now() + self.longest;
        while !self.shared.lost.load(Ordering::Acquire) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
            if self.holds() {
                return Ok(());
            }
        }
        Err("most agents have not confirmed in time that this is still the switch")
    }

    /// Gives the place up: another switch may have it at once.
    pub(in super::super) fn leave(&self) {
        self.shared.leaves.store(true, Ordering::Release);
        let until = Instant::now() + LEAVING;
        while !self.shared.left.load(Ordering::Acquire) && Instant::now() < until {
            if self.shared.lost.load(Ordering::Acquire) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
