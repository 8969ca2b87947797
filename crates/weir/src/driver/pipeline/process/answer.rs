//! Where a stage's process is asked: a thread beside that of the stage, which
//! asks that one as the control thread asks threads ([`Inbox`]), and hands on
//! what watches see. The stage's thread writes into bounded rings, as everywhere,
//! and waits for nobody.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::oneshot;
use weir_api::{Message as _, v1};
use weir_io::shared::Channel;
use weir_packet::filter::Filter;

use super::question::{self, Ask, SaidState, What};
use crate::driver::inbox::{FlowParts, FlowQuestion, Inbox, Post, Question, Reply};
use crate::observe::{Arm, TapSpec, Taps, TraceSpec, Traces};

/// How often rings are emptied while there is a watch.
const LOOK: Duration = Duration::from_millis(5);

/// A trace, and how much of it was lost when that was said last.
struct Traced {
    watch: u64,
    slot: u8,
    traces: Traces,
    lost: u64,
}

/// A tap, likewise, by point.
struct Tapped {
    watch: u64,
    tap: u64,
    taps: Taps,
    lost: Vec<u64>,
}

struct Desk {
    channel: Channel,
    post: Post,
    /// Number of the chain.
    chain: usize,
    traced: Vec<Traced>,
    tapped: Vec<Tapped>,
}

/// The main process is gone, or has closed the socket; or the stage is over.
struct Gone;

/// Opens the answer of a stage of chain `chain` on `socket`: where the stage's
/// thread finds what it is asked.
pub(super) fn open(socket: OwnedFd, chain: usize) -> Result<Inbox, String> {
    let failed = |error: std::io::Error| format!("it can't be asked: {error}");
    let (post, inbox) = Inbox::new(true).map_err(failed)?;
    let mut answer = Desk {
        channel: Channel::new(socket.into(), question::LONGEST),
        post,
        chain,
        traced: Vec::new(),
        tapped: Vec::new(),
    };
    std::thread::Builder::new()
        .name("answer".to_owned())
        .spawn(move || {
            // Then nobody asks any more.
            let Gone = answer.run();
            answer.end();
        })
        .map_err(failed)?;
    Ok(inbox)
}

impl Desk {
    fn run(&mut self) -> Gone {
        loop {
            match self.turn() {
                Err(gone) => return gone,
                Ok(true) => {}
                Ok(false) => self.wait(),
            }
        }
    }

    /// Takes the watches off, so that nothing is done for them any more.
    fn end(&mut self) {
        let traces = self.traced.drain(..).map(|on| Arm::EndTrace(on.slot));
        let taps = self.tapped.drain(..).map(|on| Arm::EndTap(on.tap));
        for arm in traces.chain(taps).collect::<Vec<_>>() {
            // The stage may be over.
            let _ = self.each(arm);
        }
    }

    /// Until a question comes, or it is time to look again.
    fn wait(&self) {
        let watched = !(self.traced.is_empty() && self.tapped.is_empty());
        let look = Timespec {
            tv_sec: 0,
            tv_nsec: i64::from(LOOK.subsec_nanos()),
        };
        let mut polled = [PollFd::new(&self.channel, PollFlags::IN)];
        // An error is a reason to look, as a signal is.
        let _ = poll(&mut polled, watched.then_some(&look));
    }

    /// True where there is more to do at once.
    fn turn(&mut self) -> Result<bool, Gone> {
        while let Some(message) = self.channel.receive(false).map_err(|_| Gone)? {
            let ask: Ask = serde_json::from_slice(&message.bytes).map_err(|_| Gone)?;
            self.answer(ask)?;
        }
        if self.channel.has_ended() {
            return Err(Gone);
        }
        let mut more = false;
        for at in 0..self.traced.len() {
            self.tell_trace(at)?;
        }
        for at in 0..self.tapped.len() {
            more |= self.tell_tap(at)?;
        }
        Ok(more)
    }

