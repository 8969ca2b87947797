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
//! what there was before), the engine says that it runs (`running`), and at last that it ends as it
//! should (`ended`). Where either end closes, the other end's process is over: the engine ends in
//! good order when its guardian goes or wants it to.

mod bypass;
mod engine;
mod failures;

use std::io::Read as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use weir_exec::{Forget, RestartPolicy, Restarts};
use weir_graph::ChainFile;
use weir_io::live::{EndSignals, Hangups, Waiter};

use super::ports::Ports;
use super::signals::end_signals;
use super::wires::Sorted;
use crate::args::Run;
use crate::driver::live::ENDED;
use crate::exit::{Exit, Failure, Outcome};
use crate::say::say;
use crate::service::Service;

use bypass::Bypass;
pub(super) use engine::Guardian;
use failures::Failures;

/// How long the guardian sleeps at most.
const SLEEP: Duration = Duration::from_secs(1);
/// How long an engine that does not run yet may take to end when the run's time
/// is over.
const GRACE: Duration = Duration::from_secs(2);

/// Pauses before an engine is started again: they double until one has run for a
/// while.
const ENGINE: RestartPolicy = RestartPolicy {
    first_at_once: false,
    pause: Duration::from_millis(100),
    longest: Duration::from_secs(10),
    forget: Forget::OnceUpFor(Duration::from_secs(30)),
    most: None,
    most_false_starts: None,
};

/// The program of a process, even where its file is gone.
const SELF: &str = "/proc/self/exe";

/// True if this process must become a guardian.
pub(super) fn wanted(args: &Run, file: &ChainFile, ports: &Ports) -> bool {
    file.network.fails_open() && ports.are_live() && !args.guarded
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
    let began = Instant::now();
    let mut guard = Guard {
        signals: end_signals()?,
        hangups: Hangups::open()
            .map_err(|error| Failure::outside(format!("can't wait for SIGHUP: {error}")))?,
        bypass: Bypass::new(&sorted, wires)?,
        restarts: Restarts::new(ENGINE),
        up: None,
        waiter: Waiter::default(),
        began,
        until: args.duration.and_then(|most| began.checked_add(most)),
        before: Failures::default(),
        service: Service::of_process(),
        ran: false,
        down: None,
    };
    loop {
        let cause = match Engine::start() {
            Ok(mut engine) => {
                let status = guard.attend(&mut engine)?;
                if guard.is_late(Duration::ZERO) {
                    return Err(late());
                }
                // One that never ran is wrong; one that was told to end has
                // ended.
                if engine.told || engine.ended || status.success() || !guard.ran {
                    return Ok(exit_of(status));
                }
                format!("the engine has died ({})", cause(status))
            }
            Err(failure) if !guard.ran => return Err(failure),
            // There may be no memory or process for another one just now.
            Err(failure) => failure.why().to_owned(),
        };
        guard.pause(&cause)?;
    }
}

/// State of a guardian.
struct Guard {
    signals: EndSignals,
    /// Passed on: the engine has the event file.
    hangups: Hangups,
    bypass: Bypass,
    restarts: Restarts,
    /// Since when the engine runs.
    up: Option<Instant>,
    waiter: Waiter,
    began: Instant,
    /// When the run is to end, as an engine that runs knows by itself.
    until: Option<Instant>,
    before: Failures,
    service: Service,
    /// An engine has run.
    ran: bool,
    /// Since when there is no engine that runs.
    down: Option<Instant>,
}

impl Guard {
    /// Does what an engine wants, and passes packets while none runs, until it
    /// is over.
    fn attend(&mut self, engine: &mut Engine) -> Result<ExitStatus, Failure> {
        // The ports are the engine's.
        let mut given = false;
        loop {
            if self.down.is_some() && !given {
                self.bypass.open();
            }
            self.wait(engine.stream.as_ref(), SLEEP)?;
            self.bypass.pass();
            let late = match engine.told {
                false => self.is_late(Duration::ZERO),
                true => self.is_late(GRACE),
            };
            if self.signals.came() || late {
                self.service.stopping();
                engine.end();
            }
            if self.hangups.came() {
                engine.hang_up();
            }
            match engine.said() {
                None => {}
                Some(Word::Open) => {
                    given = true;
                    self.bypass.close();
                    (self.before.packets, self.before.bytes) = self.bypass.passed();
                    self.before.since = self.began.elapsed();
                    let now = self.down.map_or(Duration::ZERO, |since| since.elapsed());
                    engine.go(Failures {
                        down: self.before.down + now,
                        ..self.before
                    });
                }
                Some(Word::Running) => {
                    if !self.ran {
                        self.service.ready();
                    }
                    self.ran = true;
                    self.up = Some(Instant::now());
                    if let Some(since) = self.down.take() {
                        self.before.down += since.elapsed();
                        say(format_args!(
                            "the engine is back after {:.1} s; {} packets have passed unprocessed so far",
                            since.elapsed().as_secs_f64(),
                            self.before.packets
                        ));
                    }
                }
                Some(Word::Ended) => engine.ended = true,
                Some(Word::Over) => return engine.wait(),
            }
        }
    }

