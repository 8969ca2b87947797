//! The service, on a thread of its own.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};
use weir_api::v1;
use weir_api::v1::instance_server::{Instance, InstanceServer};
use weir_graph::ScriptMode;
use weir_io::live::Hangups;
use weir_packet::filter::Filter;

use crate::command::{Comparison, FlowSort, FlowsQuery, MoveUnits, Resize, Resized};
use crate::observe::{Arm, Places, Unseen};

use super::asked::{Asked, SHORTEST};
use super::watches::{Engines, TapStream, TraceStream, Watchers};
use super::{convert, http, peers, samples};
use crate::socket::Socket;

/// Longest request.
const MOST_BYTES: usize = 64 << 10;
/// Calls of one connection at a time.
const CALLS: usize = 16;
/// Most flows of a list, and how many where nothing is said.
const MOST_FLOWS: u32 = 10_000;
const FLOWS: u32 = 100;
/// Why an instance has no events.
const NO_SWITCH: &str = "this instance has no runtimes behind a switch";
/// Events that a stream takes at a time.
const EVENTS: usize = 64;
/// Interval in which a stream looks for new events, and the service for SIGHUP.
const LOOK: Duration = Duration::from_millis(100);

struct Service {
    asked: Arc<Asked>,
    watchers: Arc<Watchers>,
}

impl Engines for Asked {
    fn places(&self) -> &Places {
        &self.places
    }

    fn unseen(&self) -> &[Unseen] {
        &self.unseen
    }

    fn port_names(&self) -> Vec<String> {
        self.inputs().iter().map(|port| port.name.clone()).collect()
    }

    async fn each(&self, action: Arm) -> Result<usize, Status> {
        Asked::each(self, action).await
    }
}

/// Answers on the socket, and those who ask for metrics, until `stopped`.
pub(super) fn start(
    mut socket: Option<Socket>,
    metrics: Option<std::net::TcpListener>,
    asked: Arc<Asked>,
    stopped: oneshot::Receiver<()>,
) -> Result<JoinHandle<()>, String> {
    let failed = |error: std::io::Error| format!("can't serve the control socket: {error}");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed)?;
    let hangups = Hangups::open().map_err(failed)?;
    let inside = runtime.enter();
    let listener = socket.as_mut().and_then(Socket::listener);
    let listener = listener.map(UnixListener::from_std).transpose();
    let listener = listener.map_err(failed)?;
    let metrics = match metrics {
        None => None,
        Some(listener) => {
            listener.set_nonblocking(true).map_err(failed)?;
            Some(TcpListener::from_std(listener).map_err(failed)?)
        }
    };
    drop(inside);
    let serve = async move {
        if let Some(metrics) = metrics {
            tokio::spawn(http::serve(metrics, asked.clone()));
        }
        tokio::spawn(reload_on_hangup(hangups, asked.clone()));
        tokio::spawn(asked.clone().expire_sets());
        tokio::spawn(samples::sample(asked.clone()));
        let Some(listener) = listener else {
            let _ = stopped.await;
            return;
        };
        let followed = asked.clone();
        let service = InstanceServer::new(Service {
            asked,
            watchers: Arc::default(),
        })
        .max_decoding_message_size(MOST_BYTES);
        let served = Server::builder()
            .concurrency_limit_per_connection(CALLS)
            .max_concurrent_streams(Some(CALLS as u32))
            .http2_keepalive_interval(Some(Duration::from_secs(20)))
            .http2_keepalive_timeout(Some(Duration::from_secs(10)))
            .max_frame_size(Some(MOST_BYTES as u32))
            .add_service(service)
            .serve_with_incoming(ReceiverStream::new(peers::accept(listener)));
        tokio::select! {
            _ = served => {}
            // The run has ended: open connections are cut off.
            // Followers of events get the last ones first.
            _ = async {
                let _ = stopped.await;
                if Arc::strong_count(&followed.followers) > 1 {
                    tokio::time::sleep(2 * LOOK).await;
                }
            } => {}
        }
    };
    std::thread::Builder::new()
        .name("control".to_owned())
        .spawn(move || {
            weir_exec::step_aside();
            runtime.block_on(serve);
            drop(socket);
        })
        .map_err(failed)
}

/// Reloads at each SIGHUP.
async fn reload_on_hangup(hangups: Hangups, asked: Arc<Asked>) {
    loop {
        tokio::time::sleep(LOOK).await;
        if hangups.came() {
            asked.reload_unasked().await;
        }
    }
}

