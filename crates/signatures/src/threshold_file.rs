//! Files of thresholds and suppressions, as Suricata's `threshold.config`.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::error::{Fault, RuleError, Span};
use crate::ranges::AddressSet;
use crate::rule::Rule;
use crate::sets::parse_set;
use crate::source::Source;
use crate::threshold::{Fields, Threshold, ThresholdKind, parts};
use crate::variables::Variables;

/// The rules that an entry is about; 0 stands for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct About {
    gid: u32,
    sid: u32,
}

impl About {
    fn names(self, gid: u32, sid: u32) -> bool {
        (self.gid == 0 || self.gid == gid) && (self.sid == 0 || self.sid == sid)
    }
}

/// A suppression: the addresses of which matches are not reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suppression {
    /// Matches from these addresses.
    source: Option<AddressSet>,
    /// Matches to these addresses.
    destination: Option<AddressSet>,
}

impl Suppression {
    /// True where a match between these ends is not reported.
    pub fn covers(&self, source: IpAddr, destination: IpAddr) -> bool {
        let is_in = |set: &Option<AddressSet>, address| {
            let set = set.as_ref();
            set.is_some_and(|set| set.contains(address))
        };
        is_in(&self.source, source) || is_in(&self.destination, destination)
    }
}

/// Entries of such files, in the order in which they were read.
#[derive(Debug, Clone, Default)]
pub struct ThresholdLists {
    thresholds: Vec<(About, Threshold)>,
    suppressions: Vec<(About, Suppression)>,
}

const HELP: &str = "write `threshold gen_id 1, sig_id 2019401, type limit, track by_src, count 1, seconds 60` or \
`suppress gen_id 1, sig_id 2019401, track by_src, ip 10.0.0.0/8`";

impl ThresholdLists {
    /// Reads a file: a `threshold`, `event_filter` or `suppress` a line, comments and blank lines.
    ///
    /// # Errors
    ///
    /// All lines that are no entries; `rate_filter` is not supported.
    pub fn add(&mut self, text: &str, variables: &Variables) -> Result<(), Vec<RuleError>> {
        let source = Source::new(text);
        let mut errors = Vec::new();
        for line in source.rules() {
            if let Err(fault) = self.entry(&line.text, variables) {
                errors.push(source.error(&line, fault));
            }
        }
        match errors.is_empty() {
            true => Ok(()),
            false => Err(errors),
        }
    }

    fn entry(&mut self, text: &str, variables: &Variables) -> Result<(), Fault> {
        let whole = Span::new(0, text.len()).trim(text);
        let written = whole.of(text);
        let end = written.find(char::is_whitespace).unwrap_or(written.len());
        let word = Span::new(whole.start, whole.start + end);
        let mut fields = parts(text, Span::new(word.end, whole.end));
        let about = About {
            gid: id(text, fields.next(), whole, "gen_id")?,
            sid: id(text, fields.next(), whole, "sig_id")?,
        };
        if about.gid == 0 && about.sid != 0 {
            return Err(Fault::new(
                whole,
                "`gen_id 0` stands for all rules, and so must `sig_id`",
            )
            .help("write `gen_id 1`, or `sig_id 0`"));
        }
        match word.of(text) {
            "suppress" => {
                let suppression = suppression(text, fields, variables)?;
                self.suppressions.push((about, suppression));
            }
            "threshold" | "event_filter" => {
                let mut read = Fields::default();
                fields.try_for_each(|part| read.take(text, part, true))?;
                self.thresholds
                    .push((about, read.finish(word, word.of(text))?));
            }
            "rate_filter" => {
                let message = "`rate_filter` is not supported";
                return Err(Fault::new(word, message).help("use `threshold` or `suppress`"));
            }
            other => return Err(Fault::new(word, format!("unknown entry `{other}`")).help(HELP)),
        }
        Ok(())
    }

