//! Rules of files, read as the function reads them: those that load, and what
//! keeps the others. For tools that check rule files.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_nf::prelude::SettingsError;
use weir_signatures::{
    Applied, Classifications, CompileOptions, ListKind, Reputations, RuleError, RuleLists, RuleSet,
    SkipReason, Skipped, ThresholdLists, Variables, parse_rules_lossy,
};

use super::collect::{Collected, Replaced};
use super::data;
use super::settings::{OnUnsupported, parse_options, variables};
use super::told::told;

/// What keeps a rule from being loaded: a word for its kind, and the name of what the rule uses, or the fault.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reason {
    /// `keyword` or `protocol` (not supported), `header`, `duplicate`, `file` (what it looks up), `fault`.
    pub kind: &'static str,
    /// The keyword or protocol; else what is wrong, without what is quoted of
    /// one rule.
    pub name: String,
}

/// A rule that does not load.
#[derive(Clone, Debug)]
pub struct Refused {
    /// Name of its file.
    pub file: String,
    /// Line, counted from 1: of the fault where there is one, else of the rule.
    pub line: usize,
    /// Its number, where it is known.
    pub sid: Option<u32>,
    /// Several where it uses several unsupported keywords.
    pub reasons: Vec<Reason>,
    /// The fault in full, where there is one.
    pub message: Option<String>,
}

/// A file and how many rules of it there are.
#[derive(Clone, Debug)]
pub struct File {
    /// Its name.
    pub name: String,
    /// Rules in it.
    pub rules: usize,
    /// Rules that do not load.
    pub refused: usize,
    /// Rules that a higher revision replaces, in this file or another one.
    pub replaced: usize,
}

/// Files that are being read.
#[derive(Debug)]
pub struct Loading {
    variables: Variables,
    lists: RuleLists,
    thresholds: ThresholdLists,
    reputations: Reputations,
    collected: Collected,
    classtypes: Vec<(String, String)>,
    loaded: Loaded,
}

/// The result.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// The files, in the order in which they were read.
    pub files: Vec<File>,
    /// Rules that do not load, by file and line.
    pub refused: Vec<Refused>,
    /// Older revisions, for which the newest one counts.
    pub replaced: Vec<Replaced>,
    /// Class type that is not known → rules that name it, place of the first one.
    pub classtypes: BTreeMap<String, (usize, String)>,
    /// Rules that thresholds name and that are not there: gid and sid.
    pub missing: BTreeSet<(u32, u32)>,
    /// Rules that lists have changed.
    pub lists: Applied,
    /// Why the rules can't be used together, although each can be read.
    pub together: Option<String>,
}

impl Loaded {
    /// Rules of all files.
    pub fn rules(&self) -> usize {
        self.files.iter().map(|file| file.rules).sum()
    }

    /// Rules of all files that load.
    pub fn loads(&self) -> usize {
        self.files.iter().map(File::loads).sum()
    }

    /// True if all rules load.
    pub fn is_fine(&self) -> bool {
        self.refused.is_empty() && self.together.is_none()
    }

    /// Each reason with its rules and the place of the first one, the most frequent first. A rule with
    /// several reasons counts for each.
    pub fn reasons(&self) -> Vec<(&Reason, usize, String)> {
        let mut all: BTreeMap<&Reason, (usize, String)> = BTreeMap::new();
        for rule in &self.refused {
            for reason in &rule.reasons {
                let place = || (0, rule.place());
                all.entry(reason).or_insert_with(place).0 += 1;
            }
        }
        let flat = all
            .into_iter()
            .map(|(reason, (count, first))| (reason, count, first));
        let mut list: Vec<_> = flat.collect();
        list.sort_by_key(|&(_, count, _)| core::cmp::Reverse(count));
        list
    }
}

impl File {
    /// Rules that load.
    pub fn loads(&self) -> usize {
        self.rules - self.refused - self.replaced
    }
}

