//! Another configuration for a run, while packets flow.

use std::path::PathBuf;
use std::sync::{Arc, Mutex as Lock, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, OwnedMutexGuard, oneshot};
use tonic::Status;
use weir_api::v1;
use weir_exec::NotSent;
use weir_graph::{Change, SettingChange};

use crate::command::{Command, CommandSender, Replacement};
use crate::configuration::{Configuration, NewConfiguration, NotRead};

use super::asked::Asked;

/// How long threads may take in all. One that is late takes the functions when it looks.
const MOST: Duration = Duration::from_secs(5);
/// Pause before a thread for which too many commands wait is told again.
const AGAIN: Duration = Duration::from_millis(5);

weir_telemetry::counters! {
    /// Changes of the configuration that were asked for.
    #[derive(Clone, Debug, Default)]
    pub(super) struct ReloadCounts {
        /// Changes of the configuration that all engines have taken.
        pub(super) reloads: Counter<Times>,
        /// Those that were refused: a file was wrong, or a restart is needed.
        pub(super) reloads_refused: Counter<Times>,
    }
}

/// `None` where this way of running takes no other configuration.
type Place = Option<Box<dyn Configuration>>;

/// The configuration of a run, which changes once at a time.
#[derive(Debug)]
pub(super) struct Reloads {
    configuration: Arc<Mutex<Place>>,
    counts: Lock<ReloadCounts>,
}

impl Reloads {
    pub(super) fn of(configuration: Place) -> Reloads {
        Reloads {
            configuration: Arc::new(Mutex::new(configuration)),
            counts: Lock::default(),
        }
    }

    pub(super) fn counts(&self) -> ReloadCounts {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.clone()
    }

