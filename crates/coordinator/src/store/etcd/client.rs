//! Calls to etcd: each goes to one of its members, and to the next one where that does not answer.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http::uri::PathAndQuery;
use tonic::client::Grpc;
use tonic::metadata::MetadataValue;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use super::wire::{self, LeaseKeepAliveResponse, LeaseRequest};

/// How long a member may take to answer: it writes in 4 ms, and elects a leader in about a second.
const ANSWER: Duration = Duration::from_millis(1_500);
/// Interval of signs of life on a connection.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// Pause before the next member is asked.
const PAUSE: Duration = Duration::from_millis(50);
/// Longest answer: some parts of a composition, or a page of ledgers.
const LONGEST: usize = 64 << 20;

/// Where an etcd is, and how it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdPlace {
    /// Its members: `HOST:PORT` each, one at least.
    pub members: Vec<String>,
    /// Prefix of all keys, such as `weir/`.
    pub prefix: String,
    /// Files of the certificates, where members are reached over TLS.
    pub tls: Option<EtcdTls>,
}

/// Files with certificates, as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdTls {
    /// The authority that members' certificates are of.
    pub authority: PathBuf,
    /// The own certificate and its key, where members ask for one.
    pub own: Option<(PathBuf, PathBuf)>,
}

/// Calls the members of an etcd.
#[derive(Debug)]
pub(super) struct Client {
    /// Connected when they are first needed, and again after an error.
    members: Vec<(String, Channel)>,
    /// The member that has answered last.
    current: AtomicUsize,
}

impl Client {
    /// Connects to nobody yet. It is made within a runtime.
    ///
    /// # Errors
    ///
    /// A name of a member is none, or a certificate can't be read.
    pub(super) fn new(place: &EtcdPlace) -> Result<Client, String> {
        let tls = place.tls.as_ref().map(config).transpose()?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let member = |name: &String| {
            let wrong = |why: &dyn std::fmt::Display| format!("etcd at {name}: {why}");
            let endpoint = Endpoint::from_shared(format!("{scheme}://{name}"))
                .map_err(|why| wrong(&why))?
                .connect_timeout(ANSWER)
                // Ends connections to machines that are gone. etcd refuses HTTP/2 pings while no call is open.
                .tcp_keepalive(Some(KEEP_ALIVE))
                .timeout(ANSWER);
            let endpoint = match &tls {
                Some(tls) => endpoint
                    .tls_config(tls.clone())
                    .map_err(|why| wrong(&why))?,
                None => endpoint,
            };
            Ok((name.clone(), endpoint.connect_lazy()))
        };
        let members = place.members.iter().map(member);
        let members = members.collect::<Result<Vec<_>, String>>()?;
        match members.is_empty() {
            true => Err("no member of etcd is named".to_owned()),
            false => Ok(Client {
                members,
                current: AtomicUsize::new(0),
            }),
        }
    }

    /// Calls, until a member answers or it is too late. What is asked may be carried out twice.
    ///
    /// # Errors
    ///
    /// A member refuses it, or none has answered: it may have been carried out then.
    pub(super) async fn call<Q, A>(
        &self,
        path: &'static str,
        asked: Q,
        until: Instant,
    ) -> Result<A, Failed>
    where
        Q: prost::Message + Clone + 'static,
        A: prost::Message + Default + 'static,
    {
        self.retried(until, |channel| {
            let request = with_leader(Request::new(asked.clone()));
            async move {
                let mut grpc = ready(channel).await?;
                let codec = ProstCodec::<Q, A>::default();
                let path = PathAndQuery::from_static(path);
                Ok(grpc.unary(request, path, codec).await?.into_inner())
            }
        })
        .await
    }