impl Refused {
    /// `FILE:LINE`.
    pub fn place(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }

    fn of(file: &str, skipped: Skipped) -> Refused {
        let reason = |kind, name| Reason { kind, name };
        let reasons = match skipped.reason {
            SkipReason::Keywords(names) => {
                names.into_iter().map(|n| reason("keyword", n)).collect()
            }
            SkipReason::Protocol(name) => vec![reason("protocol", name)],
            SkipReason::NothingLeft => {
                let why = "addresses or ports leave nothing to match";
                vec![reason("header", why.to_owned())]
            }
            SkipReason::OlderRevision => vec![reason("duplicate", "older revision".to_owned())],
        };
        Refused {
            file: file.to_owned(),
            line: skipped.line,
            sid: skipped.sid,
            reasons,
            message: None,
        }
    }

    fn faulty(file: &str, error: &RuleError) -> Refused {
        let (kind, name) = match error.duplicate {
            true => ("duplicate", "same sid and rev twice".to_owned()),
            false => ("fault", general(&error.message)),
        };
        let help = error.help.as_ref().map(|help| format!(" ({help})"));
        Refused {
            file: file.to_owned(),
            line: error.line,
            sid: None,
            reasons: vec![Reason { kind, name }],
            message: Some(format!("{}{}", error.message, help.unwrap_or_default())),
        }
    }
}

/// A message without what it quotes of one rule, so that like faults count together.
fn general(message: &str) -> String {
    let parts = message.split('`').enumerate();
    let parts = parts.map(|(number, part)| if number % 2 == 1 { "`…`" } else { part });
    parts.collect()
}

impl Loading {
    /// With values of variables, as in the function's settings.
    ///
    /// # Errors
    ///
    /// The first value that can't be read, as the setting `vars.NAME`.
    pub fn new(vars: &BTreeMap<String, String>) -> Result<Loading, SettingsError> {
        Ok(Loading {
            variables: variables(vars)?,
            lists: RuleLists::default(),
            thresholds: ThresholdLists::default(),
            reputations: Reputations::default(),
            collected: Collected::default(),
            classtypes: Vec::new(),
            loaded: Loaded::default(),
        })
    }

    /// Adds a list, which counts for the files read after it.
    ///
    /// # Errors
    ///
    /// The lines that are no entries.
    pub fn list(&mut self, kind: ListKind, name: &str, text: &str) -> Result<(), SettingsError> {
        let added = self.lists.add(kind, name, text);
        added.map_err(|errors| told("lists", name, &errors))
    }

    /// Adds a file of thresholds and suppressions.
    ///
    /// # Errors
    ///
    /// The lines that are no entries.
    pub fn thresholds(&mut self, name: &str, text: &str) -> Result<(), SettingsError> {
        let added = self.thresholds.add(text, &self.variables);
        added.map_err(|errors| told("thresholds", name, &errors))
    }

    /// Reads the rules of a file.
    ///
    /// # Errors
    ///
    /// An expression of a list that takes too many steps.
    pub fn file(&mut self, name: &str, text: &str) -> Result<(), SettingsError> {
        let listed = self.lists.apply(name, text);
        let (text, applied) = listed.map_err(|why| SettingsError::new("lists", why))?;
        let text = text.as_ref();
        self.loaded.lists.add(applied);
        let options = parse_options(OnUnsupported::Skip);
        let (parsed, errors) = parse_rules_lossy(text, &self.variables, options);
        let rules = parsed.rules.len() + parsed.skipped.len() + errors.len();
        self.loaded.files.push(File {
            name: name.to_owned(),
            rules,
            refused: 0,
            replaced: 0,
        });
        let mut refused: Vec<Refused> = errors.iter().map(|e| Refused::faulty(name, e)).collect();
        for skipped in parsed.skipped {
            match skipped.reason {
                SkipReason::OlderRevision => self.replaced(Replaced {
                    text: name.to_owned(),
                    line: skipped.line,
                    sid: skipped.sid.unwrap_or(0),
                }),
                _ => refused.push(Refused::of(name, skipped)),
            }
        }
        for rule in parsed.rules {
            let (line, sid) = (rule.line, rule.sid);
            let class = rule.classtype.clone();
            match self.collected.add(rule, name) {
                Ok(older) => {
                    self.classtypes
                        .extend(class.map(|class| (class, format!("{name}:{line}"))));
                    older.into_iter().for_each(|older| self.replaced(older));
                }
                Err(message) => refused.push(Refused {
                    file: name.to_owned(),
                    line,
                    sid: Some(sid),
                    reasons: vec![Reason {
                        kind: "duplicate",
                        name: "same sid and rev twice".to_owned(),
                    }],
                    message: Some(message),
                }),
            }
        }
        refused.sort_by_key(|rule| rule.line);
        if let Some(file) = self.loaded.files.last_mut() {
            file.refused = refused.len();
        }
        self.loaded.refused.extend(refused);
        Ok(())
    }

