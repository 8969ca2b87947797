//! Commands to the engines of a process, there.
//!
//! A thread beside theirs reads them from a socket, passes them on over their command
//! channel, and writes replies and what watches see. The engines' thread writes into
//! bounded rings and waits for nobody.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::oneshot;
use weir_api::{Message as _, v1};
use weir_ctl::command::{Command, CommandHandler, CommandSender, Ended, FlowQuery, Reply};
use weir_ctl::observe::{Arm, TapSpec, Taps, Traces};
use weir_ctl::sets::{SetChange, What};
use weir_io::shared::Channel;

use super::command_wire::{
    self, NumberedCommand, SaidFlows, SaidParts, WireCommand, WireReply, flows_query,
};
use super::{Reread, Said};

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

struct CommandServer {
    channel: Channel,
    sender: CommandSender,
    reread: Option<Reread>,
    traced: Vec<Traced>,
    tapped: Vec<Tapped>,
    /// Packets wait as long as sets are not what the main process's are.
    held: Option<Arc<AtomicBool>>,
}

/// The main process is gone, or has closed the socket; or the engines are over.
struct Gone;

/// Serves commands that come on `socket`. Gives the handler for the engines' thread.
/// `reread` is the way to the process's configuration; without one it takes no other.
pub(in super::super) fn open(
    socket: OwnedFd,
    reread: Option<Reread>,
) -> Result<CommandHandler, String> {
    let failed = |error: std::io::Error| format!("it can't get commands: {error}");
    let (sender, mut handler) = CommandHandler::new(true).map_err(failed)?;
    let has_sets = reread.as_ref().is_some_and(Reread::begin_sets);
    let held = has_sets.then(|| handler.hold());
    let mut server = CommandServer {
        channel: Channel::new(socket.into(), command_wire::LONGEST),
        sender,
        reread,
        traced: Vec::new(),
        tapped: Vec::new(),
        held,
    };
    std::thread::Builder::new()
        .name("commands".to_owned())
        .spawn(move || {
            let Gone = server.run();
            server.end();
        })
        .map_err(failed)?;
    Ok(handler)
}

