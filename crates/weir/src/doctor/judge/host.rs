//! The rest of the machine: kernel, memory, cores, clock.

use weir_io::live::LiveSpec;
use weir_io::machine::{Machine, Probe};

use super::super::finding::{Area, Finding};
use super::super::need::Need;
use crate::output::counted;

/// Kernels that have what packet sockets and XDP sockets ask for.
const PACKET_SINCE: (u32, u32) = (4, 20);
const XDP_SINCE: (u32, u32) = (5, 9);
/// A clock that is read without a system call takes less, in nanoseconds.
const SLOW_CLOCK: u64 = 250;
/// Times before this (2024-01-01) are none of packets that come in now.
const EARLY: u64 = 1_704_067_200;

pub(super) fn judge(machine: &Machine, need: &Need) -> Vec<Finding> {
    let mut all = Vec::new();
    if need.live() {
        all.push(version(machine, need));
        all.extend(sockets(machine, need));
        all.extend(tun(machine, need));
    }
    all.extend(huge_pages(machine, need));
    all.extend(cores(machine, need));
    all.extend(clock(machine, need));
    all
}

fn version(machine: &Machine, need: &Need) -> Finding {
    let (area, check) = (Area::Kernel, "kernel-version");
    let release = &machine.kernel.release;
    let least = match (need.xdp(), need.packet()) {
        (true, _) => XDP_SINCE,
        (_, true) => PACKET_SINCE,
        _ => (0, 0),
    };
    match machine.kernel.version() {
        Some(version) if version < least => {
            let message = format!(
                "Linux {release} is too old: {}.{} or newer is needed; af-packet takes {}.{}",
                least.0, least.1, PACKET_SINCE.0, PACKET_SINCE.1
            );
            let found = Finding::problem(area, check, message);
            if need.is_everything() && version >= PACKET_SINCE {
                found.at_most_warning()
            } else {
                found.stops()
            }
        }
        _ => Finding::ok(area, check, format!("Linux {release}")),
    }
}

/// Checks that the kernel has the kinds of sockets that the run needs. A refusal
/// for lack of privileges is left to `privileges.rs`.
fn sockets(machine: &Machine, need: &Need) -> Vec<Finding> {
    let kernel = &machine.kernel;
    let asked = [
        (
            need.packet(),
            "packet sockets",
            &kernel.packet_socket,
            "CONFIG_PACKET",
        ),
        (
            need.xdp(),
            "XDP sockets",
            &kernel.xdp_socket,
            "CONFIG_XDP_SOCKETS",
        ),
        (
            need.xdp(),
            "programs for them",
            &kernel.xdp_program,
            "CONFIG_BPF_SYSCALL",
        ),
    ];
    let mut works = Vec::new();
    let mut all = Vec::new();
    for (needed, what, probe, option) in asked {
        if !needed {
            continue;
        }
        let why = match probe {
            Probe::Works => {
                works.push(what);
                continue;
            }
            Probe::NotAllowed => continue,
            Probe::Missing => {
                format!("the kernel has no {what} ({option}); take a port of another kind")
            }
            Probe::Failed(error) => format!("the kernel gives no {what}: {error}"),
        };
        all.push(Finding::problem(Area::Kernel, "sockets", why).stops());
    }
    if !works.is_empty() {
        let message = format!("{}: opened, and closed again", works.join(", "));
        all.push(Finding::ok(Area::Kernel, "sockets", message));
    }
    all
}

fn tun(machine: &Machine, need: &Need) -> Option<Finding> {
    if !need.tap() {
        return None;
    }
    let (area, check, file) = (Area::Kernel, "tun", "/dev/net/tun");
    let found = match &machine.kernel.tun {
        Probe::Works => return Some(Finding::ok(area, check, "can be opened").of(file)),
        Probe::Missing if machine.privileges.container => {
            let message = "is not there: the container was started without it";
            let found = Finding::problem(area, check, message);
            found.mend("docker run --device /dev/net/tun --cap-add NET_ADMIN …")
        }
        Probe::Missing => Finding::problem(area, check, "is not there")
            .mend("sudo modprobe tun")
            .mend("sudo mkdir -p /dev/net && sudo mknod -m 666 /dev/net/tun c 10 200"),
        Probe::NotAllowed => {
            let message = "may not be opened by this user";
            Finding::problem(area, check, message).mend("sudo chmod 666 /dev/net/tun")
        }
        Probe::Failed(error) => Finding::problem(area, check, format!("can't be opened: {error}")),
    };
    let found = found.of(file);
    // Nobody has asked for a TAP yet.
    Some(if need.is_everything() {
        found.at_most_warning()
    } else {
        found.stops()
    })
}

fn huge_pages(machine: &Machine, need: &Need) -> Option<Finding> {
    let (area, check) = (Area::Memory, "huge-pages");
    let memory = &machine.memory;
    let mib = need.memory.div_ceil(1 << 20);
    let pages = memory.huge.iter().find(|pages| pages.kib == 2_048);
    let mounted = match memory.mounts.as_slice() {
        [] => "no file system of huge pages is mounted, nor needed".to_owned(),
        mounts => {
            let places: Vec<String> = mounts
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            format!("mounted on {}", places.join(", "))
        }
    };
    let transparent = memory.transparent.as_deref().unwrap_or("never");
    if let Some(pages) = pages {
        let (free, wanted) = (pages.free * 2, mib);
        if pages.free > 0 && free >= wanted {
            let message = format!(
                "{free} of {} MiB in pages of 2 MiB are free, {wanted} are needed; {mounted}",
                pages.total * 2
            );
            return Some(Finding::ok(area, check, message));
        }
    }
    if transparent != "never" {
        let free = pages.map_or(0, |pages| pages.free);
        let message = format!(
            "{free} pages of 2 MiB are free; the kernel gives large pages by itself where it can \
             (transparent, {transparent}); {mounted}"
        );
        return Some(Finding::ok(area, check, message));
    }
    let message = format!(
        "packet memory and flow tables ({mib} MiB and more) lie in pages of 4 KiB: each look-up of a \
         flow costs more; let the kernel give large ones"
    );
    let found = Finding::warning(area, check, message);
    Some(found.mend("echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"))
}