    /// A rule for which a newer revision counts.
    fn replaced(&mut self, older: Replaced) {
        let mut files = self.loaded.files.iter_mut();
        if let Some(file) = files.find(|file| file.name == older.text) {
            file.replaced += 1;
        }
        self.loaded.replaced.push(older);
    }

    /// Adds a file of categories of reputations.
    ///
    /// # Errors
    ///
    /// The first line that is wrong.
    pub fn reputation_categories(&mut self, name: &str, text: &str) -> Result<(), SettingsError> {
        let added = self.reputations.add_categories(text);
        added.map_err(|error| told("reputation-categories", name, &[error]))
    }

    /// Adds a file of reputations.
    ///
    /// # Errors
    ///
    /// The first line that is wrong.
    pub fn reputations(&mut self, name: &str, text: &str) -> Result<(), SettingsError> {
        let added = self.reputations.add_scores(text);
        added.map_err(|error| told("reputations", name, &[error]))
    }

    /// Gives the rules what they look up in files, which `read` reads.
    fn load_data(&mut self, read: &mut dyn FnMut(&str) -> Result<String, String>) {
        let scores = Arc::new(core::mem::take(&mut self.reputations));
        for (key, why) in data::load(&mut self.collected, &scores, read) {
            let Some((line, file)) = self.collected.remove(key) else {
                continue;
            };
            let mut files = self.loaded.files.iter_mut();
            if let Some(known) = files.find(|known| known.name == file) {
                known.refused += 1;
            }
            let reason = Reason {
                kind: "file",
                name: general(&why),
            };
            self.loaded.refused.push(Refused {
                file,
                line,
                sid: Some(key.1),
                reasons: vec![reason],
                message: Some(why),
            });
        }
    }

    /// Compiles what was read, as the function does: with the files of values that rules name, which `read` reads,
    /// and the name and the text of a `classification.config`, if there is one.
    ///
    /// # Errors
    ///
    /// What is wrong with that last file.
    pub fn end(
        mut self,
        classes: Option<(&str, &str)>,
        read: &mut dyn FnMut(&str) -> Result<String, String>,
    ) -> Result<Loaded, SettingsError> {
        self.load_data(read);
        let classifications = match classes {
            None => Classifications::standard(),
            Some((name, text)) => Classifications::parse(text)
                .map_err(|error| told("classification-file", name, &[error]))?,
        };
        for (class, place) in self.classtypes {
            if classifications.get(&class).is_none() {
                let known = self.loaded.classtypes.entry(class);
                known.or_insert((0, place)).0 += 1;
            }
        }
        self.loaded.missing = self.thresholds.missing(self.collected.rules());
        let options = CompileOptions {
            classifications,
            ..CompileOptions::default()
        };
        let compiled = RuleSet::compile(self.collected.into_rules(), options);
        self.loaded.together = compiled.err().map(|error| error.to_string());
        Ok(self.loaded)
    }
}
