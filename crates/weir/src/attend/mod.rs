//! `weir agent --coordinator`: has this host run what a coordinator says.
//!
//! Of each composition this host runs its share as a process of its own (`weir up --host`), which goes on
//! when this agent ends, is killed, or hears no coordinator; the next agent adopts it. All that is
//! needed for that is in a folder ([`folder`]).

mod event;
mod folder;
mod ledgers;
mod log;
mod network;
mod process;
mod share;
mod shares;

use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use weir_api::v1;
use weir_coordinator::host::Reports;
use weir_identity::check_name;

use crate::args::Agent as Args;
use crate::exit::{Exit, Failure, Outcome};
use crate::run::end_signals;
use crate::say::say;
use crate::service::Service;

use folder::Folder;
use shares::Shares;

/// Interval in which processes are looked after.
const LOOK: Duration = Duration::from_millis(50);

/// Interval in which ledgers are read for the coordinator.
const LOOK_AT_LEDGERS: Duration = Duration::from_secs(2);

/// Has the coordinator's thread tell what the ledgers have.
struct Ledgers {
    path: PathBuf,
    report: watch::Sender<v1::LedgerReport>,
    looked: Option<Instant>,
    /// What was last said to be wrong.
    failed: String,
}

impl Ledgers {
    /// Reads the ledgers where that is due.
    fn look(&mut self) {
        if self.looked.is_some_and(|at| at.elapsed() < LOOK_AT_LEDGERS) {
            return;
        }
        self.looked = Some(Instant::now());
        match ledgers::report(&self.path) {
            Ok(report) => {
                self.failed.clear();
                self.report.send_if_modified(|before| {
                    let differs = *before != report;
                    *before = report;
                    differs
                });
            }
            Err(error) => {
                let why = error.to_string();
                if why != self.failed {
                    let path = self.path.display();
                    say(format_args!(
                        "warning: can't read the ledgers in {path}: {why}"
                    ));
                    self.failed = why;
                }
            }
        }
    }
}

/// Runs the agent until it is ended. What it has started goes on.
pub(crate) fn run(args: &Args) -> Outcome {
    let (Some(host), Some(coordinator)) = (&args.host, &args.coordinator) else {
        return Err(Failure::usage("an agent of a coordinator needs `--host`"));
    };
    check_name(host).map_err(|why| Failure::usage(why.to_string()))?;
    let access = crate::ask::at::access_of_agent(coordinator, args.identity.as_deref(), host)?;
    let signals = end_signals()?;
    let state = match &args.state {
        Some(path) => path.clone(),
        None => usual_state()?,
    };
    let folder = Folder::open(&state.join(host)).map_err(Failure::outside)?;
    let (sender, events) = channel();
    let (reload, reloads) = tokio::sync::mpsc::unbounded_channel();
    let mut shares = Shares::adopt(&folder, host, reload).map_err(Failure::outside)?;
    shares.attend();
    // The first word says what there is: files that are held are not sent again.
    let (reports, reported) = watch::channel(shares.report());
    let (ledgers, ledgers_reported) = watch::channel(v1::LedgerReport::default());
    let mut reporter = Ledgers {
        path: folder.ledgers(),
        report: ledgers,
        looked: None,
        failed: String::new(),
    };
    reporter.look();
    let said = Reports {
        shares: reported,
        ledgers: ledgers_reported,
    };
    network::start(access, host, said, (sender, reloads), &folder).map_err(Failure::outside)?;
    say(format_args!(
        "agent of host {host}, for the coordinator at {coordinator}"
    ));
    let mut service = Service::of_process();
    service.ready();
    loop {
        match events.recv_timeout(LOOK) {
            Ok(event) => shares.hear(event),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::outside("the thread of the coordinator has ended"));
            }
        }
        shares.attend();
        let report = shares.report();
        reports.send_if_modified(|before| {
            let differs = *before != report;
            if differs {
                *before = report;
            }
            differs
        });
        reporter.look();
        service.alive();
        if signals.came() {
            service.stopping();
            if shares.any() {
                say("the agent ends; what it has started goes on (docs/coordinator.md)");
            }
            return Ok(Exit::Done);
        }
    }
}

/// The folder for states: of the host for root, else of this user.
fn usual_state() -> Result<PathBuf, Failure> {
    if rustix::process::geteuid().is_root() {
        return Ok("/var/lib/weir/agent".into());
    }
    let own = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|it| it.is_absolute())
    };
    let states = own("XDG_STATE_HOME").or_else(|| Some(own("HOME")?.join(".local/state")));
    let none = || Failure::usage("there is no folder for states: give one (`--state`)");
    Ok(states.ok_or_else(none)?.join("weir/agent"))
}
