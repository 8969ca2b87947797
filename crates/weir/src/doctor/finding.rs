//! One result of `weir doctor`.

use serde::Serialize;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    /// As it should be.
    Ok,
    /// It works, but slower, or not for everything.
    Warning,
    /// It does not work.
    Problem,
}

impl Status {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Warning => "warning",
            Status::Problem => "problem",
        }
    }
}

/// Subject areas of findings, in the order in which they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Area {
    Interfaces,
    Xdp,
    Offloads,
    Privileges,
    Kernel,
    Memory,
    Cores,
    Clock,
}

impl Area {
    pub(crate) fn title(self) -> &'static str {
        match self {
            Area::Interfaces => "interfaces",
            Area::Xdp => "XDP",
            Area::Offloads => "offloads",
            Area::Privileges => "privileges",
            Area::Kernel => "kernel",
            Area::Memory => "memory",
            Area::Cores => "cores",
            Area::Clock => "clock",
        }
    }
}

/// A check and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) area: Area,
    /// The check's name, as in docs/doctor.md.
    pub(crate) check: &'static str,
    /// The interface or other thing that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) subject: Option<String>,
    pub(crate) status: Status,
    /// The fact, and why it matters.
    pub(crate) message: String,
    /// Commands that mend it, ready to be run, one after another; where there
    /// are alternatives the message says so.
    pub(crate) mend: Vec<String>,
    /// `weir run` refuses to begin.
    pub(crate) stops_run: bool,
}

impl Finding {
    fn new(area: Area, check: &'static str, status: Status, message: String) -> Finding {
        debug_assert!(CHECKS.contains(&check), "{check} is not in the list");
        Finding {
            area,
            check,
            subject: None,
            status,
            message,
            mend: Vec::new(),
            stops_run: false,
        }
    }

    pub(crate) fn ok(area: Area, check: &'static str, message: impl Into<String>) -> Finding {
        Finding::new(area, check, Status::Ok, message.into())
    }

    pub(crate) fn warning(area: Area, check: &'static str, message: impl Into<String>) -> Finding {
        Finding::new(area, check, Status::Warning, message.into())
    }

    pub(crate) fn problem(area: Area, check: &'static str, message: impl Into<String>) -> Finding {
        Finding::new(area, check, Status::Problem, message.into())
    }

    /// Sets the finding's subject.
    pub(crate) fn of(mut self, subject: &str) -> Finding {
        self.subject = Some(subject.to_owned());
        self
    }

    /// A command that mends it.
    pub(crate) fn mend(mut self, command: impl Into<String>) -> Finding {
        self.mend.push(command.into());
        self
    }

    /// A run can't begin, or must not.
    pub(crate) fn stops(mut self) -> Finding {
        self.stops_run = true;
        self
    }

    /// Of an interface that nobody has asked for nothing is a problem.
    pub(crate) fn at_most_warning(mut self) -> Finding {
        self.status = self.status.min(Status::Warning);
        self.stops_run = false;
        self
    }

    /// In one line of a log: `eth0: message: mend`.
    pub(crate) fn line(&self) -> String {
        let subject = self.subject.iter().map(|s| format!("{s}: "));
        let mut line: String = subject.collect();
        line += &self.message;
        if !self.mend.is_empty() {
            let commands: Vec<String> = self.mend.iter().map(|c| format!("`{c}`")).collect();
            line += &format!(": {}", commands.join(", "));
        }
        line
    }
}

/// All checks; docs/doctor.md has a section of each.
pub(crate) const CHECKS: [&str; 30] = [
    "interface",
    "interface-up",
    "carrier",
    "mtu",
    "mtu-pair",
    "addresses",
    "owned-address",
    "master",
    "forwarding",
    "reverse-path",
    "wireless",
    "xdp-mode",
    "xdp-queues",
    "xdp-attached",
    "xdp-try",
    "peer-offloads",
    "receive-merging",
    "vlan-offload",
    "privileges",
    "locked-memory",
    "socket-buffers",
    "control-socket",
    "kernel-version",
    "sockets",
    "tun",
    "huge-pages",
    "cores",
    "cpu-quota",
    "governor",
    "clock",
];
