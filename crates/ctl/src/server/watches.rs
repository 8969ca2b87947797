//! Watches over the control socket.
//!
//! Each is a task on the control thread: it arms the watch in every engine,
//! empties the rings, and takes the watch off again when it has enough or
//! its client is gone.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};
use weir_api::v1;
use weir_packet::filter::Filter;
use weir_runtime::watch::{MOST_TAPS, MOST_TRACES, TapPoint};

use crate::observe::{
    Arm, LONGEST, NamedPoint, Places, TapSpec, Taps, TraceSpec, Traces, Unseen, unfinished,
};

/// How often rings are emptied.
const LOOK: Duration = Duration::from_millis(10);
/// How long the last packets' later parts are waited for.
const PATIENCE: Duration = Duration::from_millis(500);
/// Messages that wait until they are taken.
const WAITING: usize = 4;
/// Most packets of a trace, and how many where nothing is said.
const MOST_PACKETS: u32 = 10_000;
const PACKETS_TRACED: u32 = 10;

/// The engines of a run, to be watched.
pub(crate) trait Engines: Send + Sync + 'static {
    /// The places at which the instance can be tapped.
    fn places(&self) -> &Places;
    /// Stages that can't be looked into.
    fn unseen(&self) -> &[Unseen];
    /// Names of the ingress ports, by number.
    fn port_names(&self) -> Vec<String>;
    /// Does something with every engine: how many there are.
    fn each(&self, action: Arm) -> impl Future<Output = Result<usize, Status>> + Send;
}

pub(crate) type TraceStream = ReceiverStream<Result<v1::TraceResponse, Status>>;
pub(crate) type TapStream = ReceiverStream<Result<v1::TapResponse, Status>>;

/// The watches of a run.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    taken: Mutex<Taken>,
    taps_so_far: AtomicU64,
}

#[derive(Debug, Default)]
struct Taken {
    /// Slots of traces, as bits.
    traces: u8,
    taps: usize,
}

/// A place among the watches, given back when it is dropped.
struct MemberId {
    watchers: Arc<Watchers>,
    /// The slot of a trace; none for a tap.
    slot: Option<u8>,
}

impl Drop for MemberId {
    fn drop(&mut self) {
        let mut taken = self.watchers.lock();
        match self.slot {
            Some(slot) => taken.traces &= !(1 << slot),
            None => taken.taps = taken.taps.saturating_sub(1),
        }
    }
}

impl Watchers {
    fn lock(&self) -> std::sync::MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn member_of_trace(self: &Arc<Watchers>) -> Result<(MemberId, u8), Status> {
        let mut taken = self.lock();
        let slot = taken.traces.trailing_ones();
        if slot as usize >= MOST_TRACES {
            return Err(Status::resource_exhausted(format!(
                "there are {MOST_TRACES} traces of this instance already: end one of them first"
            )));
        }
        taken.traces |= 1 << slot;
        let member = MemberId {
            watchers: Arc::clone(self),
            slot: Some(slot as u8),
        };
        Ok((member, slot as u8))
    }

    fn member_of_tap(self: &Arc<Watchers>) -> Result<(MemberId, u64), Status> {
        let mut taken = self.lock();
        if taken.taps >= MOST_TAPS {
            return Err(Status::resource_exhausted(format!(
                "there are {MOST_TAPS} taps of this instance already: end one of them first"
            )));
        }
        taken.taps += 1;
        let member = MemberId {
            watchers: Arc::clone(self),
            slot: None,
        };
        Ok((member, self.taps_so_far.fetch_add(1, Ordering::Relaxed)))
    }

    /// Begins a trace.
    ///
    /// # Errors
    ///
    /// The request makes no sense, or there are too many traces.
    pub(crate) fn trace<E: Engines>(
        self: &Arc<Watchers>,
        request: v1::TraceRequest,
        engines: &Arc<E>,
    ) -> Result<TraceStream, Status> {
        let packets = match request.packets {
            0 => PACKETS_TRACED,
            packets @ 1..=MOST_PACKETS => packets,
            packets => {
                return Err(Status::invalid_argument(format!(
                    "a trace of {packets} packets: ask for at most {MOST_PACKETS}"
                )));
            }
        };
        let spec = TraceSpec {
            filter: filter(&request.filter)?,
            packets: packets.into(),
            flow: request.flow,
            full: request.full,
        };
        let (member, slot) = self.member_of_trace()?;
        let (sender, receiver) = mpsc::channel(WAITING);
        let engines = Arc::clone(engines);
        tokio::spawn(async move {
            let traces = Traces::new(spec);
            let arm = Arm::Trace(slot, traces.arm());
            match armed(&*engines, arm).await {
                Ok(threads) => follow(traces, threads, &*engines, &sender).await,
                Err(status) => drop(sender.send(Err(status)).await),
            }
            disarm(&*engines, Arm::EndTrace(slot)).await;
            drop(member);
        });
        Ok(ReceiverStream::new(receiver))
    }

