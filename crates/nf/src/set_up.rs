//! Resources that a network function may ask for while it is built.

use core::fmt;

use crate::{NamedSet, PoolId, PoolSpec, Sets};

/// Texts that settings name: rule files and the like. Functions open no files
/// themselves; the loader of the chain does.
pub trait Sources {
    /// The text called `name`, as written in the chain file.
    ///
    /// # Errors
    ///
    /// A message for people.
    fn text(&mut self, name: &str) -> Result<String, String>;

    /// Names of the texts that fit `pattern`, sorted: `*`, `?` and `[...]` stand
    /// for parts of a file's name, `**` for folders. Whoever can't look takes the
    /// pattern for a name.
    ///
    /// # Errors
    ///
    /// A message for people that names the pattern, also where nothing fits.
    fn names(&mut self, pattern: &str) -> Result<Vec<String>, String> {
        Ok(vec![pattern.to_owned()])
    }

    /// The sets that a run has already: those of the same names and sizes go on, with what is in
    /// them, where its chain file is read again.
    fn sets(&self) -> Sets {
        Sets::default()
    }
}

/// No texts at all.
#[derive(Clone, Copy, Debug)]
pub struct NoSources;

impl Sources for NoSources {
    fn text(&mut self, name: &str) -> Result<String, String> {
        Err(format!("{name} can't be read here"))
    }
}

/// Finds a set by its name, or says that there is none.
type FindSet<'a> = dyn Fn(&str) -> Result<NamedSet, SettingsError> + 'a;

/// Resources that a function may ask for while it is built.
pub struct SetUp<'a> {
    sources: &'a mut dyn Sources,
    pools: &'a mut Vec<PoolSpec>,
    warnings: &'a mut Vec<SettingsError>,
    /// Settings that ask for the pools, in their order.
    leased_at: Vec<String>,
    /// Finds a set of the chain file.
    find_set: Option<&'a FindSet<'a>>,
    /// Seed for hashes that must not be guessed; the same in all runtimes of
    /// a chain.
    pub seed: u64,
}

impl fmt::Debug for SetUp<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SetUp")
            .field("pools", &self.pools)
            .finish_non_exhaustive()
    }
}

impl<'a> SetUp<'a> {
    /// With texts from `sources`; pools and warnings are collected in the
    /// lists given.
    pub fn new(
        sources: &'a mut dyn Sources,
        pools: &'a mut Vec<PoolSpec>,
        warnings: &'a mut Vec<SettingsError>,
        seed: u64,
    ) -> SetUp<'a> {
        SetUp {
            sources,
            pools,
            warnings,
            leased_at: Vec::new(),
            find_set: None,
            seed,
        }
    }

    /// With the sets of a chain file.
    #[must_use]
    pub fn with_sets(mut self, find: &'a FindSet<'a>) -> SetUp<'a> {
        self.find_set = Some(find);
        self
    }

    /// The set called `name` in the setting at `path`. What is in it changes while packets flow.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn set(&self, path: &str, name: &str) -> Result<NamedSet, SettingsError> {
        let found = match self.find_set {
            Some(find) => find(name),
            None => Err(SettingsError::new("", format!("there is no set `{name}`"))),
        };
        found.map_err(|error| error.at_path(path))
    }

    /// The text called `name` in the setting at `path`.
    ///
    /// # Errors
    ///
    /// That the text can't be read, and why.
    pub fn text(&mut self, path: &str, name: &str) -> Result<String, SettingsError> {
        self.sources
            .text(name)
            .map_err(|why| SettingsError::new(path, why))
    }

    /// Names of the texts that fit the pattern in the setting at `path`, at least
    /// one ([`Sources::names`]).
    ///
    /// # Errors
    ///
    /// That nothing fits, or that the pattern can't be read.
    pub fn names(&mut self, path: &str, pattern: &str) -> Result<Vec<String>, SettingsError> {
        self.sources
            .names(pattern)
            .map_err(|why| SettingsError::new(path, why))
    }

    /// Announces a pool of ports that flows will share.
    ///
    /// # Errors
    ///
    /// If the chain has 255 pools already, the pool has no address or more
    /// than 4,096, no port, or a block that is not a multiple of 64.
    pub fn lease(&mut self, path: &str, spec: PoolSpec) -> Result<PoolId, SettingsError> {
        let problem = if self.pools.len() >= 255 {
            "a chain has at most 255 pools"
        } else if spec.addresses.is_empty() || spec.addresses.len() > 4_096 {
            "a pool has 1 to 4,096 addresses"
        } else if spec.first > spec.last {
            "the first port is above the last"
        } else if spec.block == 0 || !spec.block.is_multiple_of(64) {
            "a block is a multiple of 64 ports"
        } else {
            self.pools.push(spec);
            self.leased_at.push(path.to_owned());
            return Ok(PoolId((self.pools.len() - 1) as u8));
        };
        Err(SettingsError::new(path, problem))
    }

    /// The settings that asked for pools, in the order of [`SetUp::lease`].
    pub fn leased_at(&self) -> &[String] {
        &self.leased_at
    }

    /// Tells the operator something that is no error.
    pub fn warn(&mut self, warning: impl Into<String>) {
        self.warn_at(SettingsError::new("", warning));
    }

    /// As [`SetUp::warn`], about the setting that `warning` names.
    pub fn warn_at(&mut self, warning: SettingsError) {
        self.warnings.push(warning);
    }
}

/// A setting that can't be used, or one that an operator is warned of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsError {
    /// The setting, as `rules[2].source`; empty for the whole.
    pub path: String,
    /// The fault.
    pub message: String,
    /// Advice on how to mend it.
    pub help: Option<String>,
    /// Place in another text (a rule file): its name, line and column.
    pub at: Option<(String, usize, usize)>,
    /// The next setting that can't be used.
    next: Option<Box<SettingsError>>,
}

impl SettingsError {
    /// A problem with the setting at `path`.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> SettingsError {
        SettingsError {
            path: path.into(),
            message: message.into(),
            help: None,
            at: None,
            next: None,
        }
    }

    /// All of `errors` as one; `Ok` where there are none.
    ///
    /// # Errors
    ///
    /// The first, with the others behind it.
    pub fn all(errors: Vec<SettingsError>) -> Result<(), SettingsError> {
        let behind = |next: Option<SettingsError>, error: SettingsError| {
            Some(SettingsError {
                next: next.map(Box::new),
                ..error
            })
        };
        match errors.into_iter().rev().fold(None, behind) {
            None => Ok(()),
            Some(first) => Err(first),
        }
    }

    /// This setting, then each of those behind it ([`SettingsError::all`]).
    pub fn each(self) -> impl Iterator<Item = SettingsError> {
        let mut next = Some(self);
        core::iter::from_fn(move || {
            let mut error = next.take()?;
            next = error.next.take().map(|next| *next);
            Some(error)
        })
    }

    /// The same of the setting at `path`.
    #[must_use]
    pub fn at_path(self, path: &str) -> SettingsError {
        SettingsError {
            path: path.to_owned(),
            ..self
        }
    }

    /// Adds what to do.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> SettingsError {
        self.help = Some(help.into());
        self
    }

    /// Adds a place in another text; lines and columns count from 1.
    #[must_use]
    pub fn at(mut self, text: impl Into<String>, line: usize, column: usize) -> SettingsError {
        self.at = Some((text.into(), line, column));
        self
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((text, line, column)) = &self.at {
            write!(f, "{text}:{line}:{column}: ")?;
        } else if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        if let Some(help) = &self.help {
            write!(f, " ({help})")?;
        }
        Ok(())
    }
}

impl std::error::Error for SettingsError {}
