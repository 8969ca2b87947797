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
use crate::state::{FAILED, Session};

use super::caller::{Caller, Need};
use super::shared::{Connection, MOST_WAITING, Shared, locked};

/// How long an agent may take to say who it is.
const HELLO: Duration = Duration::from_secs(5);
/// How long a connection to an instance may take.
const OPEN: Duration = Duration::from_secs(5);
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
        let v1::HostHello { host, version } = hello;
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
        if let Err(why) = connected {
            locked(&self.agents).remove(&session);
            return Err(Status::resource_exhausted(why));
        }
        tokio::spawn(async move {
            self.hear(&host, session, said).await;
            self.forget(session);
            let now = self.now();
            self.change(|state| state.disconnect(now, &host, session));
        });
        Ok(Response::new(ReceiverStream::new(told)))
    }

    /// Hears an agent, until it is over, or takes nothing any more.
    async fn hear(&self, host: &str, session: Session, mut said: Streaming<v1::HostSaid>) {
        loop {
            let next = tokio::time::timeout(Duration::from_secs(1), said.next()).await;
            let is_there = locked(&self.agents)
                .get(&session)
                .is_some_and(|way| !way.is_closed());
            match next {
                // One that is cut off connects anew.
                _ if !is_there => return,
                Err(_) => {}
                Ok(Some(Ok(v1::HostSaid { what: Some(what) }))) => {
                    self.note(host, session, what);
                }
                Ok(_) => return,
            }
        }
    }

    fn note(&self, host: &str, session: Session, what: Said) {
        match what {
            Said::Report(mut report) => {
                for share in &mut report.shares {
                    if share.store != self.store.id() {
                        *share = of_another(share);
                    }
                }
                self.change(|state| state.report(host, session, report));
            }
            Said::Tried(tried) => {
                let mut tries = locked(&self.tries);
                // Another host's answer counts for nothing.
                let is_its = tries.get(&tried.id).is_some_and(|(of, _)| *of == session);
                if let (true, Some((_, asked))) = (is_its, tries.remove(&tried.id)) {
                    // Who asked may have gone.
                    let _ = asked.send(tried);
                }
            }
            Said::Hello(_) => {}
        }
    }

    /// Nobody waits for an agent that is gone.
    fn forget(&self, session: Session) {
        locked(&self.agents).remove(&session);
        locked(&self.tries).retain(|_, (of, _)| *of != session);
        locked(&self.opens).retain(|_, (of, _)| *of != session);
    }

    /// Opens a connection to an instance on the host whose switch runs.
    ///
    /// # Errors
    ///
    /// There is no such instance, or its host does not connect to it: why.
    pub(super) async fn open(&self, instance: &str) -> Result<tokio::io::DuplexStream, String> {
        let switch = self.state().switch_of(instance).map(|(session, _)| session);
        let Some(session) = switch else {
            let known = self.state().taken(instance).is_some();
            return Err(match known {
                true => format!("no switch of `{instance}` runs on a host that is connected"),
                false => format!("there is no composition `{instance}`"),
            });
        };
        let id = self.number();
        let (sender, opened) = oneshot::channel();
        locked(&self.opens).insert(id, (session, sender));
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
        Caller::of(&request, Need::Attend)?;
        let mut messages = request.into_inner();
        let first = tokio::time::timeout(HELLO, messages.next()).await;
        let Ok(Some(Ok(first))) = first else {
            return Err(Status::invalid_argument(
                "the first message says which connection it is",
            ));
        };
        let asked = locked(&self.opens).remove(&first.id);
        let Some((_, asked)) = asked else {
            return Err(Status::not_found("nobody waits for that connection"));
        };
        let (outlet, told) = mpsc::channel(WAITING);
        // Who asked may have gone: the stream ends then.
        let _ = asked.send(Connection { messages, outlet });
        Ok(Response::new(ReceiverStream::new(told)))
    }
}

/// A share that runs for another coordinator: nothing of what is wanted here.
fn of_another(share: &v1::ShareReport) -> v1::ShareReport {
    v1::ShareReport {
        composition: share.composition.clone(),
        state: FAILED.to_owned(),
        why: "it runs there for another coordinator, which has to end it first".to_owned(),
        process: share.process,
        ..v1::ShareReport::default()
    }
}

/// Names of hosts are those that a composition can have.
fn check_name(host: &str) -> Result<(), Status> {
    weir_identity::check_name(host).map_err(|why| Status::invalid_argument(why.to_string()))
}
