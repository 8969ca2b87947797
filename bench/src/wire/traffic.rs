//! The load: a generator on the client's interface, and round trips between two sockets.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};
use weir_io::generator::GeneratorSpec;
use weir_io::live::{LiveClock, LiveOptions, LivePort, LiveSpec, live_layout};
use weir_io::port::{GeneratorInput, InputPort as _, OutputPort};
use weir_packet::{FramePool, PacketMemory, Side};

use super::network::{MACS, try_run};

/// Ties the calling thread to a processor.
pub(super) fn pin(core: usize) -> Result<(), String> {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).map_err(|error| format!("processor {core}: {error}"))
}

/// Has the calling thread go before all others, if it is to, so that other programs disturb less.
pub(super) fn first(realtime: bool) -> Result<(), String> {
    if !realtime {
        return Ok(());
    }
    let id = rustix::thread::gettid().as_raw_nonzero().to_string();
    try_run("chrt", &["-f", "-p", "10", &id]).map(drop)
}

/// The interface `eth0` of the thread's namespace, with memory of its own.
pub(crate) fn open_port() -> Result<(Box<dyn LivePort>, FramePool), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let live = LiveSpec::Packet {
        interface: "eth0".to_owned(),
    };
    let layout = live_layout([&live]).map_err(|error| text(&error))?;
    let memory = PacketMemory::new(layout, weir_io::advise_large_pages);
    let mut pool = FramePool::new(memory).ok_or("packet memory was taken twice")?;
    let options = LiveOptions {
        number: 0,
        side: Side::Inside,
        clock: LiveClock::start(),
        busy_poll: false,
    };
    let port = live.open(options, &mut pool);
    Ok((port.map_err(|error| text(&error))?, pool))
}

/// Sends packets of 64 octets of so many UDP flows, each of any of them, as fast as it can, until it
/// is told to stop: how many. To be run in the client's namespace.
pub(super) fn blast(core: usize, flows: u32, stop: &Arc<AtomicBool>) -> Result<u64, String> {
    pin(core)?;
    let spec = format!("flows={flows},size=64,packets=1000G,src=10.0.0.0/16,dst=198.18.0.0/16");
    let spec = GeneratorSpec::parse(&spec).map_err(|error| error.to_string())?;
    let (mut port, mut pool) = open_port()?;
    let mut generator = GeneratorInput::new(&spec, 0, Side::Inside);
    let mut frames = Vec::with_capacity(64);
    while !stop.load(Ordering::Relaxed) {
        generator
            .receive(&mut pool, &mut frames, 64)
            .map_err(|error| error.to_string())?;
        for frame in &mut frames {
            let (meta, room) = pool.memory().split_mut(frame);
            let start = usize::from(meta.start);
            if let Some([to, from]) = room
                .get_mut(start..start + 12)
                .and_then(|head| head.split_at_mut_checked(6))
                .map(|(to, from)| [to, from])
            {
                to.copy_from_slice(&MACS[1]);
                from.copy_from_slice(&MACS[0]);
            }
        }
        port.send(&mut pool, &mut frames)
            .map_err(|error| error.to_string())?;
    }
    Ok(OutputPort::counters(&*port).packets)
}

/// Round trips of 32 octets by UDP, in nanoseconds, in the order they were made; lost ones are
/// repeated and counted. Both ends are one thread that spins, so what the hosts' schedulers do is
/// not in the figure.
pub(super) fn round_trips(
    core: usize,
    client: &UdpSocket,
    server: &UdpSocket,
    pause: Duration,
    time: Duration,
) -> Result<(Vec<u64>, u64), String> {
    pin(core)?;
    let fail = |error: std::io::Error| error.to_string();
    client.set_nonblocking(true).map_err(fail)?;
    server.set_nonblocking(true).map_err(fail)?;
    let to = server.local_addr().map_err(fail)?;
    let (mut trips, mut lost, mut number) = (Vec::new(), 0, 0u64);
    let end = Instant::now() + time;
    let mut bytes = [0; 64];
    while Instant::now() < end {
        number += 1;
        let mut message = [0; 32];
        message[..8].copy_from_slice(&number.to_be_bytes());
        let sent = Instant::now();
        client.send_to(&message, to).map_err(fail)?;
        let came = |bytes: &[u8]| bytes.starts_with(&number.to_be_bytes());
        let mut back = false;
        while !back && sent.elapsed() < Duration::from_millis(100) {
            if let Ok((len, from)) = server.recv_from(&mut bytes)
                && came(&bytes)
            {
                server.send_to(&bytes[..len], from).map_err(fail)?;
            }
            back = client.recv_from(&mut bytes).is_ok() && came(&bytes);
        }
        if back {
            trips.push(sent.elapsed().as_nanos() as u64);
        } else {
            lost += 1;
        }
        let next = Instant::now() + pause;
        while Instant::now() < next {
            std::hint::spin_loop();
        }
    }
    Ok((trips, lost))
}
