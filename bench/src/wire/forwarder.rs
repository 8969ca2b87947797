//! The programs in the middle: weir, and a bare bump.

use std::io::{BufRead as _, BufReader};
use std::os::fd::AsFd as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use weir_io::live::{EndSignals, LiveClock, LiveOptions, LivePort, LiveSpec, Waiter, live_layout};
use weir_packet::{FramePool, PacketMemory, Side};

use super::network::try_run;

/// Packets per batch, as `weir run` has it.
const BATCH: usize = 64;

/// A program in the middle. It is ended when this is dropped.
#[derive(Debug)]
pub(super) struct Forwarder(Child);

impl Forwarder {
    /// Starts it, and waits until its ports are open.
    pub(super) fn start(command: &mut Command) -> Result<Forwarder, String> {
        let pipes = command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = pipes.spawn().map_err(|error| format!("ip: {error}"))?;
        let errors = child.stderr.take();
        let forwarder = Forwarder(child);
        let mut errors = BufReader::new(errors.ok_or("no standard error")?);
        let mut said = String::new();
        while !said.lines().any(|line| line.starts_with("running")) {
            if !errors.read_line(&mut said).is_ok_and(|read| read > 0) {
                return Err(format!("it does not start: {}", said.trim()));
            }
        }
        std::thread::spawn(move || std::io::copy(&mut errors, &mut std::io::sink()));
        Ok(forwarder)
    }

    /// Number of its process.
    pub(super) fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        let _ = try_run("kill", &["-TERM", &self.id().to_string()]);
        let end = Instant::now() + Duration::from_secs(3);
        while self.0.try_wait().is_ok_and(|ended| ended.is_none()) {
            if Instant::now() > end {
                let _ = self.0.kill();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A bare bump: what comes in by one port goes out by the other, with no engine between. It runs until
/// a signal comes.
pub(crate) fn bump(inside: &str, outside: &str) -> Result<(), String> {
    let spec = |text: &str| {
        LiveSpec::parse(text).unwrap_or_else(|| Err(format!("`{text}` is no interface")))
    };
    let specs = [spec(inside)?, spec(outside)?];
    let layout = live_layout(&specs).map_err(|error| error.to_string())?;
    let memory = PacketMemory::new(layout, weir_io::advise_large_pages);
    let mut pool = FramePool::new(memory).ok_or("packet memory was taken twice")?;
    let clock = LiveClock::start();
    let mut ports: Vec<Box<dyn LivePort>> = Vec::new();
    for (spec, side) in specs.iter().zip([Side::Inside, Side::Outside]) {
        let options = LiveOptions {
            number: ports.len() as u8,
            side,
            clock,
            busy_poll: false,
        };
        let opened = spec.open(options, &mut pool);
        ports.push(opened.map_err(|error| error.to_string())?);
    }
    let signals = EndSignals::open().map_err(|error| error.to_string())?;
    eprintln!("running");
    let done = forward(&mut ports, &mut pool, &signals);
    for port in &mut ports {
        port.close(&mut pool);
    }
    done
}

fn forward(
    ports: &mut [Box<dyn LivePort>],
    pool: &mut FramePool,
    signals: &EndSignals,
) -> Result<(), String> {
    let mut waiter = Waiter::default();
    let mut frames = Vec::with_capacity(BATCH);
    let mut rounds = 0;
    loop {
        let mut found = false;
        for from in 0..ports.len() {
            let received = ports[from].receive(pool, &mut frames, BATCH);
            received.map_err(|error| error.to_string())?;
            if !frames.is_empty() {
                found = true;
                let sent = ports[1 - from].send(pool, &mut frames);
                sent.map_err(|error| error.to_string())?;
            }
        }
        if found {
            waiter.busy();
            rounds += 1;
            if rounds < 256 {
                continue;
            }
        } else if waiter.spin() {
            continue;
        } else {
            let mut fds = vec![signals.as_fd()];
            for port in &*ports {
                port.descriptors(&mut fds);
            }
            let slept = waiter.sleep(&fds, Duration::from_millis(100));
            slept.map_err(|error| error.to_string())?;
        }
        rounds = 0;
        if signals.came() {
            return Ok(());
        }
        for port in &mut *ports {
            port.check().map_err(|error| error.to_string())?;
        }
    }
}