    /// The threshold of a rule that has `own`: an entry for this rule replaces its `threshold`, but no
    /// `detection_filter`; of several entries the last one counts. One for all rules is for those without either.
    pub fn threshold(&self, gid: u32, sid: u32, own: Option<Threshold>) -> Option<Threshold> {
        if own.is_some_and(|own| own.kind == ThresholdKind::DetectionFilter) {
            return own;
        }
        let last = |of_one_rule: bool| {
            let mut latest_first = self.thresholds.iter().rev();
            let found = latest_first
                .find(|(about, _)| (about.sid != 0) == of_one_rule && about.names(gid, sid));
            found.map(|(_, threshold)| *threshold)
        };
        last(true).or(own).or_else(|| last(false))
    }

    /// The suppressions for a rule.
    pub fn suppressions(&self, gid: u32, sid: u32) -> Vec<Suppression> {
        let named = self.suppressions.iter();
        let named = named.filter(|(about, _)| about.names(gid, sid));
        named.map(|(_, suppression)| suppression.clone()).collect()
    }

    /// Gid and sid of each rule that an entry names and that is not among `rules`.
    pub fn missing(&self, rules: &[Rule]) -> BTreeSet<(u32, u32)> {
        let thresholds = self.thresholds.iter().map(|(about, _)| about);
        let all = thresholds.chain(self.suppressions.iter().map(|(about, _)| about));
        let named = all.filter(|about| about.sid != 0);
        let mut missing: BTreeSet<_> = named.map(|about| (about.gid, about.sid)).collect();
        for rule in rules {
            missing.remove(&(rule.gid, rule.sid));
        }
        missing
    }
}

/// Reads `gen_id NUMBER`.
fn id(text: &str, part: Option<Span>, whole: Span, name: &str) -> Result<u32, Fault> {
    let part = part.filter(|part| !part.of(text).is_empty());
    let at = part.unwrap_or(whole);
    let written = at.of(text).strip_prefix(name);
    let number = written.and_then(|number| number.trim().parse().ok());
    number.ok_or_else(|| Fault::new(at, format!("`{name} NUMBER` should be here")).help(HELP))
}

