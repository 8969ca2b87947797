//! A bump that fails open: a guardian beside the engine.
//!
//! `weir run` is two processes then. The *engine* is weir as without this; the
//! *guardian* started it, holds no packet and waits. When the engine dies, the
//! guardian opens the same interfaces by itself, passes packets along the same
//! wires as they are ([`bypass`]), and starts the engine again, after a pause
//! that grows from failure to failure.
//!
//! They talk over a socket that is the engine's standard input: the engine asks
//! for the ports (`open`), the guardian closes its own and gives them (`go` with
//! what there was before), the engine says that it runs (`running`). Where either end closes,
//! the other end's process is over: the engine ends in good order when its
//! guardian goes or wants it to.

mod backoff;
mod bypass;
mod engine;

use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use weir_graph::{ChainFile, Network, OnFailure};
use weir_io::live::Waiter;

use super::live::signals;
use super::ports::Ports;
use super::wires::Sorted;
use crate::Outcome;
use crate::args::Run;
use crate::exit::{Exit, Failure};

use backoff::Backoff;
use bypass::Bypass;
pub(super) use engine::Guardian;

/// How long the guardian sleeps at most.
const SLEEP: Duration = Duration::from_secs(1);

/// What happened to the engines before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Failures {
    /// Engines that died.
    pub(super) count: u64,
    /// Packets that passed unprocessed, and their bytes.
    pub(super) packets: u64,
    pub(super) bytes: u64,
    /// Time without an engine.
    pub(super) down: Duration,
    /// Time since the first engine was started.
    pub(super) since: Duration,
}

/// Whether this process is to be a guardian.
pub(super) fn wanted(args: &Run, file: &ChainFile, ports: &Ports) -> bool {
    let open = Network::Bump {
        on_failure: OnFailure::Open,
    };
    file.network == open && ports.are_live() && !args.guarded
}

/// Runs engines until one ends by itself, or a signal comes.
pub(super) fn run(args: &Run, ports: &Ports) -> Outcome {
    let sorted = Sorted::by_kind(args, ports)?;
    let wires = sorted.wires()?;
    if !sorted.is_two_sided() {
        return Err(Failure::chain(
            "error: `on-failure: open` is for a bump with interfaces on both sides, and without \
             captures or the generator"
                .to_owned(),
        ));
    }
    let signals = signals()?;
    let mut bypass = Bypass::new(&sorted, wires)?;
    let mut backoff = Backoff::default();
    let mut waiter = Waiter::default();
    let began = Instant::now();
    let mut before = Failures::default();
    let mut ran = false;
    // Since when there is no engine that runs.
    let mut down: Option<Instant> = None;
    loop {
        let mut engine = Engine::start()?;
        let status = loop {
            let mut fds = vec![signals.as_fd()];
            if let Some(stream) = &engine.stream {
                fds.push(stream.as_fd());
            }
            bypass.descriptors(&mut fds);
            waiter
                .sleep(&fds, SLEEP)
                .map_err(|error| Failure::outside(format!("can't wait: {error}")))?;
            bypass.pass();
            if signals.came() {
                engine.end();
            }
            match engine.said() {
                None => {}
                Some(Word::Open) => {
                    bypass.close();
                    (before.packets, before.bytes) = bypass.passed();
                    before.since = began.elapsed();
                    let now = down.map_or(Duration::ZERO, |since| since.elapsed());
                    engine.go(Failures {
                        down: before.down + now,
                        ..before
                    });
                }
                Some(Word::Running) => {
                    ran = true;
                    backoff.up(Instant::now());
                    if let Some(since) = down.take() {
                        before.down += since.elapsed();
                        eprintln!(
                            "the engine is back after {:.1} s; {} packets have passed unprocessed so far",
                            since.elapsed().as_secs_f64(),
                            before.packets
                        );
                    }
                }
                Some(Word::Over) => break engine.wait()?,
            }
        };
        // One that never ran is wrong; one that was told to end has ended.
        if engine.told || status.success() || !ran {
            return Ok(exit_of(status));
        }
        before.count += 1;
        down.get_or_insert_with(Instant::now);
        let pause = backoff.pause(Instant::now());
        eprintln!(
            "warning: the engine has died ({}): packets pass unprocessed; it is started again in {:.1} s",
            cause(status),
            pause.as_secs_f64()
        );
        let until = Instant::now() + pause;
        loop {
            bypass.open();
            bypass.pass();
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let mut fds = vec![signals.as_fd()];
            bypass.descriptors(&mut fds);
            // An interface that is gone is looked for again.
            waiter
                .sleep(&fds, left.min(SLEEP / 10))
                .map_err(|error| Failure::outside(format!("can't wait: {error}")))?;
            if signals.came() {
                bypass.close();
                return Err(Failure::outside("ended while the engine was down"));
            }
        }
    }
}

/// How an engine ended, in words.
fn cause(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("signal {signal}"),
        (None, Some(code)) => format!("exit code {code}"),
        (None, None) => "no cause is known".to_owned(),
    }
}

fn exit_of(status: ExitStatus) -> Exit {
    [Exit::Done, Exit::Usage, Exit::Chain]
        .into_iter()
        .find(|exit| status.code() == Some(*exit as i32))
        .unwrap_or(Exit::Failed)
}

/// What an engine says to its guardian.
enum Word {
    /// Give me the ports.
    Open,
    /// I have them.
    Running,
    /// It is over.
    Over,
}

/// An engine, seen from its guardian.
struct Engine {
    child: Child,
    /// Until it was told to end.
    stream: Option<UnixStream>,
    told: bool,
}

impl Engine {
    fn start() -> Result<Engine, Failure> {
        let failed = |error: std::io::Error| {
            Failure::outside(format!("can't start the engine of this bump: {error}"))
        };
        let (stream, theirs) = UnixStream::pair().map_err(failed)?;
        stream.set_nonblocking(true).map_err(failed)?;
        let program = std::env::current_exe().map_err(failed)?;
        let child = Command::new(program)
            .args(std::env::args_os().skip(1))
            .arg("--guarded")
            .stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)))
            // A terminal's signals are for the guardian, which passes them on.
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        Ok(Engine {
            child,
            stream: Some(stream),
            told: false,
        })
    }

    /// What it has said since the last call. Each word is one octet.
    fn said(&mut self) -> Option<Word> {
        let mut word = [0];
        let read = match &mut self.stream {
            Some(stream) => stream.read(&mut word),
            None => Ok(0),
        };
        match read {
            Ok(1) if word == *engine::OPEN => Some(Word::Open),
            Ok(1) => Some(Word::Running),
            Ok(_) => Some(Word::Over),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => None,
            Err(_) => Some(Word::Over),
        }
    }

    fn go(&mut self, before: Failures) {
        if let Some(stream) = &mut self.stream {
            // One that is gone says so when it is read from.
            let _ = engine::write_go(stream, before);
        }
    }

    /// Tells it to end; the second time it has to.
    fn end(&mut self) {
        if self.told {
            let _ = self.child.kill();
        }
        self.told = true;
        if let Some(stream) = &self.stream {
            let _ = stream.shutdown(std::net::Shutdown::Write);
        }
    }

    /// Its end, which has come or is about to.
    fn wait(&mut self) -> Result<ExitStatus, Failure> {
        self.child
            .wait()
            .map_err(|error| Failure::outside(format!("can't wait for the engine: {error}")))
    }
}

impl Drop for Engine {
    /// No engine outlives a guardian that can't go on.
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
