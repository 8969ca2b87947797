//! Sets of addresses that are changed under traffic (docs/sets.md).

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tonic::Status;
use weir_api::v1;
use weir_exec::NotSent;
use weir_packet::Prefix;

use crate::command::{Command, CommandSender};
use crate::sets::{Listed, NotChanged, Numbers, SetChange, Wanted};

use super::asked::Asked;

/// How long processes may take to follow a change.
const MOST: Duration = Duration::from_secs(5);
/// Pause before a thread for which too many commands wait is told again.
const AGAIN: Duration = Duration::from_millis(5);
/// Longest time between two looks for entries whose time is over.
const LOOK: Duration = Duration::from_millis(100);
/// Entries of one answer, and the most of them.
const ENTRIES: u32 = 1_000;
const MOST_ENTRIES: u32 = 10_000;

fn status(why: &NotChanged) -> Status {
    let text = why.to_string();
    match why {
        NotChanged::Unknown(_) => Status::not_found(text),
        NotChanged::Fixed(_) => Status::unimplemented(text),
        NotChanged::Full { .. } => Status::resource_exhausted(text),
        NotChanged::NotKept(_) => Status::failed_precondition(text),
    }
}

/// An entry as it is shown: an address without its length.
fn shown(prefix: &Prefix) -> String {
    let whole = if prefix.address().is_ipv4() { 32 } else { 128 };
    match prefix.length() == whole {
        true => prefix.address().to_string(),
        false => prefix.to_string(),
    }
}

fn entry(text: &str) -> Result<Prefix, Status> {
    let read = text.trim().parse::<Prefix>();
    let read = read.and_then(Prefix::unmapped);
    read.map_err(|why| Status::invalid_argument(format!("`{text}` {why}; nothing has changed")))
}

fn entries(texts: &[String]) -> Result<Vec<Prefix>, Status> {
    texts.iter().map(|text| entry(text)).collect()
}

fn milliseconds(time: Duration) -> u64 {
    time.as_millis() as u64
}

fn info(of: &Numbers<'_>) -> v1::SetInfo {
    let definition = of.definition;
    v1::SetInfo {
        name: definition.set.name.to_string(),
        entries: of.counts.entries,
        most: definition.most as u64,
        in_file: definition.entries.len() as u64,
        removed_from_file: of.removed_from_file,
        timed: of.timed,
        timeout_ms: definition.timeout.unwrap_or(0).into(),
        added: of.counts.added,
        removed: of.counts.removed,
        expired: of.counts.expired,
        refused: of.counts.refused,
        file: definition.file.clone().unwrap_or_default(),
        fixed: of.fixed.unwrap_or_default().to_owned(),
    }
}

fn listed(entry: Listed) -> v1::SetEntry {
    v1::SetEntry {
        prefix: shown(&entry.prefix),
        in_file: entry.in_file,
        added: entry.added,
        expires_ms: entry.left.map(milliseconds),
    }
}

impl Asked {
    /// All sets in numbers.
    pub(super) fn list_sets(&self) -> v1::ListSetsResponse {
        let sets = self
            .sets
            .with(|book| book.numbers().map(|of| info(&of)).collect());
        v1::ListSetsResponse { sets }
    }

    /// Some entries of a set.
    pub(super) fn list_set_entries(
        &self,
        request: &v1::ListSetEntriesRequest,
    ) -> Result<v1::ListSetEntriesResponse, Status> {
        let after = match request.after.as_str() {
            "" => None,
            text => Some(entry(text)?),
        };
        let limit = match request.limit {
            0 => ENTRIES,
            limit @ 1..=MOST_ENTRIES => limit,
            limit => {
                return Err(Status::invalid_argument(format!(
                    "a limit of {limit} entries: give one up to {MOST_ENTRIES}"
                )));
            }
        };
        let found = self
            .sets
            .with(|book| book.list(&request.set, after, limit as usize));
        let (entries, more) = found.map_err(|why| status(&why))?;
        Ok(v1::ListSetEntriesResponse {
            entries: entries.into_iter().map(listed).collect(),
            more,
        })
    }