impl CommandServer {
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
            // The engines may be over.
            let _ = self.each(arm);
        }
    }

    /// Waits until a command comes, or it is time to look again.
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
            match serde_json::from_slice::<NumberedCommand>(&message.bytes) {
                Ok(command) => self.carry_out(command)?,
                Err(_) => self.say_unknown(&message.bytes)?,
            }
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

    /// Answers a command that this program does not know.
    fn say_unknown(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        let command_wire::Number { number } = serde_json::from_slice(bytes).map_err(|_| Gone)?;
        let said = serde_json::to_vec(&WireReply::Unknown).unwrap_or_default();
        self.say(command_wire::DONE, number, &said)
    }

    fn carry_out(&mut self, numbered: NumberedCommand) -> Result<(), Gone> {
        let NumberedCommand { number, command } = numbered;
        let reply = match command {
            WireCommand::Trace {
                watch,
                slot,
                full,
                of,
            } => {
                let spec = command_wire::trace_spec(of, full).ok_or(Gone)?;
                self.trace(watch, slot, Traces::new(spec))?
            }
            WireCommand::EndTrace { slot } => {
                let engines = self.each(Arm::EndTrace(slot))?;
                self.traced.retain(|traced| traced.slot != slot);
                engines
            }
            WireCommand::Tap {
                watch,
                tap,
                points,
                filter,
                snap_len,
            } => {
                let spec = TapSpec {
                    points: points.into_iter().map(command_wire::Point::here).collect(),
                    filter: filter.parse().map_err(|_| Gone)?,
                    packets: 0,
                    snap_len,
                };
                self.tap(watch, tap, spec)?
            }
            WireCommand::EndTap { tap } => {
                let engines = self.each(Arm::EndTap(tap))?;
                self.tapped.retain(|tapped| tapped.tap != tap);
                engines
            }
            asked => self.answer(asked)?,
        };
        // Names, numbers and text only.
        let said = serde_json::to_vec(&reply).unwrap_or_default();
        self.say(command_wire::DONE, number, &said)
    }

    fn trace(&mut self, watch: u64, slot: u8, traces: Traces) -> Result<WireReply, Gone> {
        let engines = self.each(Arm::Trace(slot, traces.arm()))?;
        self.traced.push(Traced {
            watch,
            slot,
            traces,
            lost: 0,
        });
        Ok(engines)
    }

    fn tap(&mut self, watch: u64, tap: u64, spec: TapSpec) -> Result<WireReply, Gone> {
        let lost = vec![0; spec.points.len()];
        let taps = Taps::new(spec);
        let engines = self.each(Arm::Tap(tap, taps.arm()))?;
        self.tapped.push(Tapped {
            watch,
            tap,
            taps,
            lost,
        });
        Ok(engines)
    }

    /// Answers what arms no watch.
    fn answer(&self, asked: WireCommand) -> Result<WireReply, Gone> {
        Ok(match asked {
            WireCommand::Counts => {
                let counts = self.send(Command::Counts)?;
                let reports = counts.reports.iter();
                let said = reports.map(|part| (part.chain, Said::new(&part.report, &[])));
                WireReply::Counts(std::process::id(), said.collect())
            }
            WireCommand::Flows {
                filter,
                sort,
                reverse,
                limit,
            } => {
                let query = flows_query(&filter, sort, (reverse, limit)).ok_or(Gone)?;
                let found = self.send(|reply| Command::Flows(query, reply))?;
                WireReply::Flows(SaidFlows::of(&found))
            }
            WireCommand::Flow { chain, record, id } => {
                let query = FlowQuery { chain, record, id };
                let parts = self.send(|reply| Command::Flow(query, reply))?;
                WireReply::Flow(SaidParts::of(parts))
            }
            WireCommand::Compare { begin } => {
                let found = self.send(|reply| Command::Compare(begin, reply))?;
                WireReply::Compared(found.map(Into::into))
            }
            WireCommand::End { filter } => {
                let filter = filter.parse().map_err(|_| Gone)?;
                let ended = self.send(|reply| Command::End(Arc::new(filter), reply))?;
                WireReply::Ended(ended.map(Ended::into_parts))
            }
            WireCommand::Prepare { digest } => WireReply::Prepared(match &self.reread {
                Some(reread) => reread.prepare(digest),
                None => Err("it takes no other configuration".to_owned()),
            }),
            WireCommand::Replace { digest } => {
                // Another question may have come between.
                let again = |reread: &Reread| {
                    reread.prepare(digest).ok()?;
                    reread.take(digest)
                };
                let reread = self.reread.as_ref();
                let new = reread.and_then(|reread| reread.take(digest).or_else(|| again(reread)));
                WireReply::Engines(match new {
                    Some(new) => self.send(|reply| Command::Replace(new, reply))?,
                    None => 0,
                })
            }
            WireCommand::Set { change } => WireReply::Set(self.change_set(&change)?),
            WireCommand::Trace { .. }
            | WireCommand::EndTrace { .. }
            | WireCommand::Tap { .. }
            | WireCommand::EndTap { .. } => return Err(Gone),
        })
    }

    fn change_set(&self, change: &str) -> Result<Result<(), String>, Gone> {
        let change = SetChange::decode(change).ok_or(Gone)?;
        let Some(reread) = &self.reread else {
            return Ok(Err("it has no sets".to_owned()));
        };
        // One that has changed since it was loaded is told all after that.
        let may_fail = matches!(change.what, What::AsLoaded);
        let done = reread.change_set(change);
        if let Err(why) = &done
            && !may_fail
        {
            crate::say::say(format_args!(
                "warning: a set can't become what the main process's is: {why}"
            ));
        }
        if let (Ok(true), Some(held)) = (&done, &self.held)
            && held.swap(false, Ordering::AcqRel)
        {
            // It may be asleep.
            let _ = self.send(|reply| Command::Sets(None, reply))?;
        }
        Ok(done.map(drop))
    }

    fn each(&self, arm: Arm) -> Result<WireReply, Gone> {
        let engines = self.send(|reply| Command::Each(arm, reply))?;
        Ok(WireReply::Engines(engines))
    }

    /// Sends a command to the engines' thread, and waits for its reply.
    fn send<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T, Gone> {
        let (reply, answer) = oneshot::channel();
        // One command is under way at a time: there is room.
        self.sender.send(command(reply)).map_err(|_| Gone)?;
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
            return self.say(command_wire::TRACED, watch, &lost.to_le_bytes());
        }
        for part in parts {
            let mut said = lost.to_le_bytes().to_vec();
            said.extend(part.encode_to_vec());
            self.say(command_wire::TRACED, watch, &said)?;
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
        self.say(command_wire::TAPPED, watch, &said.encode_to_vec())?;
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
