//! `weir drain` and `weir scale`: runtimes that come and go while packets flow.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use serde_json::{Value, json};
use weir_api::v1;

use crate::args::{Drain, Format, Resizing, Scale};
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::output::counted;

use super::moves::mode_of;
use super::{Client, NO_SWITCH, ask, failure};

/// Interval between questions to the instance.
const LOOK: Duration = Duration::from_millis(50);

pub(crate) fn drain(args: &Drain) -> Outcome {
    let how = &args.how;
    let seen = ask(how.shown.instance.as_deref(), async |mut client| {
        let before = places(&mut client).await?;
        let runtimes = match &args.host {
            Some(host) => on_host(&before, host)?,
            None => args.runtimes.clone(),
        };
        let mut watch = Watch::new(how, before);
        let request = v1::DrainRuntimesRequest {
            runtimes: runtimes.clone(),
            mode: mode_of(how.mode).into(),
            renew: false,
        };
        let asked = client.drain_runtimes(request).await;
        asked.map_err(|status| failure(&status))?;
        watch.draining = runtimes;
        watch.failed = watch.wait(&mut client).await.err();
        Ok(watch)
    })?;
    let text = seen.told();
    answer(seen, how.shown.output, json!({}), &text)
}

pub(crate) fn scale(args: &Scale) -> Outcome {
    let how = &args.how;
    let seen = ask(how.shown.instance.as_deref(), async |mut client| {
        let before = places(&mut client).await?;
        let request = v1::ScaleRuntimesRequest {
            runtimes: args.runtimes,
            mode: mode_of(how.mode).into(),
        };
        let asked = client.scale_runtimes(request).await;
        let asked = asked.map_err(|status| failure(&status))?.into_inner();
        let mut watch = Watch::new(how, before);
        (watch.starting, watch.draining) = (asked.started, asked.draining);
        watch.failed = watch.wait(&mut client).await.err();
        Ok(watch)
    })?;
    let text = match seen.is_nothing() {
        true => format!(
            "nothing changes: {} already",
            counted(args.runtimes, "runtime")
        ),
        false => seen.told(),
    };
    let json = json!({ "runtimes": args.runtimes, "started": seen.starting });
    answer(seen, how.shown.output, json, &text)
}

/// Prints what has come and gone, in JSON behind what is in `json`; where it failed, in JSON alone.
fn answer(seen: Watch, output: Format, mut json: Value, text: &str) -> Outcome {
    match output {
        Format::Json => {
            json["drained"] = seen.drained();
            json["done"] = seen.is_done().into();
            json["seconds"] = seen.seconds().into();
            json["error"] = seen.error().into();
            output::json(&json)?;
        }
        Format::Text if seen.failed.is_some() => {}
        Format::Text => output::line(text)?,
    }
    seen.failed.map_or(Ok(Exit::Done), Err)
}

/// The places of runtimes, by the ids of these.
pub(super) type Places = BTreeMap<u32, v1::RuntimePlace>;

pub(super) fn is_up(place: &v1::RuntimePlace) -> bool {
    place.state == "ready"
}

pub(super) async fn places(client: &mut Client) -> Result<Places, Failure> {
    let stats = client.get_stats(v1::GetStatsRequest {}).await;
    let stats = stats.map_err(|status| failure(&status))?.into_inner();
    if stats.switches.is_empty() {
        return Err(Failure::outside(NO_SWITCH));
    }
    let places = stats.runtimes.into_iter();
    Ok(places.map(|place| (place.id, place)).collect())
}

/// The runtimes on a host that are not over.
fn on_host(places: &Places, host: &str) -> Result<Vec<u32>, Failure> {
    let its = places.values().filter(|place| place.host == host);
    let there = its.filter(|place| !matches!(&*place.state, "over" | "leaving"));
    let ids: Vec<u32> = there.map(|place| place.id).collect();
    if ids.is_empty() {
        let there = places.values().filter(|place| place.state != "over");
        let names: BTreeSet<&str> = there.map(|place| place.host.as_str()).collect();
        let names: Vec<&str> = names.into_iter().collect();
        return Err(Failure::outside(format!(
            "no runtime is on a host {host}: runtimes are on {}",
            names.join(", ")
        )));
    }
    Ok(ids)
}

/// Runtimes that come and go.
struct Watch {
    /// The places before anything was asked for.
    before: Places,
    starting: Vec<u32>,
    draining: Vec<u32>,
    /// Why not all have come and gone.
    failed: Option<Failure>,
    /// Units whose state no second runtime has, in the end.
    unprotected: u64,
    begun: Instant,
    took: Duration,
    timeout: Duration,
    bar: ProgressBar,
}

