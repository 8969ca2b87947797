//! `weir doctor --try`: opens XDP ports for a moment. That changes the
//! interface for as long: packets that come meanwhile are lost, and some cards
//! start anew; so it is done only when asked for.

use weir_io::live::{LiveClock, LiveOptions, LiveSpec, XdpMode, live_layout};
use weir_io::machine::Machine;
use weir_packet::{FramePool, PacketMemory, Side};

use super::finding::{Area, Finding};
use super::judge::is_used_by_host;
use super::need::Need;

const CHECK: &str = "xdp-try";

/// Opens each XDP port of the run; without a run each interface that the host
/// does not use.
pub(super) fn xdp(machine: &Machine, need: &Need) -> Vec<Finding> {
    if !need.is_everything() {
        let ports = need.ports().iter();
        let xdp = ports.filter(|port| matches!(port, LiveSpec::Xdp { .. }));
        return xdp.map(open).collect();
    }
    let free = machine.links.iter();
    let free = free.filter(|link| link.ethernet && !is_used_by_host(link));
    let port = |name: &str| LiveSpec::Xdp {
        interface: name.to_owned(),
        queues: None,
        mode: XdpMode::Any,
    };
    free.map(|link| open(&port(&link.name)).at_most_warning())
        .collect()
}

fn open(port: &LiveSpec) -> Finding {
    let name = port.interface();
    let tried = live_layout([port]).and_then(|layout| {
        let memory = PacketMemory::new(layout, weir_io::advise_large_pages);
        // A memory is new: its frames were not taken.
        let mut pool = FramePool::new(memory).unwrap_or_else(|| FramePool::with_layout(layout));
        let options = LiveOptions {
            number: 0,
            side: Side::Inside,
            clock: LiveClock::start(),
            busy_poll: false,
        };
        let mut opened = port.open(options, &mut pool)?;
        let said = (opened.mode().to_owned(), opened.warnings());
        opened.close(&mut pool);
        Ok(said)
    });
    match tried {
        Ok((mode, warnings)) if warnings.is_empty() => {
            Finding::ok(Area::Xdp, CHECK, format!("opened: {mode}")).of(name)
        }
        Ok((mode, warnings)) => {
            let message = format!("opened: {mode}; {}", warnings.join("; "));
            Finding::warning(Area::Xdp, CHECK, message).of(name)
        }
        Err(error) => {
            let message = format!("can't be opened: {error}");
            Finding::problem(Area::Xdp, CHECK, message).of(name).stops()
        }
    }
}
