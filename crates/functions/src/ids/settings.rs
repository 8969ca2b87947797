//! Settings of the IDS, and how rules are read out of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use weir_nf::prelude::*;
use weir_signatures::{
    Action, Classifications, CompileOptions, ListKind, ParseOptions, Rule, RuleLists, RuleSet,
    Unsupported, Variables, Watch, parse_rules, parse_rules_with,
};

use super::collect::Collected;
use super::data;
use super::lists::{self, Named};
use super::protocols;
use super::records::{AlertField, FileHash, RecordKind, Recording};
use super::report::Catalogue;
use super::side_buffers::BUFFER_BYTES;
use super::told::told;
use crate::stream::Limits;

/// Settings of [`super::Ids`].
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Rules, one per line, in the language of Suricata and Snort.
    pub rules: String,
    /// Names of rule files, or patterns such as `rules/*.rules` that at least
    /// one file fits; read in this order after `rules`, those of a pattern in
    /// the order of their names.
    pub rule_files: Vec<String>,
    /// Names of lists of rules to leave out, as suricata-update's `disable.conf`.
    pub disable_files: Vec<String>,
    /// Names of lists of rules to take although they are commented out, also
    /// where another list leaves them out, as `enable.conf`.
    pub enable_files: Vec<String>,
    /// Names of lists of rules whose action becomes `drop`, as `drop.conf`.
    pub drop_files: Vec<String>,
    /// Names of lists of rules whose text is changed, as `modify.conf`.
    pub modify_files: Vec<String>,
    /// Names of files of thresholds and suppressions, as Suricata's `threshold.config`.
    pub threshold_files: Vec<String>,
    /// Name of a `classification.config`: descriptions and priorities of class
    /// types. Without it those that rule sets commonly rely on are used.
    pub classification_file: Option<String>,
    /// Names of files with the categories of reputations, which `iprep` names: `NUMBER,NAME,DESCRIPTION` per line.
    pub reputation_categories: Vec<String>,
    /// Names of files with reputations of addresses and networks: `ADDRESS,CATEGORY,SCORE` per line, scores up to 127.
    pub reputation_files: Vec<String>,
    /// Values of the `$NAME`s that rules use, written as in a rule's header
    /// (`10.0.0.0/8`, `[80,8080]`, `!$HOME_NET`). Names that end in `_PORTS`
    /// or `_PORT` are ports, all others addresses. `HOME_NET` and
    /// `EXTERNAL_NET` are `any` unless given; others are those of Suricata's
    /// stock configuration (`HTTP_PORTS` is 80, servers are `$HOME_NET`).
    pub vars: BTreeMap<String, String>,
    /// Action on a rule that is correct but uses an unsupported keyword or protocol.
    pub unsupported: OnUnsupported,
    /// Action on a match.
    pub action: Act,
    /// Bytes of a TCP stream before the newest ones that rules look back at,
    /// per direction; 256 to 65,536, and at least the longest content of a
    /// rule.
    pub window: u32,
    /// Most bytes, per direction of a connection, from the first missing byte
    /// to the end of the last one that waits for it; 1,024 to 131,072.
    pub reorder: u32,
    /// Follow TCP connections whose handshake was not seen.
    pub midstream: bool,
    /// Records to write beside alerts, as Suricata's `eve-log` types.
    pub records: Vec<RecordKind>,
    /// Optional fields of alerts.
    pub alert_fields: Vec<AlertField>,
    /// Hashes of whole files in `fileinfo` records.
    pub file_hashes: Vec<FileHash>,
    /// Hears of each attempt of a rule: for tools, not in a chain file.
    #[serde(skip)]
    pub watch: Option<Arc<dyn Watch>>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            rules: String::new(),
            rule_files: Vec::new(),
            disable_files: Vec::new(),
            enable_files: Vec::new(),
            drop_files: Vec::new(),
            modify_files: Vec::new(),
            threshold_files: Vec::new(),
            classification_file: None,
            reputation_categories: Vec::new(),
            reputation_files: Vec::new(),
            vars: BTreeMap::new(),
            unsupported: OnUnsupported::Refuse,
            action: Act::Alert,
            window: 4096,
            reorder: 64 * 1024,
            midstream: false,
            records: Vec::new(),
            alert_fields: vec![AlertField::App, AlertField::Metadata],
            file_hashes: Vec::new(),
            watch: None,
        }
    }
}

/// Action on rules that are not supported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnUnsupported {
    /// They are errors.
    #[default]
    Refuse,
    /// They are left out, with a warning that counts them by keyword.
    Skip,
}

