//! `weir upgrade`: another program for all processes of a cluster, one after another, while packets
//! flow (docs/upgrade.md).
//!
//! The command leads, and the instance keeps nothing of it: what is to be done follows from the programs
//! that run. So it may be broken off, and goes on where it was when it is given again.

mod patient;
mod programs;
mod watch;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use serde_json::{Value, json};
use tonic::Code;
use weir_api::v1;
use weir_ctl::client;

use crate::args::{Format, Upgrade};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{self, counted};

use super::resize::{Places, is_up, places};
use super::table::text;
use super::{Client, failure};
use patient::patiently;
use programs::{Goal, Programs};
pub(super) use programs::{listed, table};
use watch::Drops;

/// What is said of a switch that may have handed over before its answer was out.
const GONE: [Code; 3] = [Code::Unavailable, Code::Unknown, Code::DeadlineExceeded];
/// Interval between questions to the instance.
const LOOK: Duration = Duration::from_millis(50);

pub(crate) fn upgrade(args: &Upgrade) -> Outcome {
    let target = match &args.to {
        None => v1::ProgramTarget {
            former: true,
            ..v1::ProgramTarget::default()
        },
        Some(path) => {
            let whole = std::path::absolute(path).map_err(|error| {
                Failure::outside(format!("can't tell where {} is: {error}", path.display()))
            })?;
            v1::ProgramTarget {
                path: whole.display().to_string(),
                former: false,
            }
        }
    };
    if super::through(args.shown.instance.as_deref())?.is_some() {
        return Err(Failure::usage(
            "an upgrade is followed on the host whose switch runs, also while that becomes another \
             program: run the command there, without a coordinator",
        ));
    }
    let (_, socket) = super::find(args.shown.instance.as_deref())?;
    let mut job = super::ask(args.shown.instance.as_deref(), async |client| {
        let mut job = Job::new(args, client, socket, target);
        job.failed = job.run().await.err();
        Ok(job)
    })?;
    job.bar.finish_and_clear();
    let failed = job.failed.take();
    if args.shown.output == Format::Json {
        output::json(&job.json(failed.as_ref()))?;
    }
    failed.map_or(Ok(Exit::Done), Err)
}

/// A process that has become another program, or a runtime that a new process has the flows of.
#[derive(Debug)]
struct Step {
    what: &'static str,
    host: String,
    /// Ids of the runtimes that are over and that run in their places, and units that were moved.
    runtimes: Option<(u32, u32, u64)>,
    took: Duration,
}

struct Job<'a> {
    args: &'a Upgrade,
    client: Client,
    socket: PathBuf,
    target: v1::ProgramTarget,
    goal: Goal,
    drops: Drops,
    /// What each process was, and would become.
    hosts: Value,
    steps: Vec<Step>,
    begun: Instant,
    bar: ProgressBar,
    failed: Option<Failure>,
}

