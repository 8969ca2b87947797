//! Another configuration for a run, while packets flow.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedMutexGuard, oneshot};
use tonic::Status;
use weir_api::v1;
use weir_exec::NotSent;
use weir_graph::{Change, SetChange, SettingChange};

use crate::command::{Command, CommandSender, Replacement};
use crate::configuration::{NewConfiguration, NotRead};

use super::asked::Asked;
use super::reloads::Place;

/// How long threads may take in all.
const MOST: Duration = Duration::from_secs(5);
/// How long processes may take to build functions.
const READ: Duration = Duration::from_secs(50);
/// Pause before a thread for which too many commands wait is told again.
const AGAIN: Duration = Duration::from_millis(5);

/// Where a thread has not answered in time.
const LATE: &str = "warning: a thread is busy, stopped, or waits for a port: it takes the new functions \
                    when it looks\n";

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
        let _turn = self.sets.turn.lock().await;
        let full = match is_other {
            true => Vec::new(),
            false => self.sets.refusals(&new.sets),
        };
        if !full.is_empty() {
            if let Some(configuration) = place.as_mut() {
                configuration.forget();
            }
            answer.refused = full;
            return Ok(self.refused(request.dry_run, answer));
        }
        // Also where nothing has changed here: another host's files may have.
        let prepared = match is_other {
            true => Ok(Vec::new()),
            false => self.prepare(new.replacement.digest()).await,
        };
        let may_take = prepared.as_ref().is_ok_and(Vec::is_empty) && !request.dry_run;
        if let Some(configuration) = place.as_mut().filter(|_| !may_take) {
            configuration.forget();
        }
        answer.refused = prepared?;
        if !answer.refused.is_empty() {
            return Ok(self.refused(request.dry_run, answer));
        }
        answer.changes = self.told(&new.changes).await;
        answer.sets = new.set_changes.iter().map(set).collect();
        if may_take {
            self.take(&mut place, &new, &mut answer).await;
        }
        Ok(answer)
    }

    /// Has all engines take a configuration.
    async fn take(
        &self,
        place: &mut Place,
        new: &NewConfiguration,
        answer: &mut v1::ReloadResponse,
    ) {
        let began = Instant::now();
        if !new.is_nothing() {
            let (engines, late) = self.replace(&new.replacement).await;
            answer.engines = engines;
            answer.warnings.push_str(late);
            let late = self.reload_sets(&new.sets).await;
            if !late.is_empty() {
                answer.warnings.push_str(&format!("warning: {late}\n"));
            }
            self.reloads.count(|counts| counts.reloads += 1);
        }
        answer.warnings.push_str(&self.missing().await);
        answer.taken_ns = began.elapsed().as_nanos() as u64;
        // A late thread takes it as well, so it is the configuration that runs from here on.
        if let Some(configuration) = place {
            configuration.taken();
            if !new.is_nothing() {
                configuration.tell(&format!("reloaded: {}", names_of(answer)));
            }
        }
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

    /// Runtimes that are not there now, for people.
    async fn missing(&self) -> String {
        let counts = self.counts().await.ok();
        let threads = counts.iter().flat_map(|counts| &counts.threads);
        let places = threads.flat_map(|thread| &thread.runtimes);
        let away = places
            .filter(|place| !matches!(place.state, "ready" | "over" | "draining" | "leaving"));
        away.map(|place| {
            format!(
                "warning: runtime {} is not there ({}): it starts by the new file\n",
                place.id, place.state
            )
        })
        .collect()
    }

    /// Has processes that load their chains themselves read them again: why some can't take them.
    async fn prepare(&self, digest: u64) -> Result<Vec<String>, Status> {
        let answers = self
            .all(READ, |reply| Command::Prepare(digest, reply))
            .await;
        let answers = answers.map_err(|status| {
            Status::new(
                status.code(),
                format!("nothing has changed: {}", status.message()),
            )
        })?;
        let answers = answers.into_iter().map(|(_, answer)| answer);
        let mut wrong: Vec<String> = answers.filter_map(Result::err).collect();
        wrong.sort();
        wrong.dedup();
        Ok(wrong)
    }

    /// Has all engines take functions: how many had one of them, and a warning where a thread is late,
    /// which takes them all the same. The thread of the ports, which makes further engines, is first;
    /// a thread that has ended meanwhile has no engines any more.
    async fn replace(&self, new: &Arc<Replacement>) -> (u32, &'static str) {
        let (mut waiting, mut late) = (Vec::new(), "");
        for sender in self.senders().iter().rev() {
            let (reply, answer) = oneshot::channel();
            match sender.send(Command::Replace(Arc::clone(new), reply)) {
                Ok(()) => waiting.push(answer),
                Err(NotSent::Away) => {}
                Err(NotSent::Full) => {
                    late = LATE;
                    tokio::spawn(insist(sender.clone(), Arc::clone(new)));
                }
            }
        }
        let until = tokio::time::Instant::now() + MOST;
        let mut engines = 0;
        for answer in waiting {
            match tokio::time::timeout_at(until, answer).await {
                Ok(count) => engines += count.unwrap_or(0),
                Err(_) => late = LATE,
            }
        }
        (engines as u32, late)
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
            Ok(answer) if answer.changes.is_empty() && answer.sets.is_empty() => {
                "SIGHUP: the chain file says what runs already".to_owned()
            }
            Ok(answer) if answer.warnings.is_empty() => return,
            Ok(answer) => answer.warnings.trim_end().to_owned(),
        };
        self.reloads.tell(&text).await;
    }
}

/// Names of the functions and sets that have changed.
fn names_of(answer: &v1::ReloadResponse) -> String {
    let names = answer.changes.iter().map(|change| change.function.clone());
    let sets = answer.sets.iter().map(|set| format!("@{}", set.name));
    names.chain(sets).collect::<Vec<_>>().join(", ")
}

/// Tells a thread, once it has room.
async fn insist(sender: CommandSender, new: Arc<Replacement>) {
    loop {
        let (reply, _) = oneshot::channel();
        match sender.send(Command::Replace(Arc::clone(&new), reply)) {
            Err(NotSent::Full) => tokio::time::sleep(AGAIN).await,
            Ok(()) | Err(NotSent::Away) => return,
        }
    }
}

fn setting(change: &SettingChange) -> v1::ChangedSetting {
    v1::ChangedSetting {
        path: change.path.clone(),
        before: change.before.clone(),
        after: change.after.clone(),
    }
}

fn set(change: &SetChange) -> v1::ChangedSet {
    let (before, after) = change.timeout.clone().unzip();
    v1::ChangedSet {
        name: change.name.clone(),
        added: change.added,
        removed: change.removed,
        timeout_before: before,
        timeout_after: after,
    }
}
