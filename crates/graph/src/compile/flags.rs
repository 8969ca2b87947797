//! Options of a command line that win over a chain file's `plan`.

use core::str::FromStr;
use std::collections::BTreeMap;

use super::options::{Mode, Options, Parallel};
use crate::nearest::{listed, suggestion};
use crate::tree::shorten;

/// Options given beside the file; what is `None` stays as the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// `--plan`. `rtc` and `auto` put the file's cuts by hand aside, `rtc` its
    /// instances and `processes` too.
    pub mode: Option<Mode>,
    /// `--passes`.
    pub passes: Option<Passes>,
    /// `--cores`.
    pub cores: Option<Vec<usize>>,
    /// `--costs`: they go before the file's.
    pub cycles: BTreeMap<String, u32>,
}

impl Options {
    /// These options under a command line's.
    #[must_use]
    pub fn with(mut self, flags: &Flags) -> Options {
        if let Some(mode) = flags.mode {
            self.mode = mode;
            if mode != Mode::Pipeline {
                self.cuts.clear();
            }
            if mode == Mode::RunToCompletion {
                self.instances.clear();
                // Not `untrusted`: a wish for speed is no wish for trust.
                self.processes.clear();
            }
        }
        if let Some(passes) = flags.passes {
            self.passes(passes);
        }
        if let Some(cores) = &flags.cores {
            self.cores.clone_from(cores);
        }
        self.cycles
            .extend(flags.cycles.iter().map(|(name, n)| (name.clone(), *n)));
        self
    }

    /// Turns passes on and off. Parallel branches that are on are made where
    /// they gain, or wherever they may be if the options say so already.
    pub fn passes(&mut self, passes: Passes) {
        self.consolidate = passes.consolidate;
        self.hoist = passes.hoist;
        self.parallel = match (passes.parallel, self.parallel) {
            (false, _) => Parallel::Never,
            (true, Parallel::Never) => Parallel::Auto,
            (true, as_is) => as_is,
        };
    }
}

/// Which passes are on: `none`, `all`, or some of `consolidate`, `hoist` and
/// `parallel`, with commas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passes {
    /// Equal work is done once.
    pub consolidate: bool,
    /// Equal classification on several branches is done before they part.
    pub hoist: bool,
    /// Independent neighbours run side by side.
    pub parallel: bool,
}

impl Passes {
    /// None of them.
    pub const NONE: Passes = Passes {
        consolidate: false,
        hoist: false,
        parallel: false,
    };
    /// All of them.
    pub const ALL: Passes = Passes {
        consolidate: true,
        hoist: true,
        parallel: true,
    };
    /// Their names.
    pub const NAMES: [&str; 3] = ["consolidate", "hoist", "parallel"];
    /// Words of the option: `none` and `all`, which stand alone, and the names.
    pub(crate) const WORDS: [&str; 5] = ["none", "all", "consolidate", "hoist", "parallel"];

    /// Turns the pass of this name on; false where there is none.
    pub(crate) fn add(&mut self, name: &str) -> bool {
        match name {
            "consolidate" => self.consolidate = true,
            "hoist" => self.hoist = true,
            "parallel" => self.parallel = true,
            _ => return false,
        }
        true
    }
}

impl FromStr for Passes {
    type Err = String;

    fn from_str(text: &str) -> Result<Passes, String> {
        match text {
            "none" => return Ok(Passes::NONE),
            "all" => return Ok(Passes::ALL),
            _ => {}
        }
        let mut passes = Passes::NONE;
        for name in text.split(',') {
            if !passes.add(name) {
                if Passes::WORDS.contains(&name) {
                    return Err(format!("`{name}` stands alone, without other passes"));
                }
                let help = suggestion(name, "passes", &Passes::WORDS).unwrap_or_default();
                return Err(format!("there is no pass `{}`: {help}", shorten(name)));
            }
        }
        Ok(passes)
    }
}

impl Mode {
    /// The words for modes.
    pub const NAMES: [(&str, Mode); 3] = [
        ("auto", Mode::Auto),
        ("rtc", Mode::RunToCompletion),
        ("pipeline", Mode::Pipeline),
    ];

    /// Its word.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Auto => "auto",
            Mode::RunToCompletion => "rtc",
            Mode::Pipeline => "pipeline",
        }
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Mode, String> {
        let found = Mode::NAMES.iter().find(|(name, _)| *name == text);
        found.map(|(_, mode)| *mode).ok_or_else(|| {
            let names = Mode::NAMES.map(|(name, _)| name);
            format!("`{}` is no plan: {}", shorten(text), listed(&names))
        })
    }
}
