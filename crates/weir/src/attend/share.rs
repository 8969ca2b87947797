//! This host's share of one composition: what is wanted, the process that does it, and how it stands.

use std::io;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use weir_api::v1;
use weir_coordinator::state::{FAILED, OVER, READY, RUNS, STARTING};
use weir_exec::{Forget, RestartPolicy, Restarts};

use crate::driver::process_cause;
use crate::say::say;
use crate::service::Part;

use super::folder::{ShareFolder, Standing};
use super::process::{End, Process};

/// A share whose process ends is started again for as long as it is wanted.
const AGAIN: RestartPolicy = RestartPolicy {
    first_at_once: true,
    pause: Duration::from_millis(200),
    longest: Duration::from_secs(10),
    forget: Forget::Older(Duration::from_secs(60)),
    most: None,
    most_false_starts: None,
};
/// How long a process may take to end once it is asked to. Its flows are lost in any case, and its switch
/// may wait for runtimes that their hosts have ended before.
const PATIENCE: Duration = Duration::from_secs(2);

/// A reload that a share wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reload {
    pub(super) composition: String,
    pub(super) revision: u64,
}

/// The share of one composition.
pub(super) struct Share {
    name: String,
    host: String,
    folder: ShareFolder,
    /// What is wanted, without the files; `None` where nothing is any more.
    wanted: Option<v1::Share>,
    /// The coordinator's store.
    store: Vec<u8>,
    process: Option<Process>,
    standing: Standing,
    restarts: Restarts,
    since: Instant,
    /// When the next process is to start.
    start_at: Option<Instant>,
    /// When the process was asked to end.
    ending: Option<Instant>,
    state: &'static str,
    why: String,
    deaths: u64,
    /// Revision that the switch is asked to take now.
    reloading: Option<u64>,
    refused: (u64, String),
}

impl Share {
    /// One that is told of for the first time.
    pub(super) fn new(name: &str, host: &str, folder: ShareFolder) -> Share {
        Share {
            name: name.to_owned(),
            host: host.to_owned(),
            folder,
            wanted: None,
            store: Vec::new(),
            process: None,
            standing: Standing::default(),
            restarts: Restarts::new(AGAIN),
            since: Instant::now(),
            start_at: None,
            ending: None,
            state: STARTING,
            why: String::new(),
            deaths: 0,
            reloading: None,
            refused: (0, String::new()),
        }
    }

    /// One that an agent before this one was told of, with its process, should that live.
    pub(super) fn adopt(host: &str, folder: ShareFolder) -> io::Result<Option<Share>> {
        let Some(mut kept) = folder.share() else {
            return Ok(None);
        };
        let Some(wanted) = kept.shares.pop() else {
            return Ok(None);
        };
        let standing = folder.standing();
        let process = Process::adopt(&folder, standing.process)?;
        let name = wanted.composition.clone();
        let mut share = Share {
            store: kept.store,
            start_at: process.is_none().then(Instant::now),
            ..Share::new(&name, host, folder)
        };
        match process.is_some() {
            true => {
                say(format_args!("{name}: process {} goes on", standing.process));
                share.standing = standing;
                share.process = process;
                share.settle();
                share.ending = (share.standing.epoch != wanted.epoch).then(|| share.end());
            }
            false => share.state = STARTING,
        }
        share.wanted = Some(wanted);
        Ok(Some(share))
    }

    /// Name of its composition.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// True of a share of another coordinator's store.
    pub(super) fn is_of_another(&self, store: &[u8]) -> bool {
        self.wanted.is_some() && !self.store.is_empty() && self.store != store
    }

