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

use super::event::Answer;
use super::folder::{ShareFolder, Standing};
use super::process::{End, Process, lives};

/// A share whose process ends is started again for as long as it is wanted.
const AGAIN: RestartPolicy = RestartPolicy {
    first_at_once: true,
    pause: Duration::from_millis(200),
    longest: Duration::from_secs(10),
    forget: Forget::Older(Duration::from_secs(60)),
    most: None,
    most_false_starts: None,
};
/// How long a process may take to end once it is asked to.
const PATIENCE: Duration = Duration::from_secs(2);
/// How much later than the host of the switch the others end a composition.
const FOR_THE_SWITCH: Duration = Duration::from_millis(700);

/// Why a share whose inputs have ended is over.
const ENDED: &str = "its inputs have ended";

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
    /// When the process is to be asked to end, and whether it was.
    ending: Option<Instant>,
    is_told: bool,
    state: &'static str,
    why: String,
    deaths: u64,
    /// Revision that the switch is asked to take now.
    reloading: Option<u64>,
    refused: (u64, String),
    /// When a switch that could not be asked is asked again.
    ask_at: Option<Instant>,
    /// What the coordinator said last, until it is kept, and when that is tried again.
    order: Option<(v1::Share, Vec<u8>)>,
    again_at: Option<Instant>,
    /// Why files can't be kept or put in place, and of which revision: this host's trouble, and not its
    /// process's.
    trouble: Option<(u64, String)>,
    /// When what is known of the process is kept, where it could not be.
    keep_at: Option<Instant>,
    /// When a process that nobody knows of is looked for again.
    seek_at: Option<Instant>,
    /// Revision of the files that processes read.
    revision: u64,
    /// A failure to look after the process was told.
    is_lost: bool,
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
            is_told: false,
            state: STARTING,
            why: String::new(),
            deaths: 0,
            reloading: None,
            refused: (0, String::new()),
            ask_at: None,
            order: None,
            again_at: None,
            trouble: None,
            keep_at: None,
            seek_at: None,
            revision: 0,
            is_lost: false,
        }
    }

    /// One that an agent before this one was told of, with its process, should that live.
    pub(super) fn adopt(host: &str, folder: ShareFolder) -> io::Result<Option<Share>> {
        let Some(mut kept) = folder.share()? else {
            return Ok(None);
        };
        folder.forget_tries()?;
        let Some(wanted) = kept.shares.pop() else {
            // The agent before was told to end it, and did not live to see that.
            return Ok(Some(Share {
                store: kept.store,
                ..Share::new(&folder.name(), host, folder)
            }));
        };
        let standing = folder.standing();
        let process = Process::adopt(&folder)?;
        let name = wanted.composition.clone();
        let mut share = Share {
            store: kept.store,
            ..Share::new(&name, host, folder)
        };
        let has_said_so = standing.status == Part::Over.status() || share.folder.is_over();
        let is_over =
            standing.over == wanted.epoch || (standing.epoch == wanted.epoch && has_said_so);
        let knows = process
            .as_ref()
            .is_some_and(|it| it.number() == standing.process);
        share.standing = match process.is_some() && !knows {
            // An agent was ended when it had just started it.
            true => Standing::default(),
            false => standing,
        };
        share.process = process;
        match &share.process {
            Some(process) => {
                say(format_args!("{name}: process {} goes on", process.number()));
                share.settle();
                if share.standing.epoch != wanted.epoch {
                    share.end_process();
                    share.start_at = Some(Instant::now());
                }
            }
            None if is_over => {
                (share.state, share.why) = (OVER, ENDED.to_owned());
                share.standing.over = wanted.epoch;
            }
            None => {
                share.standing = Standing::default();
                share.start_at = Some(Instant::now());
            }
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
    pub(super) fn want(&mut self, share: v1::Share, store: &[u8]) {
        self.order = Some((share, store.to_vec()));
        self.again_at = None;
        self.obey();
    }

    /// Does what the last order says, once it can: a disk that is full may not be later.
    fn obey(&mut self) {
        if self.again_at.is_some_and(|at| at > Instant::now()) {
            return;
        }
        let Some((order, store)) = self.order.take() else {
            return;
        };
        match self.take(&order, &store) {
            Ok(()) => self.trouble = None,
            Err(error) => {
                self.note_trouble(order.revision, format!("can't keep its files: {error}"));
                self.again_at = Some(Instant::now() + AGAIN.longest);
                self.order = Some((order, store));
            }
        }
    }

    fn note_trouble(&mut self, revision: u64, why: String) {
        let trouble = Some((revision, why));
        if self.trouble != trouble {
            if let Some((_, why)) = &trouble {
                say(format_args!("error: {}: {why}", self.name));
            }
            self.trouble = trouble;
        }
    }

    fn take(&mut self, order: &v1::Share, store: &[u8]) -> io::Result<()> {
        let before = self.wanted.as_ref();
        let files = order.files.as_ref();
        if let Some(files) = files.filter(|_| !self.folder.holds(order.revision)) {
            self.folder.hold(order.revision, files)?;
        }
        let composition = files.or(before.and_then(|before| before.files.as_ref()));
        let wanted = v1::Share {
            files: composition.map(|files| v1::Files {
                composition: files.composition.clone(),
                files: Vec::new(),
            }),
            ..order.clone()
        };
        let bare = |share: &v1::Share| v1::Share {
            put: false,
            reload: false,
            ..share.clone()
        };
        if before.map(bare) != Some(bare(&wanted)) || self.store != store {
            self.folder.keep(&bare(&wanted), store)?;
        }
        let anew = before.is_none_or(|before| before.epoch != wanted.epoch);
        self.store = store.to_vec();
        self.wanted = Some(wanted);
        if anew {
            (self.state, self.why, self.deaths) = (STARTING, String::new(), 0);
            (self.restarts, self.refused) = (Restarts::new(AGAIN), (0, String::new()));
            self.start_at = Some(Instant::now());
            self.end_process();
        }
        Ok(())
    }

    /// Has processes read the files that are wanted: those of a new start at once, others when all hosts
    /// hold them, and no reload reads those before.
    fn put(&mut self) {
        let Some(wanted) = self.wanted.as_ref().filter(|_| self.reloading.is_none()) else {
            return;
        };
        let revision = wanted.revision;
        self.revision = self.folder.revision();
        // Files of a start before are nobody's once its process is over.
        let starts = self.revision < wanted.epoch && self.process.is_none();
        if !(wanted.put || starts) || self.revision == revision {
            return;
        }
        if !self.folder.holds(revision) {
            return;
        }
        match self.folder.put(revision) {
            Ok(()) => {
                (self.revision, self.trouble) = (revision, None);
                // Other files may be what was needed.
                if self.process.is_none() && self.state == FAILED {
                    (self.state, self.why) = (STARTING, String::new());
                    self.start_at = Some(Instant::now());
                }
            }
            Err(error) => {
                self.note_trouble(revision, format!("can't put its files in place: {error}"));
            }
        }
    }

    /// Nothing is wanted of it any more.
    pub(super) fn drop_it(&mut self) {
        (self.order, self.trouble) = (None, None);
        if self.wanted.take().is_some() {
            say(format_args!("{}: ends", self.name));
            if let Err(error) = self.folder.keep_end(&self.store) {
                say(format_args!(
                    "warning: {}: another agent would start it again: {error}",
                    self.name
                ));
            }
            self.start_at = None;
            self.end_process();
        }
    }

    /// True once nothing is left of one that is not wanted.
    pub(super) fn is_gone(&self) -> bool {
        let nothing = self.wanted.is_none() && self.order.is_none() && self.process.is_none();
        nothing && !lives(&self.folder)
    }

    /// Removes its folder.
    pub(super) fn remove(&self) -> io::Result<()> {
        self.folder.remove()
    }

    fn end_process(&mut self) {
        if self.process.is_none() || self.ending.is_some() {
            return;
        }
        // A switch lets out what is under way, for which it needs its runtimes.
        let waits = match self.part() {
            Some(Part::Runs) => Duration::ZERO,
            _ => FOR_THE_SWITCH,
        };
        self.ending = Some(Instant::now() + waits);
        self.is_told = false;
    }

    /// Asks a process to end when it is time, and ends one that does not.
    fn end(&mut self) {
        let (Some(at), Some(process)) = (self.ending, &self.process) else {
            return;
        };
        let late = Instant::now().saturating_duration_since(at);
        if at <= Instant::now() && !self.is_told {
            self.is_told = true;
            process.signal(Signal::TERM);
        } else if late > PATIENCE {
            process.signal(Signal::KILL);
        }
    }

    /// Looks after its process: what it wants of the coordinator's thread, if anything.
    pub(super) fn attend(&mut self) -> Option<Reload> {
        self.obey();
        self.seek();
        if self.keep_at.is_some_and(|at| at <= Instant::now()) {
            self.keep();
        }
        self.hear();
        self.bury();
        self.put();
        self.end();
        self.start_if_due();
        self.reload()
    }

    /// Ends a process that nobody knows of, of a share that is not wanted.
    fn seek(&mut self) {
        let nothing = self.wanted.is_none() && self.order.is_none() && self.process.is_none();
        if !nothing || self.seek_at.is_some_and(|at| at > Instant::now()) {
            return;
        }
        self.seek_at = Some(Instant::now() + Duration::from_secs(1));
        if let Ok(Some(process)) = Process::adopt(&self.folder) {
            self.process = Some(process);
            self.end_process();
        }
    }

    fn hear(&mut self) {
        if let Some(process) = &mut self.process {
            let passed = process.pass_on(&self.name);
            if let Err(error) = passed.as_ref()
                && !std::mem::replace(&mut self.is_lost, true)
            {
                say(format_args!(
                    "warning: {}: can't read its log: {error}",
                    self.name
                ));
            }
        }
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
            Some(Part::Over) => OVER,
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
                if !std::mem::replace(&mut self.is_lost, true) {
                    say(format_args!(
                        "warning: {}: can't look after it: {error}",
                        self.name
                    ));
                }
                return;
            }
        };
        // The last words may have come after the last look.
        let _ = process.pass_on(&self.name);
        let error = process.error();
        let has_said_so = self.part() == Some(Part::Over) || self.folder.is_over();
        let is_over = has_said_so && self.ending.is_none();
        self.process = None;
        self.reloading = None;
        self.standing = Standing {
            over: if is_over { self.standing.epoch } else { 0 },
            ..Standing::default()
        };
        self.keep();
        if self.ending.take().is_some() {
            return;
        }
        if is_over {
            (self.state, self.why) = (OVER, ENDED.to_owned());
            say(format_args!("{}: {}", self.name, self.why));
            return;
        }
        let status = match &end {
            End::Status(status) => Some(status),
            End::Unknown => None,
        };
        let how = status.map_or_else(
            || "(another agent had started it)".to_owned(),
            process_cause,
        );
        let pause = self
            .restarts
            .failed(Instant::now(), Some(self.since.elapsed()));
        let pause = pause.unwrap_or(AGAIN.longest);
        self.deaths += 1;
        (self.state, self.why) = (
            FAILED,
            match error {
                Some(error) => format!("its process has ended {how}: {error}"),
                None => format!("its process has ended {how}"),
            },
        );
        let when = match pause.is_zero() {
            true => String::new(),
            false => format!(" in {:.1} s", pause.as_secs_f64()),
        };
        say(format_args!(
            "warning: {}: its process has ended {how}; another starts{when}",
            self.name
        ));
        self.start_at = Some(Instant::now() + pause);
    }

    fn start_if_due(&mut self) {
        let due = self.start_at.is_some_and(|at| at <= Instant::now());
        let ready = due && self.process.is_none();
        let Some(wanted) = (self.wanted.as_ref()).filter(|it| ready && self.revision >= it.epoch)
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
                    running: self.revision,
                    status: String::new(),
                    over: 0,
                };
                say(format_args!(
                    "{}: process {} starts, for revision {}",
                    self.name,
                    process.number(),
                    self.revision
                ));
                self.process = Some(process);
                self.refused = (0, String::new());
                if self.state != FAILED {
                    self.state = STARTING;
                }
                self.keep();
            }
            Err(error) => {
                (self.state, self.why) = (FAILED, format!("can't start its process: {error}"));
                self.start_at = Some(Instant::now() + AGAIN.longest);
                say(format_args!("error: {}: {}", self.name, self.why));
                // One that lives, and that nobody knew of, is in the way: it ends first.
                if let Ok(Some(process)) = Process::adopt(&self.folder) {
                    (self.process, self.standing) = (Some(process), Standing::default());
                    self.end_process();
                }
            }
        }
    }

    /// The reload that is due.
    fn reload(&mut self) -> Option<Reload> {
        let wanted = self.wanted.as_ref().filter(|wanted| wanted.reload)?;
        let revision = wanted.revision;
        let is_put = self.revision == revision && self.ask_at.is_none_or(|at| at <= Instant::now());
        let runs = self.part() == Some(Part::Runs) && self.ending.is_none() && is_put;
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

    /// The switch has answered: why it did not take a revision, or that it did. One that could not be
    /// asked is asked again.
    pub(super) fn reloaded(&mut self, revision: u64, answer: Answer) {
        // Its process may have died meanwhile, and its successor has read the files.
        if self.reloading != Some(revision) {
            return;
        }
        self.reloading = None;
        match answer {
            Answer::Taken => {
                self.standing.running = revision;
                self.keep();
                say(format_args!(
                    "{}: its switch runs revision {revision} from now on",
                    self.name
                ));
            }
            Answer::Unasked(why) => {
                say(format_args!(
                    "warning: {}: its switch can't be asked: {why}",
                    self.name
                ));
                self.ask_at = Some(Instant::now() + AGAIN.longest);
            }
            Answer::Refused(why) => {
                say(format_args!(
                    "warning: {}: revision {revision} is refused: {why}",
                    self.name
                ));
                self.refused = (revision, why);
            }
        }
    }

    /// Keeps what is known of the process for the next agent.
    fn keep(&mut self) {
        let tried = self.keep_at.take().is_some();
        if let Err(error) = self.folder.keep_standing(&self.standing) {
            self.keep_at = Some(Instant::now() + AGAIN.longest);
            if tried {
                return;
            }
            say(format_args!(
                "warning: {}: another agent could not adopt its process: {error}",
                self.name
            ));
        }
    }

    /// The store that the last word about it came from.
    fn store_of_last(&self) -> &[u8] {
        self.order.as_ref().map_or(&self.store, |(_, store)| store)
    }

    /// How it stands.
    pub(super) fn report(&self) -> v1::ShareReport {
        let trouble = self.trouble.as_ref();
        let Some(wanted) = &self.wanted else {
            return v1::ShareReport {
                composition: self.name.clone(),
                state: trouble.map_or("ending", |_| FAILED).to_owned(),
                why: trouble.map_or_else(String::new, |(_, why)| why.clone()),
                wanted: trouble.map_or(0, |(revision, _)| *revision),
                process: self.process.as_ref().map_or(0, Process::number),
                store: self.store_of_last().to_vec(),
                ..v1::ShareReport::default()
            };
        };
        let part = self.part().filter(|_| self.process.is_some());
        let switch = match part {
            Some(Part::Runs) => RUNS,
            Some(Part::StandsBy) => "stands by",
            Some(Part::Agent | Part::Over) | None => "",
        };
        let has_failed = self.state == FAILED || self.state == OVER;
        v1::ShareReport {
            composition: self.name.clone(),
            epoch: match self.process.is_some() || has_failed {
                // One that is about to end is not what is wanted.
                true if self.ending.is_none() => wanted.epoch,
                _ => 0,
            },
            revision: self.revision,
            wanted: trouble.map_or(self.revision, |(revision, _)| *revision),
            held: match self.folder.holds(wanted.revision) {
                true => wanted.revision,
                false => 0,
            },
            state: trouble.map_or(self.state, |_| FAILED).to_owned(),
            switch: switch.to_owned(),
            why: trouble.map_or_else(|| self.why.clone(), |(_, why)| why.clone()),
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
