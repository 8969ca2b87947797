//! Exit codes, and failures on the way to them.

use std::io::Write as _;

use crate::driver::{GAVE_WAY, HANDED_OVER, STOOD_STILL};

/// How the program exits. `weir --help` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// All went well.
    Done = 0,
    /// Something outside failed: a file, a disk, a port.
    Failed = 1,
    /// The command line makes no sense (clap exits with it, too).
    Usage = 2,
    /// The chain file, something that it names, the script or the composition is wrong.
    Chain = 3,
    /// The switch stood still for so long that its runtimes wait for another one: what started it is
    /// to start it again (EX_TEMPFAIL of sysexits.h).
    Again = 75,
}

/// The exit codes, for `--help`.
macro_rules! codes {
    () => {
        "\
Exit codes:
  0  done (a truncated capture is processed up to its end, with a warning)
  1  something outside failed: a file, a disk, a port; `doctor` or `pki show` found a problem
  2  the command line makes no sense
  3  the chain file, something that it names, the script or the composition is wrong;
     `ids check`: a rule does not load
  75 the switch stood still, and its runtimes on other hosts wait for another one: start it again"
    };
}

/// The exit codes, as `--help` lists them.
#[cfg(feature = "control")]
pub(crate) const HELP: &str = codes!();
/// The same, and what the program lacks.
#[cfg(not(feature = "control"))]
pub(crate) const HELP: &str = concat!(
    codes!(),
    "\n\nBuilt without the feature `control`: no control socket, no metrics; stats, top, flows,\n\
     drops, get, move, upgrade, reload, list and pki are absent, trace and tap take captures only (--in)."
);

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        std::process::ExitCode::from(exit as u8)
    }
}

/// A command's end: how the program exits, or why it could not go on.
pub(crate) type Outcome = Result<Exit, Failure>;

/// Why a command could not go on.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// For people; whole lines, `error: …` first.
    pub(crate) message: String,
}

impl From<weir_exec::ExecError> for Failure {
    fn from(error: weir_exec::ExecError) -> Failure {
        Failure::outside(error.to_string())
    }
}

#[cfg(feature = "control")]
impl From<weir_ctl::client::SocketError> for Failure {
    /// With the argument that helps.
    fn from(error: weir_ctl::client::SocketError) -> Failure {
        use weir_ctl::client::Remedy;

        let argument = match error.remedy() {
            None => return Failure::outside(error.to_string()),
            Some(Remedy::Path) => "give the socket's path with --control PATH",
            Some(Remedy::Name) => "give this one a name of its own with --name",
        };
        Failure::outside(format!("{error}, or {argument}"))
    }
}

impl Failure {
    /// Something outside failed.
    pub(crate) fn outside(message: impl Into<String>) -> Failure {
        let message = message.into();
        if message.starts_with(HANDED_OVER) {
            // It was told to end, and has.
            return Failure {
                exit: Exit::Done,
                message,
            };
        }
        Failure {
            exit: match message.starts_with(STOOD_STILL) || message.starts_with(GAVE_WAY) {
                true => Exit::Again,
                false => Exit::Failed,
            },
            message: format!("error: {message}"),
        }
    }

    /// This program was built without a part of it.
    #[cfg(not(all(feature = "control", feature = "simulator")))]
    pub(crate) fn built_without(feature: &str) -> Failure {
        Failure::usage(format!(
            "this weir was built without the feature `{feature}`: build it with \
             `--features {feature}`"
        ))
    }

    /// The command line makes no sense.
    pub(crate) fn usage(message: impl Into<String>) -> Failure {
        Failure {
            exit: Exit::Usage,
            message: format!("error: {}", message.into()),
        }
    }

    /// The chain file is wrong; `message` says it already as it should look.
    pub(crate) fn chain(message: String) -> Failure {
        Failure {
            exit: Exit::Chain,
            message,
        }
    }

    /// Of what may be meant in two ways: why it is neither.
    pub(crate) fn or(self, other: Failure) -> Failure {
        let also = other.message.trim_start_matches("error: ");
        Failure {
            message: format!("{}\n  or: {also}", self.message.trim_end()),
            ..self
        }
    }

    /// The message without its `error: `, for use inside a sentence.
    pub(crate) fn why(&self) -> &str {
        self.message.trim_start_matches("error: ").trim_end()
    }

    pub(crate) fn print(&self) {
        // With standard error gone there is nobody to tell.
        let _ = writeln!(std::io::stderr(), "{}", self.message.trim_end());
    }
}