/// Carries a change out also where the client goes: none is left half done.
async fn to_its_end<T: Send + 'static>(
    change: impl Future<Output = Result<T, Status>> + Send + 'static,
) -> Result<Response<T>, Status> {
    match tokio::spawn(change).await {
        Ok(answer) => answer.map(Response::new),
        Err(_) => Err(Status::internal("the change failed")),
    }
}

fn filter(text: &str) -> Result<Arc<Filter>, Status> {
    let read = text.parse::<Filter>();
    read.map(Arc::new)
        .map_err(|error| Status::invalid_argument(error.to_string()))
}

/// How states come over.
fn mode_of(mode: i32) -> Result<ScriptMode, Status> {
    match v1::MoveMode::try_from(mode) {
        Ok(v1::MoveMode::Unspecified | v1::MoveMode::Push) => Ok(ScriptMode::Push),
        Ok(v1::MoveMode::Pull) => Ok(ScriptMode::Pull),
        Ok(v1::MoveMode::Reprocess) => Ok(ScriptMode::Reprocess),
        Err(_) => {
            let message = format!("there is no mode {mode} of moves");
            Err(Status::invalid_argument(message))
        }
    }
}

#[tonic::async_trait]
impl Instance for Service {
    async fn get_info(
        &self,
        _: Request<v1::GetInfoRequest>,
    ) -> Result<Response<v1::GetInfoResponse>, Status> {
        Ok(Response::new(self.asked.info.clone()))
    }

    async fn get_stats(
        &self,
        _: Request<v1::GetStatsRequest>,
    ) -> Result<Response<v1::GetStatsResponse>, Status> {
        let counts = self.asked.counts().await?;
        Ok(Response::new(convert::stats(&self.asked, &counts)))
    }

    type WatchStatsStream = ReceiverStream<Result<v1::GetStatsResponse, Status>>;

