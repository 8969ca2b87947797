//! Another configuration for a run, while packets flow.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedMutexGuard, oneshot};
use tonic::Status;
use weir_api::v1;
use weir_exec::NotSent;
use weir_graph::{Change, SettingChange};

use crate::command::{Command, CommandSender, Replacement, Reply};
use crate::configuration::{NewConfiguration, NotRead};

use super::asked::Asked;
use super::reloads::Place;

/// How long threads may take in all. One that is late takes the functions when it looks.
const MOST: Duration = Duration::from_secs(5);
/// How long processes may take to build functions.
const READ: Duration = Duration::from_secs(50);
/// Pause before a thread for which too many commands wait is told again.
const AGAIN: Duration = Duration::from_millis(5);

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
        let is_other = file.is_some();
        let began = Instant::now();
        let place = self.reloads.place().await;
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
        if !new.changes.is_empty() && !is_other {
            answer.refused = self.prepare(new.replacement.digest()).await?;
            if !answer.refused.is_empty() {
                return Ok(self.refused(request.dry_run, answer));
            }
        }
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

    /// Has processes that load their chains themselves read them again: why some can't take them.
    async fn prepare(&self, digest: u64) -> Result<Vec<String>, Status> {
        let command = |reply| Command::Prepare(digest, reply);
        let answers = self.tell_all(READ, command).await?;
        let mut wrong: Vec<String> = answers.into_iter().filter_map(Result::err).collect();
        wrong.sort();
        wrong.dedup();
        Ok(wrong)
    }

    /// Has all engines take functions: how many had one of them.
    async fn replace(&self, new: &Arc<Replacement>) -> Result<u32, Status> {
        let command = |reply| Command::Replace(Arc::clone(new), reply);
        let answers = self.tell_all(MOST, command).await?;
        Ok(answers.into_iter().sum::<usize>() as u32)
    }

    /// Sends a command to all threads and waits for their replies. The thread of the ports, which
    /// makes further engines, is first; one that has ended meanwhile has none any more.
    async fn tell_all<T>(
        &self,
        most: Duration,
        mut command: impl FnMut(Reply<T>) -> Command,
    ) -> Result<Vec<T>, Status> {
        let until = tokio::time::Instant::now() + most;
        let mut waiting = Vec::new();
        for sender in self.senders().iter().rev() {
            waiting.extend(send(sender, &mut command, until).await?);
        }
        let mut answers = Vec::new();
        for answer in waiting {
            match tokio::time::timeout_at(until, answer).await {
                Ok(answer) => answers.extend(answer),
                Err(_) => return Err(late()),
            }
        }
        Ok(answers)
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
async fn send<T>(
    sender: &CommandSender,
    command: &mut impl FnMut(Reply<T>) -> Command,
    until: tokio::time::Instant,
) -> Result<Option<oneshot::Receiver<T>>, Status> {
    loop {
        let (reply, answer) = oneshot::channel();
        match sender.send(command(reply)) {
            Ok(()) => return Ok(Some(answer)),
            Err(NotSent::Away) => return Ok(None),
            Err(NotSent::Full) if tokio::time::Instant::now() >= until => return Err(late()),
            Err(NotSent::Full) => tokio::time::sleep(AGAIN).await,
        }
    }
}

fn late() -> Status {
    Status::deadline_exceeded(
        "a thread of this instance is busy or waits for a port: others may have the new functions, \
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