fn cores(machine: &Machine, need: &Need) -> Vec<Finding> {
    let area = Area::Cores;
    let cores = &machine.cores;
    let mut all = Vec::new();
    let mut parts = vec![counted(cores.allowed.len() as u64, "core")];
    if cores.allowed.len() < cores.online.len() {
        parts.push(format!("of {} that are on", cores.online.len()));
    }
    if !cores.isolated.is_empty() {
        parts.push(format!("isolated: {}", list(&cores.isolated)));
    }
    if cores.nodes.len() > 1 {
        let nodes = cores
            .nodes
            .iter()
            .map(|(node, cores)| format!("node {node}: {}", list(cores)));
        parts.push(nodes.collect::<Vec<_>>().join("; "));
    }
    if !cores.siblings.is_empty() {
        let groups: Vec<String> = cores.siblings.iter().map(|group| list(group)).collect();
        parts.push(format!("share a core (SMT): {}", groups.join(" / ")));
    }
    all.push(Finding::ok(area, "cores", parts.join(", ")));
    let shared = cores.siblings.iter().find(|group| {
        let of = need.cores.iter().filter(|core| group.contains(core));
        let mut different: Vec<_> = of.collect();
        different.sort();
        different.dedup();
        different.len() > 1
    });
    if let Some(group) = shared {
        let message = format!(
            "cores {} are two halves of one (SMT): two busy threads there are hardly faster than one; \
             take cores of different groups for --cores",
            list(group)
        );
        all.push(Finding::warning(area, "cores", message));
    }
    all.extend(far(machine, need));
    if let Some(quota) = cores.quota
        && quota < cores.allowed.len() as f64
    {
        let message = format!(
            "the control group grants {quota:.1} cores' time of {}: a thread that has used it up stands \
             still for milliseconds, and packets are dropped; of a container: `docker update --cpus {} \
             NAME`, of a service: `systemctl set-property NAME CPUQuota=`",
            cores.allowed.len(),
            cores.allowed.len()
        );
        all.push(Finding::warning(area, "cpu-quota", message));
    }
    let slow: Vec<&str> = cores
        .governors
        .iter()
        .map(String::as_str)
        .filter(|governor| *governor != "performance")
        .collect();
    if !cores.governors.is_empty() {
        all.push(if slow.is_empty() {
            Finding::ok(area, "governor", "performance")
        } else {
            let message = format!(
                "cores change their frequency ({}): the first packets after a pause are slow",
                slow.join(", ")
            );
            Finding::warning(area, "governor", message).mend(
                "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
            )
        });
    }
    all
}

/// A card whose memory node is not that of the cores.
fn far(machine: &Machine, need: &Need) -> Option<Finding> {
    let cores = &machine.cores;
    let used = if need.cores.is_empty() {
        return None;
    } else {
        &need.cores
    };
    let port = need.ports().iter().find_map(|port| {
        let link = machine.link(LiveSpec::interface(port))?;
        let (node, near) = cores
            .nodes
            .iter()
            .find(|(node, _)| Some(*node) == link.node)?;
        let far = used.iter().any(|core| !near.contains(core));
        (cores.nodes.len() > 1 && far).then_some((link, node, near))
    });
    let (link, node, near) = port?;
    let message = format!(
        "its card is at memory node {node}, whose cores are {}: others wait longer for its packets; \
         choose among these for --cores",
        list(near)
    );
    Some(Finding::warning(Area::Cores, "cores", message).of(&link.name))
}

fn clock(machine: &Machine, need: &Need) -> Vec<Finding> {
    let (area, check) = (Area::Clock, "clock");
    let clock = &machine.clock;
    let mut all = Vec::new();
    let source = clock.source.as_deref().unwrap_or("unknown");
    if clock.read_ns > SLOW_CLOCK {
        let message = format!(
            "reading it takes {} ns (from {source}); from the processor's counter it takes about 25",
            clock.read_ns
        );
        let found = Finding::warning(area, check, message);
        let better = [
            "tsc",
            "kvm-clock",
            "hyperv_clocksource_tsc_page",
            "arch_sys_counter",
        ];
        let there = better
            .iter()
            .find(|name| **name != source && clock.sources.iter().any(|s| s == **name));
        all.push(match there {
            Some(name) => found.mend(format!(
                "echo {name} | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource"
            )),
            None => found,
        });
    } else {
        let message = format!("read from {source} in {} ns", clock.read_ns);
        all.push(Finding::ok(area, check, message));
    }
    if !need.live() {
        return all;
    }
    if clock.seconds < EARLY {
        let message = "it shows a time long ago: events and captures will have wrong times";
        all.push(Finding::warning(area, check, message).mend("sudo timedatectl set-ntp true"));
    } else if clock.synchronised == Some(false) {
        let message = "nothing keeps it right, as far as the kernel knows: times of events and captures \
                       drift from those of other machines; packets are timed from a counter that never \
                       steps";
        all.push(Finding::warning(area, check, message).mend("sudo timedatectl set-ntp true"));
    } else if clock.synchronised == Some(true) {
        all.push(Finding::ok(area, check, "synchronised"));
    }
    all
}

/// Ascending numbers, as `0-3,6`.
fn list(numbers: &[usize]) -> String {
    weir_exec::ranges(numbers)
}