    /// Has a lease go on: how long, which is 0 where it is over.
    ///
    /// # Errors
    ///
    /// As of [`Client::call`].
    pub(super) async fn keep_alive(&self, id: i64, until: Instant) -> Result<Duration, Failed> {
        let kept = self
            .retried(until, |channel| async move {
                let mut grpc = ready(channel).await?;
                let asked = tokio_stream::once(LeaseRequest { id });
                let codec = ProstCodec::<LeaseRequest, LeaseKeepAliveResponse>::default();
                let path = PathAndQuery::from_static(wire::LEASE_KEEP_ALIVE);
                let request = with_leader(Request::new(asked));
                let answers = grpc.streaming(request, path, codec).await?;
                let none = || Status::unavailable("it has ended the call");
                answers.into_inner().message().await?.ok_or_else(none)
            })
            .await?;
        Ok(Duration::from_secs(
            u64::try_from(kept.ttl).unwrap_or_default(),
        ))
    }

    async fn retried<A, F: Future<Output = Result<A, Status>>>(
        &self,
        until: Instant,
        call: impl Fn(Channel) -> F,
    ) -> Result<A, Failed> {
        // A call before this one may have been carried out.
        let mut unsure = false;
        loop {
            let turn = self.current.load(Ordering::Relaxed) % self.members.len();
            let (name, channel) = &self.members[turn];
            let answer = tokio::time::timeout(ANSWER, call(channel.clone())).await;
            let status = match answer {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(status)) => status,
                Err(_) => Status::deadline_exceeded("it has not answered in time"),
            };
            let why = format!("etcd at {name}: {}", why(&status));
            if !may_pass(&status) {
                return Err(match unsure {
                    true => Failed::Silent(why),
                    false => Failed::Refused(why),
                });
            }
            unsure |= !was_never_sent(&status);
            // Another call may have gone on to the next one meanwhile.
            let next = (turn + 1) % self.members.len();
            let _ = self
                .current
                .compare_exchange(turn, next, Ordering::Relaxed, Ordering::Relaxed);
            if Instant::now() + PAUSE >= until {
                return Err(Failed::Silent(why));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Why a call has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failed {
    /// etcd has refused the call. A write may still have been done where etcd says that it has no room.
    Refused(String),
    /// No member has answered: it may have been done.
    Silent(String),
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failed::Refused(why) | Failed::Silent(why) => f.write_str(why),
        }
    }
}

async fn ready(channel: Channel) -> Result<Grpc<Channel>, Status> {
    let mut grpc = Grpc::new(channel).max_decoding_message_size(LONGEST);
    let failed = |error: tonic::transport::Error| Status::from_error(Box::new(error));
    grpc.ready().await.map_err(failed)?;
    Ok(grpc)
}

/// A member that knows no leader says so at once, in place of letting one wait.
fn with_leader<Q>(mut request: Request<Q>) -> Request<Q> {
    let yes = MetadataValue::from_static("true");
    request.metadata_mut().insert("hasleader", yes);
    request
}

/// True of an error that another member, or the same one later, may not have.
fn may_pass(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::Unavailable
            | Code::DeadlineExceeded
            | Code::Cancelled
            | Code::Unknown
            | Code::Internal
            | Code::Aborted
    )
}

/// True where nobody was there to hear the call.
fn was_never_sent(status: &Status) -> bool {
    causes(status)
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|cause| cause.kind() == std::io::ErrorKind::ConnectionRefused)
}

/// The causes of an error, the innermost last.
fn causes(status: &Status) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    let first = std::error::Error::source(status);
    std::iter::successors(first, |cause| cause.source())
}

/// The innermost cause says most.
fn why(status: &Status) -> String {
    let innermost = causes(status).last();
    innermost.map_or_else(|| status.message().to_owned(), ToString::to_string)
}

fn config(tls: &EtcdTls) -> Result<ClientTlsConfig, String> {
    let read = |path: &PathBuf| {
        fs::read(path).map_err(|why| format!("can't read {}: {why}", path.display()))
    };
    let authority = Certificate::from_pem(read(&tls.authority)?);
    let config = ClientTlsConfig::new().ca_certificate(authority);
    Ok(match &tls.own {
        Some((certificate, key)) => {
            config.identity(Identity::from_pem(read(certificate)?, read(key)?))
        }
        None => config,
    })
}