    /// The coordinator wants this of it.
    pub(super) fn want(&mut self, share: &v1::Share, store: &[u8]) {
        let before = self.wanted.as_ref();
        let same = before
            .is_some_and(|before| (before.revision, before.epoch) == (share.revision, share.epoch));
        if !same && let Err(error) = self.folder.take(share, store) {
            (self.state, self.why) = (FAILED, format!("can't keep its files: {error}"));
            say(format_args!("error: {}: {}", self.name, self.why));
            return;
        }
        self.store = store.to_vec();
        let anew = before.is_none_or(|before| before.epoch != share.epoch);
        self.wanted = Some(v1::Share {
            files: share.files.as_ref().map(|files| v1::Files {
                composition: files.composition.clone(),
                files: Vec::new(),
            }),
            ..share.clone()
        });
        if anew {
            (self.state, self.why, self.deaths) = (STARTING, String::new(), 0);
            (self.restarts, self.refused) = (Restarts::new(AGAIN), (0, String::new()));
            self.start_at = Some(Instant::now());
            self.end_process();
        } else if !same && self.process.is_none() && self.state == FAILED {
            // Other files may be what was needed.
            self.start_at = Some(Instant::now());
        }
    }

    /// Nothing is wanted of it any more.
    pub(super) fn drop_it(&mut self) {
        if self.wanted.take().is_some() {
            say(format_args!("{}: ends", self.name));
            self.start_at = None;
            self.end_process();
        }
    }

    /// True once nothing is left of one that is not wanted.
    pub(super) fn is_gone(&self) -> bool {
        self.wanted.is_none() && self.process.is_none()
    }

    /// Removes its folder.
    pub(super) fn remove(&self) -> io::Result<()> {
        self.folder.remove()
    }

    fn end_process(&mut self) {
        if self.process.is_some() && self.ending.is_none() {
            self.ending = Some(self.end());
        }
    }

    fn end(&self) -> Instant {
        if let Some(process) = &self.process {
            process.signal(Signal::TERM);
        }
        Instant::now()
    }

    /// Looks after its process: what it wants of the coordinator's thread, if anything.
    pub(super) fn attend(&mut self) -> Option<Reload> {
        self.hear();
        self.bury();
        if self.ending.is_some_and(|since| since.elapsed() > PATIENCE)
            && let Some(process) = &self.process
        {
            process.signal(Signal::KILL);
            self.ending = Some(Instant::now());
        }
        self.start_if_due();
        self.reload()
    }

    fn hear(&mut self) {
        let said = self.process.as_ref().and_then(Process::said);
        if let Some(status) = said.filter(|status| *status != self.standing.status) {
            self.standing.status = status;
            self.settle();
            self.keep();
        }
    }

    /// The state by what the process has said.
    fn settle(&mut self) {
        self.state = match self.part() {
            Some(_) => READY,
            None => STARTING,
        };
        self.why.clear();
    }

    fn part(&self) -> Option<Part> {
        let mut parts = Part::ALL.into_iter();
        parts.find(|part| part.status() == self.standing.status)
    }

    /// The process may have ended: it is started again, unless its inputs have ended or it was told to.
    fn bury(&mut self) {
        let Some(process) = &mut self.process else {
            return;
        };
        let end = match process.ended() {
            Ok(None) => return,
            Ok(Some(end)) => end,
            Err(error) => {
                say(format_args!(
                    "warning: {}: can't look after it: {error}",
                    self.name
                ));
                return;
            }
        };
        self.process = None;
        self.reloading = None;
        self.standing = Standing::default();
        self.keep();
        if self.ending.take().is_some() {
            return;
        }
        let status = match &end {
            End::Status(status) => Some(status),
            End::Unknown => None,
        };
        if status.is_some_and(|status| status.success()) {
            (self.state, self.why) = (OVER, "its inputs have ended".to_owned());
            say(format_args!("{}: {}", self.name, self.why));
            return;
        }
        let how = status.map_or_else(|| "while no agent looked on".to_owned(), process_cause);
        let pause = self
            .restarts
            .failed(Instant::now(), Some(self.since.elapsed()));
        let pause = pause.unwrap_or(AGAIN.longest);
        self.deaths += 1;
        (self.state, self.why) = (
            FAILED,
            format!("its process has ended {how}: see the agent's log"),
        );
        say(format_args!(
            "warning: {}: its process has ended {how}; another starts in {:.1} s",
            self.name,
            pause.as_secs_f64()
        ));
        self.start_at = Some(Instant::now() + pause);
    }