    /// Begins a tap.
    ///
    /// # Errors
    ///
    /// The request makes no sense, or there are too many taps.
    pub(crate) fn tap<E: Engines>(
        self: &Arc<Watchers>,
        request: v1::TapRequest,
        engines: &Arc<E>,
    ) -> Result<TapStream, Status> {
        let points = engines
            .places()
            .parse(&request.point)
            .map_err(Status::invalid_argument)?;
        for point in &points {
            let mut unseen = engines.unseen().iter();
            if let Some(unseen) = unseen.find(|unseen| unseen.has(&point.point)) {
                return Err(Status::unimplemented(format!(
                    "point `{}`: {} is not trusted (`untrusted`), so what its process would show \
                     is no more than its word; tap what is before and behind it",
                    point.name, unseen.stage
                )));
            }
        }
        let spec = TapSpec {
            points: points.iter().map(|point| point.point.clone()).collect(),
            filter: filter(&request.filter)?,
            packets: request.packets,
            snap_len: match request.snap_len {
                0 => LONGEST,
                bytes => bytes.min(LONGEST),
            },
        };
        let (member, number) = self.member_of_tap()?;
        let (sender, receiver) = mpsc::channel(WAITING);
        let engines = Arc::clone(engines);
        tokio::spawn(async move {
            let taps = Taps::new(spec);
            let arm = Arm::Tap(number, taps.arm());
            match armed(&*engines, arm).await {
                Ok(threads) => {
                    let begun = v1::WatchArmed {
                        threads,
                        points: points.iter().map(told_point).collect(),
                        unseen: match points.iter().all(|point| at_ports(&point.point)) {
                            true => Vec::new(),
                            false => unseen(&*engines),
                        },
                    };
                    copy(taps, begun, &sender).await;
                }
                Err(status) => drop(sender.send(Err(status)).await),
            }
            disarm(&*engines, Arm::EndTap(number)).await;
            drop(member);
        });
        Ok(ReceiverStream::new(receiver))
    }
}

fn filter(text: &str) -> Result<Filter, Status> {
    match text.trim() {
        "" => Ok(Filter::all()),
        text => text
            .parse()
            .map_err(|error: weir_packet::filter::FilterError| {
                Status::invalid_argument(error.to_string())
            }),
    }
}

/// Arms a watch everywhere; how many engines there are.
async fn armed(engines: &impl Engines, arm: Arm) -> Result<u32, Status> {
    match engines.each(arm).await? {
        0 => Err(Status::unimplemented(
            "no thread of this instance that can be asked runs a chain",
        )),
        engines => Ok(u32::try_from(engines).unwrap_or(u32::MAX)),
    }
}

/// Takes a watch off again, whatever it takes: a thread that is asked too much
/// is asked again.
async fn disarm(engines: &impl Engines, action: Arm) {
    while let Err(status) = engines.each(action.clone()).await {
        if matches!(status.code(), Code::Unavailable | Code::Unimplemented) {
            // It ends, and its watches with it; or there are none.
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Hands traces on until there are enough or the client is gone.
async fn follow(
    mut traces: Traces,
    threads: u32,
    engines: &impl Engines,
    sender: &mpsc::Sender<Result<v1::TraceResponse, Status>>,
) {
    use v1::trace_response::What;
    let answer = |what| Ok(v1::TraceResponse { what: Some(what) });
    let names = engines.port_names();
    let begun = v1::WatchArmed {
        threads,
        points: Vec::new(),
        unseen: unseen(engines),
    };
    if sender.send(answer(What::Armed(begun))).await.is_err() {
        return;
    }
    let mut left = 0;
    let mut last = Instant::now();
    loop {
        let mut parts = Vec::new();
        traces.take(&names, |part| parts.push(part));
        for part in parts {
            left += unfinished(&part);
            last = Instant::now();
            if sender.send(answer(What::Packet(part))).await.is_err() {
                return;
            }
        }
        if traces.is_full() && (left <= 0 || last.elapsed() > PATIENCE) {
            break;
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = sender.closed() => return,
        }
    }
    let end = v1::WatchEnd {
        lost: traces.lost(),
        lost_by_point: Vec::new(),
    };
    let _ = sender.send(answer(What::End(end))).await;
}

fn told_point(point: &NamedPoint) -> v1::TapPoint {
    v1::TapPoint {
        name: point.name.clone(),
        description: point.description.clone(),
    }
}

fn at_ports(point: &TapPoint) -> bool {
    matches!(point, TapPoint::In(_) | TapPoint::Out(_))
}

/// Names of the stages that can't be looked into.
fn unseen(engines: &impl Engines) -> Vec<String> {
    let unseen = engines.unseen().iter();
    unseen.map(|unseen| unseen.stage.clone()).collect()
}

/// Hands copies on until there are enough or the client is gone.
async fn copy(
    mut taps: Taps,
    begun: v1::WatchArmed,
    sender: &mpsc::Sender<Result<v1::TapResponse, Status>>,
) {
    use v1::tap_response::What;
    let answer = |what| Ok(v1::TapResponse { what: Some(what) });
    if sender.send(answer(What::Armed(begun))).await.is_err() {
        return;
    }
    while !taps.is_full() {
        // Taken when there is room for them: a slow client loses what finds no
        // empty copy.
        let Ok(place) = sender.reserve().await else {
            return;
        };
        let packets = taps.some();
        if packets.is_empty() {
            drop(place);
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                () = sender.closed() => return,
            }
        } else {
            place.send(answer(What::Packets(v1::TappedPackets {
                packets,
                lost_by_point: taps.lost(),
            })));
        }
    }
    let lost = taps.lost();
    let end = v1::WatchEnd {
        lost: lost.iter().sum(),
        lost_by_point: lost,
    };
    let _ = sender.send(answer(What::End(end))).await;
}