impl Watch {
    fn new(how: &Resizing, before: Places) -> Watch {
        Watch {
            before,
            starting: Vec::new(),
            draining: Vec::new(),
            failed: None,
            unprotected: 0,
            begun: Instant::now(),
            took: Duration::ZERO,
            timeout: how.timeout,
            bar: match how.shown.quiet || how.timeout.is_zero() {
                true => ProgressBar::hidden(),
                false => ProgressBar::new_spinner(),
            },
        }
    }

    fn is_waited_for(&self) -> bool {
        !self.timeout.is_zero()
    }

    /// Waits until all have come and gone.
    ///
    /// # Errors
    ///
    /// One died, did not start, or they took too long; the instance has ended.
    async fn wait(&mut self, client: &mut Client) -> Result<(), Failure> {
        while self.is_waited_for() {
            let now = places(client).await?;
            let left = self.left(&now)?;
            self.took = self.begun.elapsed();
            if left.is_empty() {
                let unprotected = now.values().map(|place| place.unprotected);
                // Where a second runtime could have them, it has them in a moment.
                self.unprotected = match now.values().filter(|place| is_up(place)).count() {
                    1 => unprotected.sum(),
                    _ => 0,
                };
                break;
            }
            let left = left.join(", ");
            if self.took >= self.timeout {
                return Err(Failure::outside(format!(
                    "after {:.1} s {left}; `weir get runtimes` shows how it goes on",
                    self.took.as_secs_f64()
                )));
            }
            self.bar.set_message(left);
            self.bar.tick();
            tokio::time::sleep(LOOK).await;
        }
        self.bar.finish_and_clear();
        Ok(())
    }

    /// The runtimes that have not come or gone yet, in words.
    fn left(&self, now: &Places) -> Result<Vec<String>, Failure> {
        let mut left = Vec::new();
        for id in &self.draining {
            let Some(before) = self.before.get(id) else {
                continue;
            };
            let place = now.values().find(|place| place.place == before.place);
            let Some(place) = place else { continue };
            // One that only was to start had no flows.
            if place.deaths > before.deaths && before.state != "starting" {
                return Err(Failure::outside(format!(
                    "runtime {id} died before it had ended; with replication its flows go on at \
                     their replicas"
                )));
            }
            if place.id == *id && place.state != "over" {
                left.push(match (place.owns, place.replicas) {
                    (0, 0) => format!("runtime {id} has not ended"),
                    (0, replicas) => {
                        format!("runtime {id} has {} left", counted(replicas, "replica"))
                    }
                    (units, _) => format!("runtime {id} has {} left", counted(units, "unit")),
                });
            }
        }
        for id in &self.starting {
            match now.get(id) {
                Some(place) if place.state == "over" && place.deaths > self.deaths(place.place) => {
                    return Err(Failure::outside(format!(
                        "runtime {id} died as it started: the instance says why"
                    )));
                }
                Some(place) if place.state == "starting" => {
                    left.push(format!("runtime {id} is not ready"));
                }
                Some(place) if place.state != "over" => {}
                _ => {
                    return Err(Failure::outside(format!(
                        "runtime {id} is over already: `weir get runtimes` shows who runs"
                    )));
                }
            }
        }
        Ok(left)
    }

    /// Deaths at a place before anything was asked for.
    fn deaths(&self, place: u32) -> u64 {
        let before = self.before.values().find(|was| was.place == place);
        before.map_or(0, |was| was.deaths)
    }

    /// True where no runtime comes or goes.
    fn is_nothing(&self) -> bool {
        self.starting.is_empty() && self.draining.is_empty()
    }

    /// True where all were seen to come and go.
    fn is_done(&self) -> bool {
        self.is_nothing() || self.is_waited_for() && self.failed.is_none()
    }

    fn error(&self) -> Option<&str> {
        self.failed.as_ref().map(Failure::why)
    }

    fn units(&self, id: u32) -> u64 {
        self.before.get(&id).map_or(0, |place| place.owns)
    }

    fn seconds(&self) -> Option<f64> {
        self.is_waited_for().then_some(self.took.as_secs_f64())
    }

    fn drained(&self) -> Value {
        let all = self.draining.iter();
        all.map(|id| json!({ "runtime": id, "units": self.units(*id) }))
            .collect()
    }

    /// For people.
    fn told(&self) -> String {
        let is_done = self.is_waited_for();
        let mut lines = Vec::new();
        for id in &self.starting {
            lines.push(match is_done {
                true => format!("runtime {id} runs"),
                false => format!("runtime {id} starts"),
            });
        }
        for id in &self.draining {
            let units = counted(self.units(*id), "unit");
            lines.push(match is_done {
                true => format!("runtime {id} is over: the others have its {units}"),
                false => format!("runtime {id} gives its {units} away"),
            });
        }
        if self.unprotected > 0 {
            lines.push(format!(
                "{} without a replica: no second runtime is left that could have it",
                counted(self.unprotected, "unit")
            ));
        }
        if is_done {
            lines.push(format!("done in {:.2} s", self.took.as_secs_f64()));
        }
        lines.join("\n")
    }
}
