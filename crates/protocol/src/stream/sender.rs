//! The sending half: messages into frames, and frames again until they are
//! acknowledged.

use std::collections::VecDeque;

use weir_packet::Time;
use weir_packet::actor_frame::flags;

use super::FRAMES_IN_FLIGHT;
use super::count::{Reject, SendError};
use super::settings::StreamSettings;
use crate::rtt::RoundTrip;

/// Bytes in front of a message that shares a frame.
pub(super) const LENGTH: usize = 2;

/// A frame of data that was sent and not acknowledged with all before it.
#[derive(Debug)]
struct Flight {
    flags: u8,
    fragment: u16,
    payload: Vec<u8>,
    sent: Time,
    due: Time,
    state: FlightState,
    repeated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FlightState {
    OnItsWay,
    /// Not acknowledged in time, and not sent again yet.
    Overdue,
    /// Acknowledged, behind one that is not.
    Acknowledged,
}

/// The content of a frame to be sent.
#[derive(Debug)]
pub(super) struct Piece<'a> {
    pub(super) sequence: u64,
    pub(super) flags: u8,
    pub(super) fragment: u16,
    pub(super) payload: &'a [u8],
    pub(super) repeated: bool,
}

/// The sending half.
#[derive(Debug)]
pub(super) struct Sender {
    queue: VecDeque<Vec<u8>>,
    waiting: usize,
    /// Fragments of the queue's first message that were made.
    fragments: u16,
    /// Frames from sequence number `first` on.
    flights: VecDeque<Flight>,
    first: u64,
    /// Bytes of payload not acknowledged.
    in_flight: usize,
    overdue: usize,
    next_due: Option<Time>,
    trip: RoundTrip,
    /// Rounds of repetitions without anything new acknowledged.
    rounds: u32,
    last_round: Option<Time>,
    window: usize,
    room: usize,
    most_waiting: usize,
    longest: usize,
}

impl Sender {
    pub(super) fn new(settings: &StreamSettings) -> Sender {
        Sender {
            queue: VecDeque::new(),
            waiting: 0,
            fragments: 0,
            flights: VecDeque::new(),
            first: 1,
            in_flight: 0,
            overdue: 0,
            next_due: None,
            trip: RoundTrip::new(
                settings.round_trip,
                settings.shortest_wait,
                settings.longest_wait,
            ),
            rounds: 0,
            last_round: None,
            window: settings.window,
            room: settings.payload(),
            most_waiting: settings.queue,
            longest: settings.longest,
        }
    }

    /// Takes a message in.
    pub(super) fn push(&mut self, message: &[u8]) -> Result<(), SendError> {
        if message.len() > self.longest {
            return Err(SendError::TooLong);
        }
        // Each counts for a byte more, so that empty ones are bounded too. A
        // long one may always go alone.
        if self.waiting > 0 && self.waiting + message.len() >= self.most_waiting {
            return Err(SendError::Full);
        }
        self.waiting += message.len() + 1;
        self.queue.push_back(message.to_vec());
        Ok(())
    }

