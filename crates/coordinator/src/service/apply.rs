//! A composition is taken: read, compared with what runs, asked about, kept, and told to its hosts.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tonic::Status;
use weir_api::v1;
use weir_api::v1::apply_response::Takes as Says;

use crate::files;
use crate::private::Scratch;
use crate::state::{Session, Takes, Unasked, Wanted};

use super::shared::{Shared, locked};

/// How long an instance may take to say what a reload would change: it loads its rules.
const TRY: Duration = Duration::from_secs(60);

impl Shared {
    /// Takes a composition, or says what that would do.
    pub(super) async fn apply(
        self: Arc<Self>,
        request: v1::ApplyRequest,
    ) -> Result<v1::ApplyResponse, Status> {
        let _one = self.one_change.lock().await;
        let sent = request.files.unwrap_or_default();
        let read = {
            let shared = self.clone();
            let number = self.number();
            blocking(move || shared.read(sent, number)).await?
        };
        let wanted = match read {
            Ok(wanted) => wanted,
            Err(why) => return Ok(wrong(why)),
        };
        let name = wanted.facts.name.clone();
        if let Some((other, at)) = self.state().conflict(&wanted) {
            return Ok(wrong(format!(
                "error: the composition `{other}` has {at}\n  = help: give the hosts other ports in this one"
            )));
        }
        let (mut takes, mut reasons) = self.state().plan(&wanted, request.anew);
        let mut reload = None;
        if takes == Takes::Reload {
            let said = match self.try_reload(&name, &wanted).await {
                Ok(said) => said,
                // Whoever asks for it needs no word of an instance.
                Err(why) if request.anew => {
                    reasons.push(why.message().to_owned());
                    None
                }
                Err(why) => return Err(why),
            };
            if let Some(said) = &said {
                reasons.extend(said.refused.iter().cloned());
                if !said.wrong.is_empty() {
                    reasons.push(said.wrong.clone());
                }
            }
            if !reasons.is_empty() {
                takes = Takes::Anew;
            }
            reload = said;
        }
        let may = takes != Takes::Anew || request.anew;
        let takes_it = may && !request.dry_run && takes != Takes::Nothing;
        let mut revision = self.state().taken(&name).map_or(0, |taken| taken.revision);
        if takes_it {
            revision = self.take(wanted, takes).await?;
        }
        Ok(v1::ApplyResponse {
            name,
            revision,
            takes: says(takes).into(),
            reasons,
            reload,
            wrong: String::new(),
            taken: takes_it,
        })
    }

    /// Reads what was sent, as hosts will read it. What is wrong with it is the inner error.
    fn read(&self, sent: v1::Files, number: u64) -> Result<Result<Wanted, String>, Status> {
        if let Err(why) = files::check(&sent) {
            return Ok(Err(format!("error: {why}")));
        }
        let failed = |error: std::io::Error| Status::internal(format!("can't check it: {error}"));
        let folder = self.store.scratch().map_err(failed)?;
        let scratch = Scratch::new(folder.join(number.to_string())).map_err(failed)?;
        let folder = scratch.path();
        files::write(&sent, folder).map_err(failed)?;
        let read = self.reader.read(folder, Path::new(&sent.composition));
        let folder = format!("{}/", folder.display());
        Ok(read
            .map(|facts| Wanted { facts, files: sent })
            .map_err(|wrong| wrong.replace(&folder, "")))
    }

    /// Asks the instance that runs what a reload would change; `None` where none runs, so that its hosts
    /// read the files when it starts.
    async fn try_reload(
        &self,
        name: &str,
        wanted: &Wanted,
    ) -> Result<Option<v1::ReloadResponse>, Status> {
        let switch = self.state().switch_of(name).map(|(session, _)| session);
        let Some(session) = switch else {
            return match self.state().unasked(name) {
                Unasked::Reads => Ok(None),
                Unasked::Unknown(why) => Err(Status::failed_precondition(format!(
                    "no switch of `{name}` can be asked what the change takes: {why}. Try again when it runs, \
                     or begin anew (`--anew`)"
                ))),
            };
        };
        let answer = self.ask(session, name, wanted).await;
        answer.map(Some).map_err(|why| {
            Status::failed_precondition(format!("can't ask `{name}` what the change takes: {why}"))
        })
    }

    async fn ask(
        &self,
        session: Session,
        name: &str,
        wanted: &Wanted,
    ) -> Result<v1::ReloadResponse, String> {
        let id = self.number();
        let (sender, tried) = oneshot::channel();
        locked(&self.tries).insert(id, (session, sender));
        let what = v1::host_told::What::Try(v1::TryReload {
            id,
            composition: name.to_owned(),
            files: Some(wanted.files.clone()),
        });
        let gone = || "its host is not connected any more".to_owned();
        let told = self.tell(session, what);
        let answer = match told {
            true => Some(tokio::time::timeout(TRY, tried).await),
            false => None,
        };
        locked(&self.tries).remove(&id);
        let answer = answer.ok_or_else(gone)?;
        let tried = match answer {
            Ok(tried) => tried.map_err(|_| gone())?,
            Err(_) => return Err("its host has not answered in time".to_owned()),
        };
        match tried.reload {
            Some(reload) if tried.failed.is_empty() => Ok(reload),
            _ => Err(tried.failed),
        }
    }

    /// Keeps a composition, and has its hosts run it: its revision.
    async fn take(self: &Arc<Self>, wanted: Wanted, takes: Takes) -> Result<u64, Status> {
        let mut key = [0; 16];
        crate::random::fill(&mut key)
            .map_err(|error| Status::internal(format!("can't make up a key: {error}")))?;
        let taken = self.state().next(wanted, takes, key);
        let (shared, kept) = (self.clone(), taken.clone());
        blocking(move || shared.store.put(&kept).map_err(Status::internal)).await?;
        let revision = taken.revision;
        let now = self.now();
        self.change(|state| state.take(now, taken));
        Ok(revision)
    }

    /// Ends a composition.
    pub(super) async fn delete(
        self: Arc<Self>,
        name: String,
    ) -> Result<v1::DeleteResponse, Status> {
        let _one = self.one_change.lock().await;
        if self.state().taken(&name).is_none() {
            let names = self.state().names();
            return Err(Status::not_found(match names.is_empty() {
                true => "there is no composition".to_owned(),
                false => format!(
                    "there is no composition `{name}`; there are {}",
                    names.join(", ")
                ),
            }));
        }
        let (shared, kept) = (self.clone(), name.clone());
        blocking(move || shared.store.remove(&kept).map_err(Status::internal)).await?;
        let gone = self.change(|state| state.delete(&name));
        let (hosts, absent) = gone.unwrap_or_default();
        Ok(v1::DeleteResponse { hosts, absent })
    }
}

/// The answer about files that can't be taken: why.
fn wrong(why: String) -> v1::ApplyResponse {
    v1::ApplyResponse {
        wrong: why,
        ..v1::ApplyResponse::default()
    }
}

fn says(takes: Takes) -> Says {
    match takes {
        Takes::Nothing => Says::Nothing,
        Takes::Start => Says::Start,
        Takes::Reload => Says::Reload,
        Takes::Anew => Says::Anew,
    }
}

/// Does work that waits for a disk or takes long, beside the thread that serves.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Status> + Send + 'static,
) -> Result<T, Status> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(_) => Err(Status::internal("the work failed")),
    }
}