    fn start_if_due(&mut self) {
        let due = self.start_at.is_some_and(|at| at <= Instant::now());
        let Some(wanted) = self
            .wanted
            .as_ref()
            .filter(|_| due && self.process.is_none())
        else {
            return;
        };
        let composition = wanted
            .files
            .as_ref()
            .map_or("", |files| files.composition.as_str());
        let started = Process::start(&self.folder, composition, &self.host);
        self.start_at = None;
        self.since = Instant::now();
        match started {
            Ok(process) => {
                self.standing = Standing {
                    process: process.number(),
                    epoch: wanted.epoch,
                    running: wanted.revision,
                    status: String::new(),
                };
                say(format_args!(
                    "{}: process {} starts, for revision {}",
                    self.name,
                    process.number(),
                    wanted.revision
                ));
                self.process = Some(process);
                if self.state != FAILED {
                    self.state = STARTING;
                }
                self.keep();
            }
            Err(error) => {
                (self.state, self.why) = (FAILED, format!("can't start its process: {error}"));
                self.start_at = Some(Instant::now() + AGAIN.longest);
                say(format_args!("error: {}: {}", self.name, self.why));
            }
        }
    }

    /// The reload that is due.
    fn reload(&mut self) -> Option<Reload> {
        let wanted = self.wanted.as_ref().filter(|wanted| wanted.reload)?;
        let revision = wanted.revision;
        let runs = self.part() == Some(Part::Runs) && self.ending.is_none();
        let waits = self.standing.epoch == wanted.epoch
            && self.standing.running != revision
            && self.refused.0 != revision
            && self.reloading.is_none();
        (runs && waits).then(|| {
            self.reloading = Some(revision);
            Reload {
                composition: self.name.clone(),
                revision,
            }
        })
    }

    /// The switch has answered: why it did not take a revision, or that it did.
    pub(super) fn reloaded(&mut self, revision: u64, refusal: Option<String>) {
        // Its process may have died meanwhile, and its successor has read the files.
        if self.reloading.take() != Some(revision) {
            return;
        }
        match refusal {
            None => {
                self.standing.running = revision;
                self.keep();
                say(format_args!(
                    "{}: its switch runs revision {revision} from now on",
                    self.name
                ));
            }
            Some(why) => {
                say(format_args!(
                    "warning: {}: revision {revision} is refused: {why}",
                    self.name
                ));
                self.refused = (revision, why);
            }
        }
    }

    /// Keeps what is known of the process for the next agent.
    fn keep(&self) {
        if let Err(error) = self.folder.keep_standing(&self.standing) {
            say(format_args!(
                "warning: {}: another agent could not adopt its process: {error}",
                self.name
            ));
        }
    }

    /// How it stands.
    pub(super) fn report(&self) -> v1::ShareReport {
        let Some(wanted) = &self.wanted else {
            return v1::ShareReport {
                composition: self.name.clone(),
                state: "ending".to_owned(),
                process: self.process.as_ref().map_or(0, Process::number),
                store: self.store.clone(),
                ..v1::ShareReport::default()
            };
        };
        let part = self.part().filter(|_| self.process.is_some());
        let switch = match part {
            Some(Part::Runs) => RUNS,
            Some(Part::StandsBy) => "stands by",
            Some(Part::Agent) | None => "",
        };
        let has_failed = self.state == FAILED || self.state == OVER;
        v1::ShareReport {
            composition: self.name.clone(),
            epoch: match self.process.is_some() || has_failed {
                // One that is about to end is not what is wanted.
                true if self.ending.is_none() => wanted.epoch,
                _ => 0,
            },
            revision: wanted.revision,
            state: self.state.to_owned(),
            switch: switch.to_owned(),
            why: self.why.clone(),
            process: self.process.as_ref().map_or(0, Process::number),
            restarts: self.deaths,
            running: match switch == RUNS {
                true => self.standing.running,
                false => 0,
            },
            refused: self.refused.0,
            refusal: self.refused.1.clone(),
            store: self.store.clone(),
        }
    }
}