    /// The next frame's content: what is overdue first, then what waits and
    /// fits the window.
    pub(super) fn next_piece(&mut self, now: Time) -> Option<Piece<'_>> {
        let at = match self.overdue {
            0 => self.make(now)?,
            _ => self.repeat(now)?,
        };
        let flight = self.flights.get(at)?;
        Some(Piece {
            sequence: self.first + at as u64,
            flags: flight.flags,
            fragment: flight.fragment,
            payload: &flight.payload,
            repeated: flight.repeated,
        })
    }

    fn repeat(&mut self, now: Time) -> Option<usize> {
        let is_overdue = |flight: &Flight| flight.state == FlightState::Overdue;
        let at = self.flights.iter().position(is_overdue)?;
        let due = now.plus(self.trip.wait());
        let flight = self.flights.get_mut(at)?;
        flight.state = FlightState::OnItsWay;
        flight.repeated = true;
        flight.sent = now;
        flight.due = due;
        self.overdue -= 1;
        self.note_due(due);
        Some(at)
    }

    /// Makes a frame of what waits.
    fn make(&mut self, now: Time) -> Option<usize> {
        if self.flights.len() as u64 >= FRAMES_IN_FLIGHT
            || (self.in_flight > 0 && self.in_flight + self.room > self.window)
        {
            return None;
        }
        let (flags, fragment, payload) = self.fill()?;
        let due = now.plus(self.trip.wait());
        self.in_flight += payload.len();
        self.flights.push_back(Flight {
            flags,
            fragment,
            payload,
            sent: now,
            due,
            state: FlightState::OnItsWay,
            repeated: false,
        });
        self.note_due(due);
        Some(self.flights.len() - 1)
    }

    fn note_due(&mut self, due: Time) {
        self.next_due = Some(self.next_due.map_or(due, |earliest| earliest.min(due)));
    }

    /// Flags, number of the fragment, and payload of the next frame.
    fn fill(&mut self) -> Option<(u8, u16, Vec<u8>)> {
        let first = self.queue.front()?;
        if first.len() + LENGTH > self.room {
            let from = usize::from(self.fragments) * self.room;
            let rest = first.get(from..).unwrap_or(&[]);
            let piece = rest.get(..self.room).unwrap_or(rest).to_vec();
            let fragment = self.fragments;
            if rest.len() > self.room {
                self.fragments += 1;
                return Some((flags::DATA | flags::FRAGMENT, fragment, piece));
            }
            self.fragments = 0;
            self.pop();
            let last = flags::DATA | flags::FRAGMENT | flags::LAST;
            return Some((last, fragment, piece));
        }
        let mut payload = Vec::with_capacity(self.room);
        while let Some(message) = self.queue.front() {
            if payload.len() + LENGTH + message.len() > self.room {
                break;
            }
            payload.extend((message.len() as u16).to_be_bytes());
            payload.extend(message);
            self.pop();
        }
        Some((flags::DATA, 0, payload))
    }

    fn pop(&mut self) {
        if let Some(message) = self.queue.pop_front() {
            self.waiting -= message.len() + 1;
        }
    }

    /// Takes an acknowledgement; true where it acknowledges something new.
    pub(super) fn acknowledge(
        &mut self,
        now: Time,
        acknowledged: u64,
        selective: u64,
    ) -> Result<bool, Reject> {
        let behind = 64 - u64::from(selective.leading_zeros());
        let highest = match behind {
            0 => acknowledged,
            // Bit i stands for acknowledged + 2 + i.
            n => acknowledged.saturating_add(1 + n),
        };
        let end = self.first + self.flights.len() as u64;
        if highest >= end {
            return Err(Reject::Acknowledgement);
        }
        let (mut news, mut repeated, mut latest) = (false, false, None::<Time>);
        let (first, overdue, in_flight) = (self.first, &mut self.overdue, &mut self.in_flight);
        for (flight, sequence) in self.flights.iter_mut().zip(first..=highest) {
            let is_acknowledged = sequence <= acknowledged
                || (sequence >= acknowledged + 2
                    && selective >> (sequence - acknowledged - 2) & 1 == 1);
            if !is_acknowledged || flight.state == FlightState::Acknowledged {
                continue;
            }
            if flight.state == FlightState::Overdue {
                *overdue -= 1;
            }
            // An overdue frame was waited for: its answer may be late.
            repeated |= flight.repeated || flight.state == FlightState::Overdue;
            latest = Some(latest.map_or(flight.sent, |time| time.max(flight.sent)));
            *in_flight -= flight.payload.len();
            flight.state = FlightState::Acknowledged;
            flight.payload = Vec::new();
            news = true;
        }
        let is_done = |flight: &Flight| flight.state == FlightState::Acknowledged;
        while self.flights.front().is_some_and(is_done) {
            self.flights.pop_front();
            self.first += 1;
        }
        if news {
            self.rounds = 0;
            self.find_due();
        }
        // Karn: of a frame sent twice no one knows which one was answered, and
        // what a filled gap releases was waiting for the gap.
        if let (false, Some(sent)) = (repeated, latest) {
            self.trip.measure(now.since(sent));
        }
        Ok(news)
    }

    fn find_due(&mut self) {
        let waiting = |flight: &&Flight| flight.state == FlightState::OnItsWay;
        self.next_due = self
            .flights
            .iter()
            .filter(waiting)
            .map(|flight| flight.due)
            .min();
    }

    /// Marks what is overdue; true where that makes a new round.
    pub(super) fn expire(&mut self, now: Time) -> bool {
        if self.next_due.is_none_or(|due| due > now) {
            return false;
        }
        let mut round = false;
        for flight in &mut self.flights {
            if flight.state == FlightState::OnItsWay && flight.due <= now {
                flight.state = FlightState::Overdue;
                self.overdue += 1;
                // One round at most per wait: a frame sent before the last
                // round belongs to that one.
                round |= self.last_round.is_none_or(|last| flight.sent >= last);
            }
        }
        if round {
            self.last_round = Some(now);
            self.rounds += 1;
            self.trip.back_off();
        }
        self.find_due();
        round
    }

    pub(super) const fn rounds(&self) -> u32 {
        self.rounds
    }

    pub(super) const fn next_due(&self) -> Option<Time> {
        self.next_due
    }

    pub(super) fn is_idle(&self) -> bool {
        self.flights.is_empty() && self.queue.is_empty()
    }

    pub(super) const fn waiting(&self) -> usize {
        self.waiting
    }

    /// Where its books disagree, in words.
    pub(super) fn audit(&self) -> Option<String> {
        let waiting: usize = self.queue.iter().map(|message| message.len() + 1).sum();
        let says = self.waiting;
        (says != waiting).then(|| format!("{says} bytes wait, {waiting} is right"))
    }

    pub(super) const fn round_trip(&self) -> Option<u64> {
        self.trip.smoothed()
    }
}
