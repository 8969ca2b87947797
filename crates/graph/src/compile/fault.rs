//! Why a chain can't be compiled.

use core::fmt;

use super::plan::Pass;

/// Something that is wrong with the options, the graph, or the compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanFault {
    /// The pass that found it.
    pub pass: Pass,
    /// The option that it is about.
    pub option: Option<PlanOption>,
    /// The fault itself.
    pub message: String,
    /// Advice on how to mend it.
    pub help: Option<String>,
    /// True where a pass did what it may not do: a mistake in weir, not in the
    /// chain. The plan is refused.
    pub bug: bool,
}

/// An option, as it is written in a chain file's `plan`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlanOption {
    /// The key: `stages`, `instances`, …
    pub key: &'static str,
    /// The name in it that is meant; empty for the key as a whole.
    pub name: String,
}

impl PlanFault {
    pub(super) fn of(key: &'static str, name: &str, message: impl Into<String>) -> PlanFault {
        PlanFault {
            pass: Pass::Stage,
            option: Some(PlanOption {
                key,
                name: name.to_owned(),
            }),
            message: message.into(),
            help: None,
            bug: false,
        }
    }

    pub(super) fn help(mut self, help: impl Into<String>) -> PlanFault {
        self.help = Some(help.into());
        self
    }

    pub(super) fn bug(message: impl Into<String>) -> PlanFault {
        PlanFault {
            pass: Pass::Check,
            option: None,
            message: message.into(),
            help: Some(
                "this is a mistake in weir: `--passes none --plan rtc` runs the chain as written"
                    .to_owned(),
            ),
            bug: true,
        }
    }
}

impl fmt::Display for PlanFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.bug {
            f.write_str("the compiled plan is wrong: ")?;
        } else if let Some(option) = &self.option {
            write!(f, "plan.{}: ", option.key)?;
        }
        f.write_str(&self.message)?;
        if let Some(help) = &self.help {
            write!(f, "\n   = help: {help}")?;
        }
        Ok(())
    }
}

impl std::error::Error for PlanFault {}