    /// Changes a set, here and in all other processes.
    pub(super) async fn change_set(
        &self,
        request: v1::ChangeSetRequest,
    ) -> Result<v1::ChangeSetResponse, Status> {
        let wanted = Wanted {
            flush: request.flush,
            remove: entries(&request.remove)?,
            add: entries(&request.add)?,
            timeout: request.timeout_ms.map(Duration::from_millis),
        };
        let began = Instant::now();
        let _turn = self.sets.turn.lock().await;
        let changed = self.sets.with(|book| book.change(&request.set, &wanted));
        let (done, changes) = changed.map_err(|why| status(&why))?;
        let warnings = self.tell_sets(changes).await;
        Ok(v1::ChangeSetResponse {
            added: done.added,
            known: done.known,
            removed: done.removed,
            absent: done.absent,
            entries: done.entries,
            taken_ns: began.elapsed().as_nanos() as u64,
            warnings,
        })
    }

    /// Takes the sets of a changed file: what could not be told in time, for people.
    /// Nobody else changes them since it was seen that there is room: the caller has the turn.
    pub(super) async fn reload_sets(&self, definitions: &[weir_graph::SetDefinition]) -> String {
        let changes = self.sets.with(|book| book.reload(definitions));
        self.tell_sets(changes).await
    }

    /// Removes entries whose time is over, as long as the run lasts.
    pub(super) async fn expire_sets(self: Arc<Asked>) {
        if self.sets.with(|book| book.numbers().next().is_none()) {
            return;
        }
        loop {
            let due = self.sets.with(|book| book.next_due());
            let wait = due.map_or(LOOK, |due| due.saturating_duration_since(Instant::now()));
            tokio::time::sleep(wait.clamp(Duration::from_millis(1), LOOK)).await;
            let _turn = self.sets.turn.lock().await;
            let changes = self.sets.with(|book| book.expire(Instant::now()));
            // One that can't be told now is told all when it listens again.
            self.tell_sets(changes).await;
        }
    }

    /// Tells all other processes of changes that this one's sets have had.
    async fn tell_sets(&self, changes: Vec<SetChange>) -> String {
        let until = Instant::now() + MOST;
        let mut warnings: Vec<String> = Vec::new();
        for change in changes {
            let change = Arc::new(change);
            let mut waiting = Vec::new();
            for sender in self.senders() {
                match tell(sender, Some(&change), until).await {
                    Ok(answer) => waiting.push(answer),
                    // Its successor is told when it is there.
                    Err(NotSent::Away) => {}
                    Err(NotSent::Full) => {
                        warnings.push(LATE.to_owned());
                        tokio::spawn(tell_all(sender.clone()));
                    }
                }
            }
            let until = tokio::time::Instant::from_std(until);
            for answer in waiting {
                match tokio::time::timeout_at(until, answer).await {
                    Ok(Ok(Err(why))) => warnings.push(why),
                    // It has died: see above.
                    Ok(Ok(Ok(())) | Err(_)) => {}
                    Err(_) => warnings.push(LATE.to_owned()),
                }
            }
        }
        warnings.sort();
        warnings.dedup();
        warnings.join("\n")
    }
}

/// Where a process has not answered in time.
const LATE: &str = "a process is busy or stopped: it has the change when it listens again";

type Told = oneshot::Receiver<Result<(), String>>;

/// Tells a thread, once it has room.
async fn tell(
    sender: &CommandSender,
    change: Option<&Arc<SetChange>>,
    until: Instant,
) -> Result<Told, NotSent> {
    loop {
        let (reply, answer) = oneshot::channel();
        match sender.send(Command::Sets(change.cloned(), reply)) {
            Ok(()) => return Ok(answer),
            Err(NotSent::Full) if Instant::now() < until => tokio::time::sleep(AGAIN).await,
            Err(why) => return Err(why),
        }
    }
}

/// Tells a thread all that is in the sets, once it has room.
async fn tell_all(sender: CommandSender) {
    loop {
        let (reply, _) = oneshot::channel();
        match sender.send(Command::Sets(None, reply)) {
            Err(NotSent::Full) => tokio::time::sleep(AGAIN).await,
            Ok(()) | Err(NotSent::Away) => return,
        }
    }
}
