//! Privileges: what this process may do, and how to start it so that it may
//! more.

use weir_io::machine::{Capability, Machine, Privileges, Probe};

use super::super::finding::{Area, Finding};
use super::super::need::Need;

const AREA: Area = Area::Privileges;
/// Receive buffer, in bytes, that a packet socket asks the kernel for.
const BUFFER: u64 = 8 << 20;

pub(super) fn judge(machine: &Machine, need: &Need) -> Vec<Finding> {
    let privileges = &machine.privileges;
    if !need.live() {
        let message = "none is needed: the run has no interfaces";
        return vec![Finding::ok(AREA, "privileges", message)];
    }
    let missing = missing(machine, need);
    let mut all = Vec::new();
    if missing.is_empty() {
        all.push(Finding::ok(AREA, "privileges", who(privileges)));
    } else {
        all.push(lacking(privileges, &missing));
    }
    all.extend(locked_memory(privileges, need));
    all.extend(buffers(machine, need));
    all.extend(control(need));
    all
}

/// The place for the socket by which `weir stats` and others reach a run.
fn control(need: &Need) -> Option<Finding> {
    let check = "control-socket";
    Some(match need.control.as_ref()? {
        Ok(folder) => Finding::ok(
            AREA,
            check,
            format!("the control socket will be in {}", folder.display()),
        ),
        Err(why) => {
            let message = format!("`weir stats` and others won't reach a run: {why}");
            Finding::warning(AREA, check, message)
        }
    })
}

/// Capabilities that are needed and not there, with their uses. Where possible the operation
/// was tried: root may lack them, too.
fn missing(machine: &Machine, need: &Need) -> Vec<(Capability, &'static str)> {
    let kernel = &machine.kernel;
    let has = |capability| machine.privileges.has(capability);
    let mut all = Vec::new();
    let sockets = need.packet() && kernel.packet_socket == Probe::NotAllowed
        || need.xdp() && kernel.xdp_socket == Probe::NotAllowed;
    if sockets {
        all.push((Capability::NetRaw, "packet and XDP sockets"));
    }
    if need.xdp() && kernel.xdp_program == Probe::NotAllowed {
        all.push((Capability::Bpf, "programs for XDP sockets"));
    }
    if need.xdp() && !has(Capability::NetAdmin) {
        all.push((Capability::NetAdmin, "programs on interfaces"));
    } else if need.tap() && !has(Capability::NetAdmin) {
        all.push((Capability::NetAdmin, "TAP interfaces"));
    }
    all
}

fn who(privileges: &Privileges) -> String {
    let has = Capability::ALL.iter().filter(|c| privileges.has(**c));
    let names: Vec<String> = has.map(|c| format!("CAP_{}", c.name())).collect();
    let user = match privileges.user {
        0 => "root".to_owned(),
        user => format!("user {user}"),
    };
    match names.as_slice() {
        [] => user,
        names => format!("{user}, with {}", names.join(", ")),
    }
}

/// Reports the missing capabilities. The remedy depends on what took them away.
fn lacking(privileges: &Privileges, missing: &[(Capability, &str)]) -> Finding {
    let list: Vec<String> = missing
        .iter()
        .map(|(capability, what)| format!("CAP_{} ({what})", capability.name()))
        .collect();
    let who = match privileges.user {
        0 => "root here",
        _ => "this user",
    };
    let message = format!("{who} may not use interfaces: it lacks {}", list.join(", "));
    let problem =
        |more: &str| Finding::problem(AREA, "privileges", format!("{message}{more}")).stops();
    // Pinning memory goes with XDP.
    let mut wanted: Vec<Capability> = missing.iter().map(|(c, _)| *c).collect();
    if wanted.contains(&Capability::Bpf) && !privileges.has(Capability::IpcLock) {
        wanted.push(Capability::IpcLock);
    }
    wanted.sort();
    let taken_away = wanted.iter().any(|c| !privileges.could_have(*c));
    if privileges.container && taken_away {
        let more: Vec<String> = wanted
            .iter()
            .map(|c| format!("--cap-add {}", c.name()))
            .collect();
        let mend = format!("docker run {} …", more.join(" "));
        return problem("; the container was started without it").mend(mend);
    }
    if privileges.user_namespace {
        return problem(
            "; in a user namespace it can't be had for interfaces of others, nor for XDP at all: start \
             weir outside it, as root",
        );
    }
    if taken_away {
        return problem(
            "; it was taken away from this shell or service for good (its bounding set): start weir \
             from another, or add it to CapabilityBoundingSet= of the service",
        );
    }
    if privileges.no_new_privileges {
        return problem(
            "; it can't get more either (NoNewPrivs): start weir from a shell or service without that",
        );
    }
    let program = privileges.program.display();
    let names: Vec<String> = wanted
        .iter()
        .map(|c| format!("cap_{}", c.name().to_lowercase()))
        .collect();
    problem("; run weir with `sudo`, or give it to the program once").mend(format!(
        "sudo setcap {}+ep {}",
        names.join(","),
        quoted(&program.to_string())
    ))
}

/// A word for a shell.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%=".contains(c);
    if text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

fn locked_memory(privileges: &Privileges, need: &Need) -> Option<Finding> {
    if !need.xdp() {
        return None;
    }
    let check = "locked-memory";
    if privileges.has(Capability::IpcLock) {
        return Some(Finding::ok(
            AREA,
            check,
            "any amount of memory may be pinned (CAP_IPC_LOCK)",
        ));
    }
    let Some(limit) = privileges.locked_memory else {
        return Some(Finding::ok(
            AREA,
            check,
            "any amount of memory may be pinned (`ulimit -l`)",
        ));
    };
    let (limit_mib, pinned) = (limit >> 20, need.pinned.div_ceil(1 << 20));
    if limit >= need.pinned {
        let message =
            format!("up to {limit_mib} MiB of memory may be pinned; XDP sockets pin {pinned} MiB");
        return Some(Finding::ok(AREA, check, message));
    }
    let message = format!(
        "this process may pin {limit_mib} MiB of memory, and XDP sockets pin {pinned} MiB: give this shell more, or weir \
         CAP_IPC_LOCK"
    );
    let found =
        Finding::problem(AREA, check, message).mend("sudo prlimit --pid $$ --memlock=unlimited");
    Some(found.stops())
}

/// Without CAP_NET_ADMIN a socket gets no more than the system's limit.
fn buffers(machine: &Machine, need: &Need) -> Option<Finding> {
    let limit = machine.memory.receive_buffer?;
    let check = "socket-buffers";
    if !need.packet() {
        return None;
    }
    if machine.privileges.has(Capability::NetAdmin) || limit >= BUFFER {
        return Some(Finding::ok(
            AREA,
            check,
            format!("packet sockets get a buffer of {} MiB", BUFFER >> 20),
        ));
    }
    let message = format!(
        "packet sockets get {} KiB to keep packets in while weir does not run, not {}: bursts may be \
         dropped",
        limit >> 10,
        BUFFER >> 10
    );
    let mend = format!("sudo sysctl -w net.core.rmem_max={BUFFER} net.core.wmem_max={BUFFER}");
    Some(Finding::warning(AREA, check, message).mend(mend))
}