impl<'a> Job<'a> {
    fn new(
        args: &'a Upgrade,
        client: Client,
        socket: PathBuf,
        target: v1::ProgramTarget,
    ) -> Job<'a> {
        let is_quiet = args.shown.quiet || args.dry_run || args.shown.output == Format::Json;
        Job {
            args,
            client,
            socket,
            target,
            goal: Goal::default(),
            drops: Drops::default(),
            hosts: Value::Null,
            steps: Vec::new(),
            begun: Instant::now(),
            bar: match is_quiet {
                true => ProgressBar::hidden(),
                false => ProgressBar::new_spinner(),
            },
            failed: None,
        }
    }

    async fn run(&mut self) -> Result<(), Failure> {
        let seen = self.look(true).await?;
        self.goal = Goal::of(&seen, self.target.former)?;
        if self.args.dry_run {
            self.tell(&text(&table(&seen.hosts, true)))?;
        }
        self.check(&seen)?;
        seen.check_room(&self.goal)?;
        self.hosts = listed(&seen.hosts);
        if self.args.dry_run {
            return Ok(());
        }
        if seen.are(&self.goal) {
            return self.tell(&format!(
                "nothing changes: all processes are {} already\n",
                self.goal.shown()
            ));
        }
        self.tell(&format!("all processes are to be {}", self.goal.shown()))?;
        self.drops = Drops::begin(&mut self.client, self.args.timeout).await?;
        // Each step makes one process more the one that is wanted, unless one dies meanwhile.
        let most = 2 * seen.processes();
        while self.steps.len() < most {
            let seen = self.look(false).await?;
            if let Some(host) = seen.next_agent(&self.goal) {
                self.upgrade_agent(&host).await?;
            } else if let Some((host, runtime)) = seen.next_runtime(&self.goal) {
                self.renew_runtime(&host, runtime).await?;
            } else if seen.has_more(&self.goal) {
                // One that starts or ends: it is done when it is ready, or over.
                tokio::time::sleep(LOOK).await;
            } else if let Some(host) = seen.switch_left(&self.goal) {
                self.upgrade_switch(&host).await?;
            } else {
                return self.tell(&self.summary());
            }
        }
        Err(Failure::outside(
            "processes have become what they were again: another upgrade is under way, or what starts \
             them has the program before",
        ))
    }

    /// The programs that run, and with `target` what each process says of that.
    async fn look(&mut self, target: bool) -> Result<Programs, Failure> {
        let request = v1::ListProgramsRequest {
            target: target.then(|| self.target.clone()),
        };
        let list = async |client: &mut Client| client.list_programs(request.clone()).await;
        let listed = patiently(&mut self.client, self.args.timeout, list).await?;
        let places = self.places().await?;
        Ok(Programs {
            hosts: listed.hosts,
            places,
        })
    }

    fn check(&self, seen: &Programs) -> Result<(), Failure> {
        let (back, no_way_back) = (self.target.former, self.args.no_way_back);
        self.goal.check(seen, back, no_way_back)
    }

    /// What the instance counts. One that is too busy to answer is asked again.
    async fn stats(&mut self) -> Result<v1::GetStatsResponse, Failure> {
        let timeout = self.args.timeout;
        let get = async |client: &mut Client| client.get_stats(v1::GetStatsRequest {}).await;
        patiently(&mut self.client, timeout, get).await
    }

    async fn places(&mut self) -> Result<Places, Failure> {
        let places = self.stats().await?.runtimes.into_iter();
        Ok(places.map(|place| (place.id, place)).collect())
    }

    async fn upgrade_agent(&mut self, host: &str) -> Result<(), Failure> {
        let begun = Instant::now();
        self.bar.set_message(format!("host {host}: its agent"));
        self.bar.tick();
        self.upgrade_process(host, false).await?;
        self.settle().await?;
        self.drops
            .check(&mut self.client, self.args.timeout)
            .await?;
        self.note(Step {
            what: "agent",
            host: host.to_owned(),
            runtimes: None,
            took: begun.elapsed(),
        })
    }

    async fn upgrade_process(&mut self, host: &str, is_switch: bool) -> Result<(), Failure> {
        let request = v1::UpgradeProcessRequest {
            host: host.to_owned(),
            is_switch,
            target: Some(self.target.clone()),
            digest: self.goal.digest().to_owned(),
        };
        let upgraded = self.client.upgrade_process(request).await;
        upgraded.map(drop).or_else(|status| {
            // A switch that has handed over may be gone before its answer is out.
            if is_switch && GONE.contains(&status.code()) {
                return Ok(());
            }
            let what = if is_switch { "the switch" } else { "its agent" };
            let why = failure(&status);
            Err(Failure::outside(format!(
                "host {host}: {what}: {}",
                why.why()
            )))
        })
    }

    /// Has a runtime's flows go to the others, and back to one of the next program in its place.
    async fn renew_runtime(&mut self, host: &str, runtime: u32) -> Result<(), Failure> {
        let begun = Instant::now();
        let before = self.places().await?;
        let Some(place) = before.get(&runtime).cloned() else {
            // It has died meanwhile: its successor has the next program.
            return Ok(());
        };
        self.drain(&[runtime], true).await?;
        let what = format!("runtime {runtime} gives its flows away, and another one starts");
        let next = self.wait(&what, |stats| {
            let mut there = stats.runtimes.iter().filter(|now| now.place == place.place);
            let next = there.find(|now| now.id != runtime && is_up(now));
            next.map(|now| now.id)
        });
        let next = next.await?;
        let after = self.places().await?;
        self.move_back(&before, &after, &[(place.owns, next)])
            .await?;
        self.settle().await?;
        self.drops
            .check(&mut self.client, self.args.timeout)
            .await?;
        self.note(Step {
            what: "runtime",
            host: host.to_owned(),
            runtimes: Some((runtime, next, place.owns)),
            took: begun.elapsed(),
        })
    }

    /// Has the switch hand over to one of the next program. Runtimes in its process give their flows
    /// to the others before.
    async fn upgrade_switch(&mut self, host: &str) -> Result<(), Failure> {
        let begun = Instant::now();
        let seen = self.look(true).await?;
        // Before its runtimes are gone.
        self.check(&seen)?;
        let before = seen.places;
        let here = before.values().filter(|place| place.site != "agent");
        let here: Vec<v1::RuntimePlace> = here.filter(|place| is_up(place)).cloned().collect();
        if !here.is_empty() {
            let ids: Vec<u32> = here.iter().map(|place| place.id).collect();
            self.drain(&ids, false).await?;
            let what = "runtimes in the switch's process give their flows away";
            self.wait(what, |stats| {
                let is_there =
                    |now: &v1::RuntimePlace| ids.contains(&now.id) && now.state != "over";
                (!stats.runtimes.iter().any(is_there)).then_some(())
            })
            .await?;
        }
        let after = self.places().await?;
        let started = started(&mut self.client).await?;
        self.upgrade_process(host, true).await?;
        self.drops.begin_anew();
        self.reconnect(&before, started).await?;
        let all = |stats: &v1::GetStatsResponse| {
            let mut runtimes = stats.runtimes.iter();
            let starts = runtimes.any(|place| place.state == "starting");
            (!starts).then_some(())
        };
        self.wait("runtimes of the next switch start", all).await?;
        let now = self.places().await?;
        let next = here.iter().filter_map(|was| {
            let next = now.values().find(|place| place.place == was.place)?;
            Some((was.owns, next.id))
        });
        let next: Vec<(u64, u32)> = next.collect();
        self.move_back(&before, &after, &next).await?;
        self.settle().await?;
        self.drops
            .check(&mut self.client, self.args.timeout)
            .await?;
        self.note(Step {
            what: "switch",
            host: host.to_owned(),
            runtimes: None,
            took: begun.elapsed(),
        })
    }

    /// Has runtimes give their flows to the others, and end.
    async fn drain(&mut self, runtimes: &[u32], renew: bool) -> Result<(), Failure> {
        let request = v1::DrainRuntimesRequest {
            runtimes: runtimes.to_vec(),
            mode: v1::MoveMode::Unspecified.into(),
            renew,
        };
        let drain = async |client: &mut Client| client.drain_runtimes(request.clone()).await;
        let drained = patiently(&mut self.client, self.args.timeout, drain).await;
        drained.map(drop)
    }

    /// Moves as many units to each of `next` as the one before it had: from those that have more of
    /// them since.
    async fn move_back(
        &mut self,
        before: &Places,
        after: &Places,
        next: &[(u64, u32)],
    ) -> Result<(), Failure> {
        let stats = self.stats().await?;
        let chains = stats.switches.len().max(1) as u64;
        let total: u64 = next.iter().map(|(units, _)| units).sum();
        for (id, now) in after {
            let had = before.get(id).map_or(0, |was| was.owns);
            let more = now.owns.saturating_sub(had);
            for (units, to) in next.iter().filter(|(units, _)| *units > 0) {
                let share = (more * units).div_ceil(total.max(1)).div_ceil(chains);
                if share == 0 || id == to {
                    continue;
                }
                let request = v1::MoveUnitsRequest {
                    from: *id,
                    to: *to,
                    count: share.min(u64::from(u32::MAX)) as u32,
                    mode: v1::MoveMode::Unspecified.into(),
                };
                // Flows may have ended, and runtimes died: what is not moved back stays where it is.
                let _ = self.client.move_units(request).await;
            }
        }
        Ok(())
    }

    /// Waits until no unit moves, and each has its replica if it is to have one.
    async fn settle(&mut self) -> Result<(), Failure> {
        self.wait("flows move back", |stats| {
            let ready = stats.runtimes.iter().filter(|place| is_up(place)).count();
            let is_settled = stats.switches.iter().all(|switch| {
                let replicates = switch.replication != "none" && ready > 1;
                let unprotected = if replicates { switch.unprotected } else { 0 };
                switch.unsettled + switch.queued + unprotected == 0
            });
            is_settled.then_some(())
        })
        .await
    }

    /// Waits for the switch that takes over, with as many runtimes as there were.
    /// The one that was asked until now has `old` as its start.
    async fn reconnect(&mut self, before: &Places, old: u64) -> Result<(), Failure> {
        let until = Instant::now() + self.args.timeout;
        // Those that it takes over; others start then.
        let lasts = |place: &&v1::RuntimePlace| is_up(place) && place.site == "agent";
        let ready = before.values().filter(lasts).count();
        loop {
            self.bar.set_message("the next switch takes over");
            self.bar.tick();
            tokio::time::sleep(LOOK).await;
            if let Ok(mut client) = client::connect(&self.socket).await
                && started(&mut client).await.is_ok_and(|start| start != old)
                && let Ok(there) = places(&mut client).await
                && there.values().filter(lasts).count() >= ready
            {
                self.client = client;
                return Ok(());
            }
            if Instant::now() >= until {
                return Err(Failure::outside(format!(
                    "the switch has handed over, and the next one does not have all runtimes \
                     after {:.0} s: `weir get runtimes` shows how it goes on",
                    self.args.timeout.as_secs_f64()
                )));
            }
        }
    }

    /// Waits until something is there.
    async fn wait<T>(
        &mut self,
        what: &str,
        find: impl Fn(&v1::GetStatsResponse) -> Option<T>,
    ) -> Result<T, Failure> {
        let begun = Instant::now();
        loop {
            let stats = self.stats().await?;
            if let Some(found) = find(&stats) {
                return Ok(found);
            }
            if begun.elapsed() >= self.args.timeout {
                return Err(Failure::outside(format!(
                    "after {:.0} s {what} still: `weir get runtimes` and `weir get moves` show how it \
                     goes on; give the command again to go on, or `weir upgrade --rollback`",
                    self.args.timeout.as_secs_f64()
                )));
            }
            self.bar.set_message(what.to_owned());
            self.bar.tick();
            tokio::time::sleep(LOOK).await;
        }
    }

    fn note(&mut self, step: Step) -> Result<(), Failure> {
        let text = step.text();
        self.steps.push(step);
        self.tell(&text)
    }

    /// Prints what is for people.
    fn tell(&self, text: &str) -> Result<(), Failure> {
        match self.args.shown.output {
            Format::Json => Ok(()),
            Format::Text => self.bar.suspend(|| output::line(text.trim_end())),
        }
    }

    fn summary(&self) -> String {
        let count = |what| {
            let of = self.steps.iter().filter(|step| step.what == what);
            // An agent that died was upgraded again.
            let hosts: BTreeSet<&str> = of.clone().map(|step| step.host.as_str()).collect();
            match what {
                "agent" => hosts.len() as u64,
                _ => of.count() as u64,
            }
        };
        let switch = match count("switch") {
            0 => "",
            _ => ", the switch",
        };
        format!(
            "all processes are {} after {:.2} s: {}, {}{switch}",
            self.goal.shown(),
            self.begun.elapsed().as_secs_f64(),
            counted(count("agent"), "agent"),
            counted(count("runtime"), "runtime"),
        )
    }

    fn json(&self, failed: Option<&Failure>) -> Value {
        let steps: Vec<Value> = self.steps.iter().map(Step::json).collect();
        json!({
            "program": self.goal.json(),
            "hosts": self.hosts,
            "steps": steps,
            "done": failed.is_none() && !self.args.dry_run,
            "seconds": self.begun.elapsed().as_secs_f64(),
            "error": failed.map(Failure::why),
        })
    }
}

/// When the instance has started: in-place, its process may be the one before.
async fn started(client: &mut Client) -> Result<u64, Failure> {
    let info = client.get_info(v1::GetInfoRequest {}).await;
    let info = info.map_err(|status| failure(&status))?.into_inner();
    Ok(info.started_unix_ns)
}

impl Step {
    fn text(&self) -> String {
        let (host, took) = (&self.host, self.took.as_secs_f64());
        match (self.what, self.runtimes) {
            (_, Some((before, next, units))) => format!(
                "host {host}: runtime {next} has taken the place of runtime {before}, with its {}, \
                 in {took:.2} s",
                counted(units, "unit")
            ),
            ("switch", None) => format!("host {host}: the switch has handed over in {took:.2} s"),
            (_, None) => format!("host {host}: its agent is the next program, in {took:.2} s"),
        }
    }

    fn json(&self) -> Value {
        json!({
            "process": self.what,
            "host": self.host,
            "runtime": self.runtimes.map(|(before, _, _)| before),
            "next": self.runtimes.map(|(_, next, _)| next),
            "units": self.runtimes.map(|(_, _, units)| units),
            "seconds": self.took.as_secs_f64(),
        })
    }
}