    fn answer(&mut self, ask: Ask) -> Result<(), Gone> {
        let Ask { number, what } = ask;
        match what {
            What::Trace { watch, slot, full } => {
                let traces = Traces::new(TraceSpec {
                    filter: Filter::all(),
                    packets: u64::MAX,
                    flow: false,
                    full,
                });
                self.each(Arm::Trace(slot, traces.arm()))?;
                self.traced.push(Traced {
                    watch,
                    slot,
                    traces,
                    lost: 0,
                });
            }
            What::EndTrace { slot } => {
                self.each(Arm::EndTrace(slot))?;
                self.traced.retain(|traced| traced.slot != slot);
            }
            What::Tap {
                watch,
                tap,
                points,
                filter,
                snap_len,
            } => {
                let lost = vec![0; points.len()];
                let taps = Taps::new(TapSpec {
                    points: points.into_iter().map(question::Point::here).collect(),
                    filter: filter.parse().map_err(|_| Gone)?,
                    packets: 0,
                    snap_len,
                });
                self.each(Arm::Tap(tap, taps.arm()))?;
                self.tapped.push(Tapped {
                    watch,
                    tap,
                    taps,
                    lost,
                });
            }
            What::EndTap { tap } => {
                self.each(Arm::EndTap(tap))?;
                self.tapped.retain(|tapped| tapped.tap != tap);
            }
            What::Flow { record, id } => {
                let asked = FlowQuestion {
                    chain: self.chain,
                    record,
                    id,
                };
                let parts: FlowParts = self.ask(|reply| Question::Flow(asked, reply))?;
                let states = parts.states.into_iter();
                let states: Vec<_> = states.map(|(_, state)| SaidState::of(state)).collect();
                // Names, numbers and text only.
                let said = serde_json::to_vec(&states).unwrap_or_default();
                return self.say(question::STATES, number, &said);
            }
        }
        self.say(question::DONE, number, &[])
    }

    fn each(&self, arm: Arm) -> Result<(), Gone> {
        self.ask(|reply| Question::Each(arm, reply)).map(drop)
    }

    /// Asks the stage's thread.
    fn ask<T>(&self, question: impl FnOnce(Reply<T>) -> Question) -> Result<T, Gone> {
        let (reply, answer) = oneshot::channel();
        // It is asked nothing else meanwhile: there is room.
        self.post.send(question(reply)).map_err(|_| Gone)?;
        answer.blocking_recv().map_err(|_| Gone)
    }

    fn tell_trace(&mut self, at: usize) -> Result<(), Gone> {
        let Some(traced) = self.traced.get_mut(at) else {
            return Ok(());
        };
        let mut parts = Vec::new();
        traced.traces.take_all(|part| parts.push(part));
        let lost = traced.traces.lost();
        let watch = traced.watch;
        if std::mem::replace(&mut traced.lost, lost) != lost && parts.is_empty() {
            return self.say(question::TRACED, watch, &lost.to_le_bytes());
        }
        for part in parts {
            let mut said = lost.to_le_bytes().to_vec();
            said.extend(part.encode_to_vec());
            self.say(question::TRACED, watch, &said)?;
        }
        Ok(())
    }

    /// True where there may be more.
    fn tell_tap(&mut self, at: usize) -> Result<bool, Gone> {
        let Some(tapped) = self.tapped.get_mut(at) else {
            return Ok(false);
        };
        let packets = tapped.taps.some();
        let lost_by_point = tapped.taps.lost();
        if packets.is_empty() && lost_by_point == tapped.lost {
            return Ok(false);
        }
        tapped.lost.clone_from(&lost_by_point);
        let (watch, more) = (tapped.watch, !packets.is_empty());
        let said = v1::TappedPackets {
            packets,
            lost_by_point,
        };
        self.say(question::TAPPED, watch, &said.encode_to_vec())?;
        Ok(more)
    }

    /// Waits until the main process has taken it: what is seen meanwhile and
    /// finds no room in its ring is lost to the watch.
    fn say(&mut self, kind: u8, number: u64, rest: &[u8]) -> Result<(), Gone> {
        let bytes = [&number.to_le_bytes()[..], rest].concat();
        let sent = self.channel.send(kind, &bytes, &[], true);
        sent.map_err(|_| Gone)
    }
}