/// Action on a match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Act {
    /// It is reported; nothing is dropped, whatever the rule asks for.
    #[default]
    Alert,
    /// It is reported, and the packet and the rest of its flow are dropped.
    Drop,
    /// As the rule says: `drop` and `reject` drop the packet and the rest of
    /// its flow, `alert` reports.
    Rule,
}

impl Act {
    /// True where a match of this rule drops.
    fn blocks(self, rule: &Rule) -> bool {
        match self {
            Act::Alert => false,
            Act::Drop => true,
            Act::Rule => matches!(rule.action, Action::Drop | Action::Reject),
        }
    }
}

/// How the function reads rules: the application protocols whose buffers it
/// hands to them, and what becomes of rules that are not supported.
pub fn parse_options(unsupported: OnUnsupported) -> ParseOptions {
    ParseOptions {
        unsupported: match unsupported {
            OnUnsupported::Refuse => Unsupported::Refuse,
            OnUnsupported::Skip => Unsupported::Skip,
        },
        protocols: protocols::all(),
    }
}

impl Settings {
    /// Limits of streams.
    pub(super) fn limits(&self) -> Result<Limits, SettingsError> {
        if !(1_024..=BUFFER_BYTES / 2).contains(&self.reorder) {
            return Err(SettingsError::new(
                "reorder",
                format!("{} bytes can't be kept", self.reorder),
            )
            .help("give 1024 to 131072"));
        }
        if !(256..=65_536).contains(&self.window) {
            return Err(SettingsError::new(
                "window",
                format!("{} bytes can't be kept", self.window),
            )
            .help("give 256 to 65536"));
        }
        Ok(Limits {
            window: self.reorder,
            ..Limits::default()
        })
    }

    /// Settings of records and alerts, with the transactions that these rules need.
    pub(super) fn recording(&self, rules: &RuleSet) -> Result<Recording, SettingsError> {
        if !self.file_hashes.is_empty() && !self.records.contains(&RecordKind::Fileinfo) {
            return Err(
                SettingsError::new("file-hashes", "no record shows the hashes")
                    .help("add `fileinfo` to `records`"),
            );
        }
        let names = rules.needs_file_names();
        Ok(Recording::new(
            &self.records,
            &self.alert_fields,
            &self.file_hashes,
            names,
        ))
    }

    /// The lists that are named.
    fn lists(&self) -> [Named<'_>; 4] {
        [
            (ListKind::Disable, "disable-files", &self.disable_files),
            (ListKind::Enable, "enable-files", &self.enable_files),
            (ListKind::Drop, "drop-files", &self.drop_files),
            (ListKind::Modify, "modify-files", &self.modify_files),
        ]
    }

    /// Gives the rules what they look up in files.
    fn load_data(&self, all: &mut Collected, set_up: &mut SetUp<'_>) -> Result<(), SettingsError> {
        let (categories, scores) = (&self.reputation_categories, &self.reputation_files);
        let scores = lists::reputations(categories, scores, set_up)?;
        let mut read = |name: &str| {
            let text = set_up.text("rules", name);
            text.map_err(|why| why.message)
        };
        let mut unusable = data::load(all, &Arc::new(scores), &mut read).into_iter();
        let Some((first, why)) = unusable.next() else {
            return Ok(());
        };
        let (line, text) = all.remove(first).unwrap_or_default();
        if self.unsupported == OnUnsupported::Refuse {
            return Err(SettingsError::new("rules", why).at(&text, line, 1));
        }
        let others = unusable.filter_map(|(rule, _)| all.remove(rule)).count();
        set_up.warn(format!(
            "{} rules are left out, since what they look up is not there; the first one ({text}:{line}): {why}",
            others + 1
        ));
        Ok(())
    }

