//! Agents of hosts: what they are told, and what they say.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use weir_api::v1;
use weir_api::v1::host_said::What as Said;

use crate::carry::{WAITING, carry};
use crate::state::{ANOTHER, FAILED, Session};

use super::caller::{Caller, Need};
use super::shared::{Connection, MOST_WAITING, Open, Shared, locked};

/// How long an agent may take to say who it is.
const HELLO: Duration = Duration::from_secs(5);
/// How long a connection to an instance may take.
const OPEN: Duration = Duration::from_secs(5);
/// Shares that an agent may speak of, and characters of what it says of one.
const MOST_SHARES: usize = 1_000;
const LONGEST_TEXT: usize = 2_000;
/// Characters of a version.
const LONGEST_VERSION: usize = 64;
/// Octets of a carried connection that wait at each end.
const CARRIED: usize = 64 << 10;

/// A stream of messages to an agent.
pub(super) type Told<T> = ReceiverStream<Result<T, Status>>;

impl Shared {
    /// An agent is there, until its stream is over.
    pub(super) async fn attend(
        self: Arc<Self>,
        request: Request<Streaming<v1::HostSaid>>,
    ) -> Result<Response<Told<v1::HostTold>>, Status> {
        let caller = Caller::of(&request, Need::Attend)?;
        let address = caller.address();
        let mut said = request.into_inner();
        let first = tokio::time::timeout(HELLO, said.next()).await;
        let Ok(Some(Ok(v1::HostSaid {
            what: Some(Said::Hello(hello)),
        }))) = first
        else {
            return Err(Status::invalid_argument(
                "the first message says which host it is",
            ));
        };
        let v1::HostHello { host, mut version } = hello;
        plain(&mut version);
        version = version.chars().take(LONGEST_VERSION).collect();
        check_name(&host)?;
        if !caller.may_be(&host) {
            return Err(Status::permission_denied(format!(
                "{caller} is not the agent of host `{host}`: its certificate must have that name"
            )));
        }
        let session = Session(self.number());
        let (sender, told) = mpsc::channel(MOST_WAITING);
        locked(&self.agents).insert(session, sender);
        let now = self.now();
        let from = (address, version);
        let connected = self.change(|state| state.connect(now, (&host, session), from));
        match connected {
            // It takes nothing any more: what it says is over.
            Ok(former) => former.into_iter().for_each(|former| self.forget(former)),
            Err(why) => {
                self.forget(session);
                return Err(Status::resource_exhausted(why));
            }
        }
        tokio::spawn(async move {
            self.hear((&host, session), &caller, said).await;
            self.forget(session);
            let now = self.now();
            self.change(|state| state.disconnect(now, &host, session));
        });
        Ok(Response::new(ReceiverStream::new(told)))
    }

    /// Hears an agent, until it is over, or takes nothing any more.
    async fn hear(
        self: &Arc<Self>,
        (host, session): (&str, Session),
        caller: &Caller,
        mut said: Streaming<v1::HostSaid>,
    ) {
        // A ledger's report that was not kept.
        let mut missed = false;
        loop {
            let next = tokio::time::timeout(Duration::from_secs(1), said.next()).await;
            let is_there = locked(&self.agents)
                .get(&session)
                .is_some_and(|way| !way.is_closed());
            match next {
                // One that is cut off, or whose certificate has expired, connects anew.
                _ if !is_there || caller.is_over() => return,
                Err(_) => {}
                Ok(Some(Ok(v1::HostSaid {
                    what: Some(Said::Ledger(report)),
                }))) => {
                    // A full disk is no reason to lose the agent. Once the store works again, all is
                    // said over a new connection.
                    match self.keep_ledger(report).await {
                        Err(_) => missed = true,
                        Ok(_) if missed => return,
                        Ok(_) => {}
                    }
                }
                Ok(Some(Ok(v1::HostSaid { what: Some(what) }))) => {
                    self.note(host, session, what);
                }
                // What a newer agent says.
                Ok(Some(Ok(v1::HostSaid { what: None }))) => {}
                Ok(_) => return,
            }
        }
    }

    fn note(&self, host: &str, session: Session, what: Said) {
        match what {
            Said::Report(mut report) => {
                report.shares.truncate(MOST_SHARES);
                report
                    .shares
                    .retain(|share| check_name(&share.composition).is_ok());
                for share in &mut report.shares {
                    for text in [
                        &mut share.why,
                        &mut share.refusal,
                        &mut share.state,
                        &mut share.switch,
                    ] {
                        plain(text);
                    }
                    if share.store != self.store.id() {
                        *share = of_another(share);
                    }
                }
                self.change(|state| state.report(host, session, report));
            }
            Said::Tried(mut tried) => {
                plain_answer(&mut tried);
                let mut tries = locked(&self.tries);
                // Another host's answer counts for nothing.
                let is_its = tries.get(&tried.id).is_some_and(|(of, _)| *of == session);
                if let (true, Some((_, asked))) = (is_its, tries.remove(&tried.id)) {
                    // Who asked may have gone.
                    let _ = asked.send(tried);
                }
            }
            Said::Hello(_) | Said::Ledger(_) => {}
        }
    }

