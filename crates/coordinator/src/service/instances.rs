//! Calls to an instance, passed on to the host whose switch runs.
//!
//! The authority of a call names the instance. Calls are not opened: only their names are looked at, to
//! tell those that change something.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tonic::Status;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::{Service, ServiceExt as _, service_fn};

use super::caller::{Caller, Need};
use super::shared::{Shared, locked};

/// How long an instance may take to be connected.
const CONNECT: Duration = Duration::from_secs(10);
/// Calls of an instance that change nothing: a viewer may make them. All others take an operator.
const VIEWS: [&str; 14] = [
    "GetBill",
    "GetInfo",
    "GetStats",
    "WatchStats",
    "ListFlows",
    "GetFlow",
    "ListPrograms",
    "ListSets",
    "ListSetEntries",
    "ListDropReasons",
    "ListHosts",
    "WatchEvents",
    "Trace",
    "Tap",
];

/// The instances of all hosts.
#[derive(Clone)]
pub(super) struct Instances {
    shared: Arc<Shared>,
    /// By name, and apart for viewers, so that these hold up nobody else: connected when they are first
    /// called, and again where that was cut.
    channels: Arc<Mutex<HashMap<(String, bool), Channel>>>,
}

impl Instances {
    pub(super) fn new(shared: Arc<Shared>) -> Instances {
        Instances {
            shared,
            channels: Arc::default(),
        }
    }

    async fn pass_on(
        self,
        mut request: http::Request<Body>,
    ) -> Result<http::Response<Body>, Status> {
        let need = need_of(request.uri().path());
        let caller = Caller::within(request.extensions(), need)?;
        let authority = request.uri().authority();
        let name = authority
            .map_or("", |authority| authority.host())
            .to_owned();
        // Checked before it is dialled: names that are nobody's make no channels.
        if let Err(why) = self.shared.switch_of(&name) {
            return Err(Status::unavailable(why));
        }
        // What came with the connection stays here.
        request.extensions_mut().clear();
        let channel = self.channel(&name, caller.is_viewer());
        let channel = channel.map_err(|_| Status::invalid_argument("that is no name"))?;
        let passed = channel.oneshot(request).await;
        passed.map_err(|error| {
            let why = std::error::Error::source(&error).map(ToString::to_string);
            Status::unavailable(format!(
                "can't reach the instance `{name}`: {}",
                why.unwrap_or_else(|| error.to_string())
            ))
        })
    }

    /// The way to an instance, connected when it is used.
    fn channel(&self, name: &str, views: bool) -> Result<Channel, http::uri::InvalidUri> {
        let mut channels = locked(&self.channels);
        if let Some(channel) = channels.get(&(name.to_owned(), views)) {
            return Ok(channel.clone());
        }
        let (shared, of) = (self.shared.clone(), name.to_owned());
        let connector = service_fn(move |_: Uri| {
            let (shared, of) = (shared.clone(), of.clone());
            async move {
                let opened = shared.open(&of).await;
                opened.map(TokioIo::new).map_err(std::io::Error::other)
            }
        });
        let origin: Uri = format!("http://{name}").parse()?;
        let endpoint = Endpoint::from_static("http://weir").origin(origin);
        let channel = endpoint
            .connect_timeout(CONNECT)
            .connect_with_connector_lazy(connector);
        // Only compositions that there are get here, and those that are gone go.
        let state = self.shared.state();
        channels.retain(|(name, _), _| state.taken(name).is_some());
        drop(state);
        channels.insert((name.to_owned(), views), channel.clone());
        Ok(channel)
    }
}

/// What a call needs, by its name.
fn need_of(path: &str) -> Need {
    let call = path.rsplit('/').next().unwrap_or_default();
    match VIEWS.contains(&call) {
        true => Need::View,
        false => Need::Change,
    }
}

impl NamedService for Instances {
    const NAME: &'static str = "weir.v1.Instance";
}

impl Service<http::Request<Body>> for Instances {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let instances = self.clone();
        Box::pin(async move {
            let passed = instances.pass_on(request).await;
            Ok(passed.unwrap_or_else(Status::into_http))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call that is added needs an operator until somebody says that it changes nothing.
    #[test]
    fn viewers_change_nothing() {
        let description = include_str!("../../../api/proto/weir/v1/instance.proto");
        let words = description
            .lines()
            .filter_map(|line| line.trim().strip_prefix("rpc "));
        let calls: Vec<&str> = words.filter_map(|word| word.split('(').next()).collect();
        let changes: Vec<&str> = (calls.iter().copied())
            .filter(|call| need_of(&format!("/weir.v1.Instance/{call}")) == Need::Change)
            .collect();
        let known = [
            "EndFlows",
            "CompareReplicas",
            "MoveUnits",
            "DrainRuntimes",
            "ScaleRuntimes",
            "Reload",
            "UpgradeProcess",
            "ChangeSet",
        ];
        assert_eq!(changes, known);
        assert!(VIEWS.iter().all(|call| calls.contains(call)), "{calls:?}");
    }
}