    fn count(&self, what: impl FnOnce(&mut ReloadCounts)) {
        what(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Tells the operator where nobody waits for an answer.
    async fn tell(&self, text: &str) {
        if let Some(configuration) = &*self.configuration.lock().await {
            configuration.tell(text);
        }
    }
}

/// Reads the files again, on a thread that may wait.
async fn read(
    mut place: OwnedMutexGuard<Place>,
    file: Option<PathBuf>,
) -> Result<
    (
        OwnedMutexGuard<Place>,
        Result<Arc<NewConfiguration>, NotRead>,
    ),
    Status,
> {
    let reading = tokio::task::spawn_blocking(move || {
        let result = match &mut *place {
            Some(configuration) => configuration.read(file.as_deref()),
            None => Err(NotRead::Never("it has no configuration".to_owned())),
        };
        (place, result)
    });
    let failed = |_| Status::internal("the configuration can't be read: its reader failed");
    reading.await.map_err(failed)
}

impl Asked {
    /// Takes another configuration, or tells what it would change.
    pub(super) async fn reload(
        &self,
        request: v1::ReloadRequest,
    ) -> Result<v1::ReloadResponse, Status> {
        let file = Some(request.file).filter(|file| !file.is_empty());
        if file.is_some() && !request.dry_run {
            return Err(Status::invalid_argument(
                "an instance takes its own chain file: with another one it only says what would change",
            ));
        }
        let began = Instant::now();
        let place = Arc::clone(&self.reloads.configuration).lock_owned().await;
        let (mut place, read) = read(place, file.map(PathBuf::from)).await?;
        let mut answer = v1::ReloadResponse {
            read_ns: began.elapsed().as_nanos() as u64,
            ..v1::ReloadResponse::default()
        };
        let new = match read {
            Ok(new) => new,
            Err(NotRead::Never(why)) => return Err(Status::unimplemented(why)),
            Err(NotRead::Wrong(why)) => {
                answer.wrong = why;
                return Ok(self.refused(request.dry_run, answer));
            }
            Err(NotRead::Refused(why)) => {
                answer.refused = why;
                return Ok(self.refused(request.dry_run, answer));
            }
        };
        answer.warnings.clone_from(&new.warnings);
        answer.changes = self.told(&new.changes).await;
        if request.dry_run {
            return Ok(answer);
        }
        let began = Instant::now();
        let engines = match new.changes.is_empty() {
            true => Ok(0),
            false => self.replace(&new.replacement).await,
        };
        // Whoever has been told takes it: it is what runs, also where one is late.
        if let Some(configuration) = &mut *place {
            configuration.taken();
        }
        self.reloads.count(|counts| counts.reloads += 1);
        answer.engines = engines?;
        answer.taken_ns = began.elapsed().as_nanos() as u64;
        Ok(answer)
    }

    fn refused(&self, dry_run: bool, answer: v1::ReloadResponse) -> v1::ReloadResponse {
        if !dry_run {
            self.reloads.count(|counts| counts.reloads_refused += 1);
        }
        answer
    }

    async fn told(&self, changes: &[Change]) -> Vec<v1::ChangedFunction> {
        let counts = self.counts().await.ok();
        let told = changes.iter().map(|change| {
            let name = self.chains().get(change.chain).map(|chain| &chain.name);
            let report = counts
                .as_ref()
                .and_then(|counts| counts.reports.get(change.chain));
            v1::ChangedFunction {
                chain: name.cloned().unwrap_or_default(),
                function: change.new.name.clone(),
                kind: change.kind.clone(),
                settings: change.settings.iter().map(setting).collect(),
                texts: change.texts.clone(),
                open_flows: report.map_or(0, |report| report.flows.active),
            }
        });
        told.collect()
    }

    /// Has all engines take functions: how many had one of them. The thread of the ports, which
    /// makes further engines, is first.
    async fn replace(&self, new: &Arc<Replacement>) -> Result<u32, Status> {
        let until = tokio::time::Instant::now() + MOST;
        let mut waiting = Vec::new();
        for sender in self.senders().iter().rev() {
            waiting.extend(send(sender, new, until).await?);
        }
        let mut engines = 0;
        for answer in waiting {
            match tokio::time::timeout_at(until, answer).await {
                // One that has ended meanwhile has no engines any more.
                Ok(answer) => engines += answer.unwrap_or(0),
                Err(_) => return Err(late()),
            }
        }
        Ok(engines as u32)
    }

    /// What SIGHUP asks for; says what came of it.
    pub(super) async fn reload_unasked(&self) {
        let text = match self.reload(v1::ReloadRequest::default()).await {
            Err(status) => format!("warning: SIGHUP: not reloaded: {}", status.message()),
            Ok(answer) if !answer.wrong.is_empty() => {
                format!(
                    "SIGHUP: not reloaded, all is as it was:\n{}",
                    answer.wrong.trim_end()
                )
            }
            Ok(answer) if !answer.refused.is_empty() => {
                let why = answer.refused.join("; ");
                format!("warning: SIGHUP: not reloaded, all is as it was: {why}")
            }
            Ok(answer) => {
                let names = answer.changes.iter().map(|change| change.function.as_str());
                match names.collect::<Vec<_>>().join(", ").as_str() {
                    "" => "SIGHUP: the chain file says what runs already".to_owned(),
                    names => format!("SIGHUP: reloaded: {names}"),
                }
            }
        };
        self.reloads.tell(&text).await;
    }
}

/// Tells a thread; `None` where it is away.
async fn send(
    sender: &CommandSender,
    new: &Arc<Replacement>,
    until: tokio::time::Instant,
) -> Result<Option<oneshot::Receiver<usize>>, Status> {
    loop {
        let (reply, answer) = oneshot::channel();
        match sender.send(Command::Replace(Arc::clone(new), reply)) {
            Ok(()) => return Ok(Some(answer)),
            Err(NotSent::Away) => return Ok(None),
            Err(NotSent::Full) if tokio::time::Instant::now() >= until => return Err(late()),
            Err(NotSent::Full) => tokio::time::sleep(AGAIN).await,
        }
    }
}

fn late() -> Status {
    Status::deadline_exceeded(
        "a thread of this instance is busy or waits for a port: others have the new functions, \
         and it takes them when it looks; `weir reload` again makes sure",
    )
}

fn setting(change: &SettingChange) -> v1::ChangedSetting {
    v1::ChangedSetting {
        path: change.path.clone(),
        before: change.before.clone(),
        after: change.after.clone(),
    }
}