    /// Nobody waits for an agent that is gone.
    fn forget(&self, session: Session) {
        locked(&self.agents).remove(&session);
        locked(&self.tries).retain(|_, (of, _)| *of != session);
        locked(&self.opens).retain(|_, open| open.session != session);
    }

    /// The agent on the host whose switch runs, and the host.
    ///
    /// # Errors
    ///
    /// There is none: why.
    pub(super) fn switch_of(&self, instance: &str) -> Result<(Session, String), String> {
        let state = self.state();
        let switch = state.switch_of(instance);
        match switch.map(|(session, host)| (session, host.to_owned())) {
            Some(switch) => Ok(switch),
            None if state.taken(instance).is_some() => Err(format!(
                "no switch of `{instance}` runs on a host that is connected"
            )),
            None => Err(format!("there is no composition `{instance}`")),
        }
    }

    /// Opens a connection to an instance on the host whose switch runs.
    ///
    /// # Errors
    ///
    /// There is no such instance, or its host does not connect to it: why.
    pub(super) async fn open(&self, instance: &str) -> Result<tokio::io::DuplexStream, String> {
        let (session, host) = self.switch_of(instance)?;
        let id = self.number();
        let (asked, opened) = oneshot::channel();
        let open = Open {
            session,
            host,
            asked,
        };
        locked(&self.opens).insert(id, open);
        let what = v1::host_told::What::Open(v1::OpenInstance {
            id,
            composition: instance.to_owned(),
        });
        let told = self.tell(session, what);
        let opened = match told {
            true => tokio::time::timeout(OPEN, opened)
                .await
                .ok()
                .and_then(Result::ok),
            false => None,
        };
        locked(&self.opens).remove(&id);
        let Some(Connection { messages, outlet }) = opened else {
            return Err(format!("the host of `{instance}` can't connect to it"));
        };
        let (near, far) = tokio::io::duplex(CARRIED);
        tokio::spawn(carry(far, messages, outlet));
        Ok(near)
    }

    /// An agent has connected to an instance, as it was told to.
    pub(super) async fn carried(
        self: Arc<Self>,
        request: Request<Streaming<v1::Carried>>,
    ) -> Result<Response<Told<v1::Carried>>, Status> {
        let caller = Caller::of(&request, Need::Attend)?;
        let mut messages = request.into_inner();
        let first = tokio::time::timeout(HELLO, messages.next()).await;
        let Ok(Some(Ok(first))) = first else {
            return Err(Status::invalid_argument(
                "the first message says which connection it is",
            ));
        };
        let mut opens = locked(&self.opens);
        // Another host's connection is none of this agent's business.
        let is_its = opens
            .get(&first.id)
            .is_some_and(|open| caller.may_be(&open.host));
        let open = is_its.then(|| opens.remove(&first.id)).flatten();
        drop(opens);
        let Some(Open { asked, .. }) = open else {
            return Err(Status::not_found("nobody waits for that connection"));
        };
        let (outlet, told) = mpsc::channel(WAITING);
        // Who asked may have gone: the stream ends then.
        let _ = asked.send(Connection { messages, outlet });
        Ok(Response::new(ReceiverStream::new(told)))
    }
}

/// Has a text of an agent be one that may be kept and shown: not long, and without what means something
/// to a terminal.
fn plain(text: &mut String) {
    let fits = text.chars().take(LONGEST_TEXT);
    *text = fits
        .map(|c| if c.is_control() && c != '\n' { ' ' } else { c })
        .collect();
}

/// The same for what an instance has answered.
fn plain_answer(tried: &mut v1::HostTried) {
    plain(&mut tried.failed);
    let Some(reload) = &mut tried.reload else {
        return;
    };
    reload.refused.truncate(MOST_SHARES);
    let texts = [&mut reload.wrong, &mut reload.warnings].into_iter();
    texts.chain(&mut reload.refused).for_each(plain);
    reload.changes.truncate(MOST_SHARES);
    for change in &mut reload.changes {
        let texts = [&mut change.chain, &mut change.function, &mut change.kind].into_iter();
        texts.chain(&mut change.texts).for_each(plain);
        for setting in &mut change.settings {
            plain(&mut setting.path);
            setting.before.as_mut().map(plain);
            setting.after.as_mut().map(plain);
        }
    }
    reload.sets.iter_mut().for_each(|set| plain(&mut set.name));
}

/// A share that runs for another coordinator: nothing of what is wanted here.
fn of_another(share: &v1::ShareReport) -> v1::ShareReport {
    v1::ShareReport {
        composition: share.composition.clone(),
        state: FAILED.to_owned(),
        wanted: ANOTHER,
        why: "it runs there for another coordinator, which has to end it first".to_owned(),
        process: share.process,
        ..v1::ShareReport::default()
    }
}

/// Names of hosts are those that a composition can have.
fn check_name(host: &str) -> Result<(), Status> {
    weir_identity::check_name(host).map_err(|why| Status::invalid_argument(why.to_string()))
}