    async fn watch_stats(
        &self,
        request: Request<v1::WatchStatsRequest>,
    ) -> Result<Response<Self::WatchStatsStream>, Status> {
        let interval = match request.into_inner().interval_ms {
            0 => 1_000,
            ms @ SHORTEST..=3_600_000 => ms,
            ms => {
                return Err(Status::invalid_argument(format!(
                    "an interval of {ms} ms: give one from 100 to 3,600,000"
                )));
            }
        };
        let (sender, receiver) = mpsc::channel(1);
        let asked = self.asked.clone();
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval(Duration::from_millis(u64::from(interval)));
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    _ = ticks.tick() => {}
                    () = sender.closed() => return,
                }
                // Asked when there is room for the answer: one that is slow to
                // take them gets fewer, and costs nothing.
                let Ok(place) = sender.reserve().await else {
                    return;
                };
                let answer = asked.counts().await;
                let failed = answer.is_err();
                place.send(answer.map(|counts| convert::stats(&asked, &counts)));
                if failed {
                    return;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn list_flows(
        &self,
        request: Request<v1::ListFlowsRequest>,
    ) -> Result<Response<v1::ListFlowsResponse>, Status> {
        let request = request.into_inner();
        let sort = match v1::FlowSort::try_from(request.sort) {
            Ok(v1::FlowSort::Unspecified) => FlowSort::None,
            Ok(v1::FlowSort::Packets) => FlowSort::Packets,
            Ok(v1::FlowSort::Age) => FlowSort::Age,
            Ok(v1::FlowSort::Idle) => FlowSort::Idle,
            Ok(v1::FlowSort::Client) => FlowSort::Client,
            Ok(v1::FlowSort::Server) => FlowSort::Server,
            Err(_) => {
                return Err(Status::invalid_argument(format!(
                    "there is no order {} of flows",
                    request.sort
                )));
            }
        };
        let limit = match request.limit {
            0 => FLOWS,
            limit @ 1..=MOST_FLOWS => limit,
            limit => {
                return Err(Status::invalid_argument(format!(
                    "a limit of {limit} flows: give one up to {MOST_FLOWS}"
                )));
            }
        };
        let wanted = FlowsQuery {
            filter: filter(&request.filter)?,
            sort,
            reverse: request.reverse,
            limit: limit as usize,
        };
        let found = self.asked.flows(wanted).await?;
        Ok(Response::new(v1::ListFlowsResponse {
            flows: found.flows.iter().map(convert::flow).collect(),
            matched: found.matched,
            active: found.active,
            whole: found.whole,
        }))
    }

    async fn get_flow(
        &self,
        request: Request<v1::GetFlowRequest>,
    ) -> Result<Response<v1::GetFlowResponse>, Status> {
        let text = request.into_inner().filter;
        let wanted = FlowsQuery {
            filter: filter(&text)?,
            sort: FlowSort::None,
            reverse: false,
            limit: 2,
        };
        let found = self.asked.flows(wanted).await?;
        let none = || Status::not_found("no open flow matches");
        let seen = match found.flows.as_slice() {
            [] => return Err(none()),
            [seen] => seen,
            _ => {
                return Err(Status::failed_precondition(
                    "several flows match: narrow the filter, or name one by `id` and `chain`",
                ));
            }
        };
        let states = self.asked.states(seen).await?.ok_or_else(none)?;
        Ok(Response::new(convert::states(seen.thread, &states)))
    }

    async fn end_flows(
        &self,
        request: Request<v1::EndFlowsRequest>,
    ) -> Result<Response<v1::EndFlowsResponse>, Status> {
        let text = request.into_inner().filter;
        if text.trim().is_empty() {
            return Err(Status::invalid_argument(
                "which flows? give a filter; `all` ends every flow",
            ));
        }
        let ended = self.asked.end(filter(&text)?).await?;
        Ok(Response::new(v1::EndFlowsResponse { ended }))
    }

    async fn compare_replicas(
        &self,
        request: Request<v1::CompareReplicasRequest>,
    ) -> Result<Response<v1::CompareReplicasResponse>, Status> {
        let compared = self.asked.compare(request.into_inner().begin).await?;
        let runtimes =
            compared
                .into_iter()
                .map(|Comparison { runtime, found }| v1::ReplicaComparison {
                    runtime,
                    round: found.round,
                    left: found.left,
                    equal: found.equal,
                    differs: found.differs,
                    behind: found.behind,
                    missing: found.missing,
                    over: found.over,
                    unanswered: found.unanswered,
                    skipped: found.skipped,
                });
        Ok(Response::new(v1::CompareReplicasResponse {
            runtimes: runtimes.collect(),
        }))
    }

    async fn move_units(
        &self,
        request: Request<v1::MoveUnitsRequest>,
    ) -> Result<Response<v1::MoveUnitsResponse>, Status> {
        let request = request.into_inner();
        let mode = mode_of(request.mode)?;
        let wanted = MoveUnits {
            from: request.from,
            to: request.to,
            count: (request.count > 0).then_some(request.count),
            mode,
        };
        let moving = self.asked.move_units(wanted).await?;
        Ok(Response::new(v1::MoveUnitsResponse { moving }))
    }

    async fn drain_runtimes(
        &self,
        request: Request<v1::DrainRuntimesRequest>,
    ) -> Result<Response<v1::DrainRuntimesResponse>, Status> {
        let request = request.into_inner();
        let mode = mode_of(request.mode)?;
        let wanted = match request.renew {
            false => Resize::Drain(request.runtimes, mode),
            true => Resize::Renew(request.runtimes, mode),
        };
        self.asked.resize(wanted).await?;
        Ok(Response::new(v1::DrainRuntimesResponse {}))
    }

    async fn scale_runtimes(
        &self,
        request: Request<v1::ScaleRuntimesRequest>,
    ) -> Result<Response<v1::ScaleRuntimesResponse>, Status> {
        let request = request.into_inner();
        let wanted = Resize::Scale(request.runtimes, mode_of(request.mode)?);
        let Resized { started, draining } = self.asked.resize(wanted).await?;
        Ok(Response::new(v1::ScaleRuntimesResponse {
            started,
            draining,
        }))
    }

    async fn reload(
        &self,
        request: Request<v1::ReloadRequest>,
    ) -> Result<Response<v1::ReloadResponse>, Status> {
        let asked = Arc::clone(&self.asked);
        to_its_end(async move { asked.reload(request.into_inner()).await }).await
    }

    async fn list_programs(
        &self,
        request: Request<v1::ListProgramsRequest>,
    ) -> Result<Response<v1::ListProgramsResponse>, Status> {
        let target = request.into_inner().target;
        self.asked.programs(target).await.map(Response::new)
    }

    async fn upgrade_process(
        &self,
        request: Request<v1::UpgradeProcessRequest>,
    ) -> Result<Response<v1::UpgradeProcessResponse>, Status> {
        let asked = Arc::clone(&self.asked);
        let upgrade = async move {
            let upgraded = asked.upgrade(request.into_inner()).await;
            upgraded.map(|()| v1::UpgradeProcessResponse {})
        };
        to_its_end(upgrade).await
    }

    async fn list_sets(
        &self,
        _: Request<v1::ListSetsRequest>,
    ) -> Result<Response<v1::ListSetsResponse>, Status> {
        Ok(Response::new(self.asked.list_sets()))
    }

    async fn list_set_entries(
        &self,
        request: Request<v1::ListSetEntriesRequest>,
    ) -> Result<Response<v1::ListSetEntriesResponse>, Status> {
        let entries = self.asked.list_set_entries(request.get_ref())?;
        Ok(Response::new(entries))
    }

    async fn change_set(
        &self,
        request: Request<v1::ChangeSetRequest>,
    ) -> Result<Response<v1::ChangeSetResponse>, Status> {
        let asked = Arc::clone(&self.asked);
        to_its_end(async move { asked.change_set(request.into_inner()).await }).await
    }

    async fn list_drop_reasons(
        &self,
        _: Request<v1::ListDropReasonsRequest>,
    ) -> Result<Response<v1::ListDropReasonsResponse>, Status> {
        let counts = self.asked.counts().await?;
        let reasons = convert::drop_reasons(&self.asked, &counts);
        Ok(Response::new(v1::ListDropReasonsResponse { reasons }))
    }

    async fn list_hosts(
        &self,
        _: Request<v1::ListHostsRequest>,
    ) -> Result<Response<v1::ListHostsResponse>, Status> {
        let counts = self.asked.counts().await?;
        let hosts = convert::hosts(&self.asked, &counts);
        Ok(Response::new(v1::ListHostsResponse { hosts }))
    }

    async fn get_bill(
        &self,
        request: Request<v1::GetBillRequest>,
    ) -> Result<Response<v1::GetBillResponse>, Status> {
        let Some(billed) = self.asked.billed.clone() else {
            return Err(Status::unimplemented(NO_SWITCH));
        };
        let request = request.into_inner();
        // Files are read.
        let answer = tokio::task::spawn_blocking(move || billed.answer(&request)).await;
        match answer {
            Ok(answer) => answer.map(Response::new),
            Err(_) => Err(Status::internal("the bill could not be made")),
        }
    }

    type WatchEventsStream = ReceiverStream<Result<v1::Event, Status>>;

    async fn watch_events(
        &self,
        request: Request<v1::WatchEventsRequest>,
    ) -> Result<Response<Self::WatchEventsStream>, Status> {
        let v1::WatchEventsRequest { follow, after } = request.into_inner();
        match self.asked.events.newest() {
            0 => return Err(Status::unimplemented(NO_SWITCH)),
            newest if after > newest => {
                return Err(Status::out_of_range(format!(
                    "the newest event of this run has number {newest}"
                )));
            }
            _ => {}
        }
        let (sender, receiver) = mpsc::channel(1);
        let asked = self.asked.clone();
        let following = self.asked.followers.clone();
        tokio::spawn(async move {
            let _following = following;
            let mut last = after;
            loop {
                let events = asked.events.after(last, EVENTS);
                let all = events.len() < EVENTS;
                for event in events {
                    last = event.number;
                    let event = convert::event(&asked, event);
                    if sender.send(Ok(event)).await.is_err() {
                        return;
                    }
                }
                if !all {
                    continue;
                }
                if !follow {
                    return;
                }
                tokio::select! {
                    () = tokio::time::sleep(LOOK) => {}
                    () = sender.closed() => return,
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    type TraceStream = TraceStream;

    async fn trace(
        &self,
        request: Request<v1::TraceRequest>,
    ) -> Result<Response<Self::TraceStream>, Status> {
        let stream = self.watchers.trace(request.into_inner(), &self.asked)?;
        Ok(Response::new(stream))
    }

    type TapStream = TapStream;

    async fn tap(
        &self,
        request: Request<v1::TapRequest>,
    ) -> Result<Response<Self::TapStream>, Status> {
        let stream = self.watchers.tap(request.into_inner(), &self.asked)?;
        Ok(Response::new(stream))
    }
}
