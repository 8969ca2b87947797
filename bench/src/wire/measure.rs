//! One measurement of one arm. What comes of it is a line of the raw figures.

use std::net::UdpSocket;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Bench;
use super::arms::{Arm, FORWARDER, HOSTS, With};
use super::cores::{Reading, Used, processor_time};
use super::forwarder::Forwarder;
use super::network::{CLIENT, Network, SERVER};
use super::traffic::{blast, first, round_trips};

/// Time in which flows are opened before a load is measured.
const WARM_UP: Duration = Duration::from_millis(1_000);

/// Shares of both processors.
fn shares(begin: &Reading, end: &Reading) -> (Used, Value) {
    let [forwarder, hosts] = [FORWARDER, HOSTS].map(|core| begin.until(end, core));
    let share = |used: &Used| {
        let of = |seconds: f64| (seconds / used.window * 1e4).round() / 1e4;
        json!({"busy": of(used.busy), "others": of(used.others), "stolen": of(used.stolen)})
    };
    let both = json!({"forwarder": share(&forwarder), "hosts": share(&hosts)});
    (forwarder, both)
}

impl Bench {
    /// Packets of so many flows, as many as the generator can send.
    pub(super) fn load(
        &self,
        arm: &Arm,
        network: &Network,
        flows: u32,
        seconds: f64,
    ) -> Result<Value, String> {
        let stop = Arc::new(AtomicBool::new(false));
        let of_thread = Arc::clone(&stop);
        let realtime = self.realtime;
        let sender = network.spawn("client", move || {
            first(realtime)?;
            blast(HOSTS, flows, &of_thread)
        })?;
        let watched = self.watch(network, seconds);
        stop.store(true, Ordering::Relaxed);
        let sent = sender.join().map_err(|_| "the generator died")?;
        let (begin, end, translated, others) = watched?;
        let sent = sent?;
        let (forwarder, cores) = shares(&begin, &end);
        let arrived = translated + others;
        let translates = !matches!(arm.with, With::Bare(_));
        // An arm that does not do the work is not compared.
        if arrived == 0 || translates && translated * 100 < arrived * 99 {
            return Err(format!(
                "of {sent} packets sent {arrived} arrived, {translated} of them translated"
            ));
        }
        Ok(json!({
            "what": "load",
            "flows": flows,
            "sent_with_warm_up": sent,
            "arrived": arrived,
            "seconds": forwarder.window,
            "per_second": arrived as f64 / forwarder.window,
            "busy_seconds": forwarder.own(),
            "per_busy_second": arrived as f64 / forwarder.own(),
            "ns_per_packet": forwarder.own() / arrived as f64 * 1e9,
            "cores": cores,
        }))
    }

    fn watch(
        &self,
        network: &Network,
        seconds: f64,
    ) -> Result<(Reading, Reading, u64, u64), String> {
        self.sleep(WARM_UP)?;
        let from = network.arrived()?;
        let begin = Reading::now(&self.group);
        self.sleep(Duration::from_secs_f64(seconds))?;
        let end = Reading::now(&self.group);
        let to = network.arrived()?;
        Ok((begin, end, to[0] - from[0], to[1] - from[1]))
    }

    /// One TCP connection from the client to the server.
    pub(super) fn tcp(&self, network: &Network, seconds: u32) -> Result<Value, String> {
        let mut server = network
            .command("server", HOSTS, "iperf3")
            .args(["-s", "-1"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("ip: {error}"))?;
        std::thread::sleep(Duration::from_millis(300));
        let begin = Reading::now(&self.group);
        let ran = network
            .command("client", HOSTS, "iperf3")
            .args(["-c", SERVER, "-J", "-t", &seconds.to_string()])
            .args(["--connect-timeout", "3000"])
            .output();
        let end = Reading::now(&self.group);
        // It ends after one connection, or not at all.
        let _ = server.kill();
        let _ = server.wait();
        let ran = ran.map_err(|error| format!("ip: {error}"))?;
        let report: Value = serde_json::from_slice(&ran.stdout)
            .map_err(|error| format!("iperf3's answer is no JSON: {error}"))?;
        let number = |path: &str| report.pointer(path).and_then(Value::as_f64);
        let Some(speed) = number("/end/sum_received/bits_per_second") else {
            return Err(format!("iperf3: {}", report["error"]));
        };
        Ok(json!({
            "what": "tcp",
            "gigabits_per_s": speed / 1e9,
            "retransmits": number("/end/sum_sent/retransmits"),
            "cores": shares(&begin, &end).1,
        }))
    }

    /// Round trips, one after another or with pauses of so many microseconds.
    pub(super) fn rtt(&self, network: &Network, pause: u64, seconds: f64) -> Result<Value, String> {
        let bind = |place: &str, address: String| {
            let socket = network.spawn(place, move || UdpSocket::bind(&address))?;
            let socket = socket.join().map_err(|_| "a thread died")?;
            socket.map_err(|error| error.to_string())
        };
        let client = bind("client", format!("{CLIENT}:0"))?;
        let server = bind("server", format!("{SERVER}:7"))?;
        let realtime = self.realtime;
        let begin = Reading::now(&self.group);
        let thread = std::thread::spawn(move || {
            first(realtime)?;
            let pause = Duration::from_micros(pause);
            let time = Duration::from_secs_f64(seconds);
            round_trips(HOSTS, &client, &server, pause, time)
        });
        let (mut trips, lost) = thread.join().map_err(|_| "a thread died")??;
        let end = Reading::now(&self.group);
        trips.sort_unstable();
        let at = |share: f64| {
            let place = (trips.len() as f64 * share) as usize;
            trips.get(place).map(|ns| *ns as f64 / 1e3)
        };
        if trips.is_empty() {
            return Err(format!("no answer came; {lost} were lost"));
        }
        Ok(json!({
            "what": "rtt",
            "pause_us": pause,
            "trips": trips.len(),
            "lost": lost,
            "least_us": at(0.0),
            "p50_us": at(0.5),
            "p99_us": at(0.99),
            "cores": shares(&begin, &end).1,
        }))
    }

    /// The share of a processor that a forwarder uses without traffic.
    pub(super) fn idle(&self, forwarder: &Forwarder, seconds: f64) -> Result<Value, String> {
        self.sleep(Duration::from_millis(500))?;
        let (began, before) = (Instant::now(), processor_time(forwarder.id()));
        self.sleep(Duration::from_secs_f64(seconds))?;
        let used = processor_time(forwarder.id()) - before;
        let window = began.elapsed().as_secs_f64();
        Ok(json!({"what": "idle", "seconds": window, "share": used / window}))
    }
}