/// Reads `track by_src, ip ADDRESSES`; without both nothing of the rule is reported.
fn suppression(
    text: &str,
    mut fields: impl Iterator<Item = Span>,
    variables: &Variables,
) -> Result<Suppression, Fault> {
    let Some(track) = fields.next() else {
        return Ok(Suppression {
            source: Some(AddressSet::full()),
            destination: None,
        });
    };
    let name = track.of(text).strip_prefix("track").map(str::trim);
    let (source, destination) = match name {
        Some("by_src") => (true, false),
        Some("by_dst") => (false, true),
        Some("by_either") => (true, true),
        _ => {
            return Err(Fault::new(track, "no `track` of a suppression")
                .help("write `track by_src`, `track by_dst` or `track by_either`"));
        }
    };
    let no_addresses = |at: Span| {
        Fault::new(at, "the addresses are missing").help("write `ip 10.0.0.0/8`, or a `[list]`")
    };
    let first = fields.next().ok_or_else(|| no_addresses(track))?;
    // A list has commas of its own.
    let last = fields.last().unwrap_or(first);
    let written = Span::new(first.start, last.end).of(text);
    let value = written.strip_prefix("ip").map(str::trim_start);
    let value = value.filter(|value| !value.is_empty() && value.len() < written.len() - 2);
    let value = value.ok_or_else(|| no_addresses(first))?;
    let set: AddressSet = parse_set(text, Span::new(last.end - value.len(), last.end), variables)?;
    Ok(Suppression {
        source: source.then(|| set.clone()),
        destination: destination.then_some(set),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threshold::Track;

    fn read(text: &str) -> Result<ThresholdLists, Vec<RuleError>> {
        let mut lists = ThresholdLists::default();
        let mut variables = Variables::none();
        variables.set_address("HOME_NET", "10.0.0.0/8");
        lists.add(text, &variables).map(|()| lists)
    }

    #[test]
    fn entries_for_a_rule_replace_its_threshold_and_those_for_all_add_one() {
        let text = "# comment\n\
            threshold gen_id 1, sig_id 7, type limit, track by_src, count 3, seconds 60\n\
            event_filter gen_id 0, sig_id 0, type both, track by_dst, count 2, seconds 5\n\
            threshold gen_id 1, sig_id 7, count 4, seconds 60, track by_rule, type threshold\n";
        let lists = read(text).expect("it is right");
        let own = Threshold {
            kind: ThresholdKind::Limit,
            track: Track::Flow,
            count: 9,
            seconds: 9,
        };
        let last = lists.threshold(1, 7, Some(own)).expect("it has one");
        assert_eq!((last.kind, last.count), (ThresholdKind::Threshold, 4));
        assert_eq!(lists.threshold(1, 8, Some(own)), Some(own));
        let of_all = lists.threshold(3, 8, None).expect("all have one");
        assert_eq!((of_all.kind, of_all.seconds), (ThresholdKind::Both, 5));
        let filter = Threshold {
            kind: ThresholdKind::DetectionFilter,
            ..own
        };
        assert_eq!(lists.threshold(1, 7, Some(filter)), Some(filter));
        assert_eq!(lists.missing(&[]), BTreeSet::from([(1, 7)]));
    }

    #[test]
    fn suppressions_are_by_end() {
        let text = "suppress gen_id 1, sig_id 1\n\
            suppress gen_id 1, sig_id 2, track by_src, ip [192.0.2.0/24,2001:db8::/32]\n\
            suppress gen_id 1, sig_id 3, track by_dst, ip $HOME_NET\n\
            suppress gen_id 0, sig_id 0, track by_either, ip 203.0.113.9\n";
        let lists = read(text).expect("it is right");
        let address = |text: &str| text.parse().expect("an address");
        let is_told = |sid, from: &str, to: &str| {
            let all = lists.suppressions(1, sid);
            !all.iter().any(|one| one.covers(address(from), address(to)))
        };
        assert!(!is_told(1, "192.0.2.1", "198.51.100.1"));
        assert!(
            !is_told(2, "192.0.2.1", "198.51.100.1") && is_told(2, "198.51.100.1", "192.0.2.1")
        );
        assert!(!is_told(2, "2001:db8::1", "::1") && is_told(2, "::1", "2001:db8::1"));
        assert!(!is_told(3, "192.0.2.1", "10.1.1.1") && is_told(3, "10.1.1.1", "192.0.2.1"));
        assert!(!is_told(4, "203.0.113.9", "::1") && !is_told(4, "192.0.2.1", "203.0.113.9"));
        assert!(is_told(4, "192.0.2.1", "203.0.113.8"));
    }

    #[test]
    fn faults_are_told_with_their_places() {
        for (text, at, part) in [
            ("suppress", 1, "`gen_id NUMBER` should be here"),
            ("suppress gen_id 1, sig_id x", 20, "`sig_id NUMBER` should"),
            (
                "suppress gen_id 1, sig_id 1, track by_rule",
                30,
                "no `track`",
            ),
            (
                "suppress gen_id 1, sig_id 1, track by_src",
                30,
                "addresses are missing",
            ),
            (
                "suppress gen_id 1, sig_id 1, track by_src, ip",
                44,
                "addresses are missing",
            ),
            ("suppress gen_id 1, sig_id 1, track by_src, ip $X", 47, "X"),
            ("suppress gen_id 0, sig_id 1", 1, "all rules"),
            (
                "rate_filter gen_id 1, sig_id 1, track by_src",
                1,
                "not supported",
            ),
            ("limit gen_id 1, sig_id 1", 1, "unknown entry"),
            (
                "threshold gen_id 1, sig_id 1, type limit",
                1,
                "has no `track`",
            ),
            (
                "threshold gen_id 1, sig_id 1, count 0",
                31,
                "no number from 1",
            ),
            (
                "threshold gen_id 1, sig_id 1, type most",
                31,
                "unknown type",
            ),
            (
                "threshold gen_id 1, sig_id 1, count 1, count 2",
                40,
                "twice",
            ),
        ] {
            let errors = read(text).expect_err(text);
            assert_eq!((errors[0].line, errors[0].column), (1, at), "{text}");
            assert!(errors[0].message.contains(part), "{}", errors[0].message);
        }
    }
}