    /// Passes packets until it is time for the next engine, since there is none
    /// for this cause.
    fn pause(&mut self, cause: &str) -> Result<(), Failure> {
        self.bypass.open();
        self.before.count += 1;
        self.down.get_or_insert_with(Instant::now);
        let now = Instant::now();
        let up = self.up.take().map(|up| now - up);
        // Without a limit there is always a next start.
        let pause = self.restarts.failed(now, up).unwrap_or(ENGINE.longest);
        say(format_args!(
            "warning: {cause}: packets pass unprocessed; it is started again in {:.1} s",
            pause.as_secs_f64()
        ));
        let until = Instant::now() + pause;
        loop {
            self.bypass.open();
            self.bypass.pass();
            let left = until.saturating_duration_since(Instant::now());
            if self.is_late(Duration::ZERO) {
                self.bypass.close();
                return Err(late());
            }
            if left.is_zero() {
                return Ok(());
            }
            self.wait(None, left)?;
            // The next engine opens its event file anyway.
            self.hangups.came();
            if self.signals.came() {
                self.bypass.close();
                return Err(Failure::outside("ended while the engine was down"));
            }
        }
    }

    /// True where the run's time has been over for so long, and there is no
    /// engine that runs and would end by itself.
    fn is_late(&self, by: Duration) -> bool {
        let end = self.until.and_then(|until| until.checked_add(by));
        self.down.is_some() && end.is_some_and(|end| Instant::now() >= end)
    }

    /// Sleeps until there is something to do.
    fn wait(&mut self, engine: Option<&UnixStream>, most: Duration) -> Result<(), Failure> {
        let mut fds = vec![self.signals.as_fd(), self.hangups.as_fd()];
        fds.extend(engine.map(UnixStream::as_fd));
        self.bypass.descriptors(&mut fds);
        // Without an engine, interfaces are looked after.
        let most = match self.down {
            Some(_) => most.min(bypass::LOOK),
            None => most.min(self.service.longest()),
        };
        self.service.alive();
        self.waiter
            .sleep(&fds, most)
            .map_err(|error| Failure::outside(format!("can't wait: {error}")))
    }
}

/// The run's time is over, and nothing has run to its end.
fn late() -> Failure {
    Failure::outside("the time of `--for` is over, and the engine was down")
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

/// Messages of an engine to its guardian.
enum Word {
    /// Give me the ports.
    Open,
    /// I have them.
    Running,
    /// I end as I should.
    Ended,
    /// It is over.
    Over,
}

/// An engine, seen from its guardian.
struct Engine {
    child: Child,
    /// Until it was told to end.
    stream: Option<UnixStream>,
    told: bool,
    /// It said that it ends as it should.
    ended: bool,
}

impl Engine {
    fn start() -> Result<Engine, Failure> {
        let failed = |error: std::io::Error| {
            Failure::outside(format!("can't start the engine of this bump: {error}"))
        };
        let (stream, theirs) = UnixStream::pair().map_err(failed)?;
        stream.set_nonblocking(true).map_err(failed)?;
        let spawn = |program: &Path| {
            let mut command = Command::new(program);
            crate::kept::pass_on(&mut command);
            command
                .args(std::env::args_os().skip(1))
                .arg("--guarded")
                .stdin(Stdio::from(OwnedFd::from(theirs.try_clone()?)))
                // A terminal's signals are for the guardian, which passes them on.
                .process_group(0)
                .spawn()
        };
        let child = std::env::current_exe()
            .and_then(|program| spawn(&program))
            // An upgrade has replaced it: the guardian's own is still there.
            .or_else(|_| spawn(Path::new(SELF)))
            .map_err(failed)?;
        Ok(Engine {
            child,
            stream: Some(stream),
            told: false,
            ended: false,
        })
    }

    /// The engine's next message, of one octet; `None` if there is none yet.
    fn said(&mut self) -> Option<Word> {
        let mut word = [0];
        let read = match &mut self.stream {
            Some(stream) => stream.read(&mut word),
            None => Ok(0),
        };
        match read {
            Ok(1) if word == *engine::OPEN => Some(Word::Open),
            Ok(1) if word == *ENDED => Some(Word::Ended),
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

    /// Passes SIGHUP on, which an engine that starts has blocked already.
    fn hang_up(&self) {
        let child = rustix::process::Pid::from_child(&self.child);
        // An engine that has just died opens its event file when it comes back.
        let _ = rustix::process::kill_process(child, rustix::process::Signal::HUP);
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