    /// Reads and compiles the rules.
    pub(super) fn compile(
        &self,
        set_up: &mut SetUp<'_>,
    ) -> Result<(RuleSet, Catalogue), SettingsError> {
        let reading = Reading {
            variables: variables(&self.vars)?,
            lists: lists::read(&self.lists(), set_up)?,
            options: parse_options(self.unsupported),
        };
        let mut all = Collected::default();
        if !self.rules.trim().is_empty() {
            reading.read(("rules", "rules"), &self.rules, &mut all, set_up)?;
        }
        for (number, name) in self.rule_files.iter().enumerate() {
            let path = format!("rule-files[{number}]");
            for name in &set_up.names(&path, name)? {
                let text = set_up.text(&path, name)?;
                reading.read((&path, name), &text, &mut all, set_up)?;
            }
        }
        if self.rules.trim().is_empty() && self.rule_files.is_empty() && self.records.is_empty() {
            return Err(
                SettingsError::new("rules", "there are no rules and no records").help(
                    "write rules below `rules: |`, name files in `rule-files`, or give `records`",
                ),
            );
        }
        let classifications = match &self.classification_file {
            None => Classifications::standard(),
            Some(name) => {
                let text = set_up.text("classification-file", name)?;
                Classifications::parse(&text)
                    .map_err(|error| told("classification-file", name, &[error]))?
            }
        };
        self.load_data(&mut all, set_up)?;
        let thresholds = lists::thresholds(&self.threshold_files, &reading.variables, set_up)?;
        let blocks = |rule: &Rule| self.action.blocks(rule);
        let rules = all.rules();
        let catalogue = Catalogue::new(rules.iter(), &classifications, &thresholds, blocks);
        for (gid, sid) in thresholds.missing(rules) {
            set_up.warn(format!(
                "threshold-files: there is no rule with gid {gid} and sid {sid}"
            ));
        }
        let told_only = catalogue.told_only(rules.iter(), blocks);
        if told_only > 0 {
            set_up.warn(format!(
                "{told_only} rules that would drop only report: they wait for matches of other flows, by \
                 `threshold`, `detection_filter`, `xbits` or `hostbits` (`type limit` drops)"
            ));
        }
        let options = CompileOptions {
            classifications,
            ..CompileOptions::default()
        };
        let set = RuleSet::compile(all.into_rules(), options)
            .map_err(|error| SettingsError::new("rules", error.to_string()))?;
        if set.longest_content() > self.window as usize {
            return Err(SettingsError::new(
                "window",
                format!(
                    "a content of {} bytes does not fit into {}",
                    set.longest_content(),
                    self.window
                ),
            )
            .help("give at least the length of the longest content"));
        }
        Ok((set, catalogue))
    }
}

/// Variables, lists and options for reading texts of rules.
struct Reading {
    variables: Variables,
    lists: RuleLists,
    options: ParseOptions,
}

impl Reading {
    /// Reads a text of the setting `path`, called `name`.
    fn read(
        &self,
        (path, name): (&str, &str),
        text: &str,
        all: &mut Collected,
        set_up: &mut SetUp<'_>,
    ) -> Result<(), SettingsError> {
        let listed = self.lists.apply(name, text);
        let (text, _) = listed.map_err(|why| SettingsError::new(path, why))?;
        let parsed = parse_rules_with(&text, &self.variables, self.options)
            .map_err(|errors| told(path, name, &errors))?;
        if !parsed.skipped.is_empty() {
            let mut reasons: Vec<(&str, usize)> = parsed.skipped_by_name().into_iter().collect();
            reasons.sort_by_key(|&(_, count)| core::cmp::Reverse(count));
            let reasons: Vec<String> = reasons
                .into_iter()
                .map(|(keyword, count)| format!("{keyword} {count}"))
                .collect();
            set_up.warn(format!(
                "{name}: {} of {} rules are left out, they use: {}",
                parsed.skipped.len(),
                parsed.skipped.len() + parsed.rules.len(),
                reasons.join(", ")
            ));
        }
        for rule in parsed.rules {
            let line = rule.line;
            all.add(rule, name)
                .map_err(|why| SettingsError::new(path, why).at(name, line, 1))?;
        }
        Ok(())
    }
}

/// The `$NAME`s that the function's rules may use, with these values (see
/// [`Settings::vars`]), each tried out alone so that a bad value is told where
/// it is written.
///
/// # Errors
///
/// The first value that can't be read, as the setting `vars.NAME`.
pub fn variables(vars: &BTreeMap<String, String>) -> Result<Variables, SettingsError> {
    let mut variables = Variables::stock();
    variables.set_address("HOME_NET", "any");
    variables.set_address("EXTERNAL_NET", "any");
    for (name, value) in vars {
        if is_port(name) {
            variables.set_port(name, value);
        } else {
            variables.set_address(name, value);
        }
    }
    for name in vars.keys() {
        let rule = if is_port(name) {
            format!("alert tcp any ${name} -> any any (sid:1;)")
        } else {
            format!("alert tcp ${name} any -> any any (sid:1;)")
        };
        if let Err(errors) = parse_rules(&rule, &variables) {
            let error = errors.into_iter().next();
            let (message, help) = error
                .map(|error| (error.message, error.help))
                .unwrap_or_default();
            let bad = SettingsError::new(format!("vars.{name}"), message);
            return Err(match help {
                Some(help) => bad.help(help),
                None => bad,
            });
        }
    }
    Ok(variables)
}

fn is_port(name: &str) -> bool {
    name.ends_with("_PORTS") || name.ends_with("_PORT")
}
