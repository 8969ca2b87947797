//! From the text of a rule file to typed rules, skipped rules and errors.

use std::collections::BTreeMap;

use crate::app_protocol::AppProtocols;
use crate::error::{Fault, RuleError, SkipReason, Skipped, Span};
use crate::header::{self, ProtocolWord};
use crate::options;
use crate::raw_option::{self, RawOption};
use crate::rule::Rule;
use crate::source::{LogicalLine, Source};
use crate::variables::Variables;

/// Treatment of a valid rule that uses an unsupported keyword or protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unsupported {
    /// It is an error.
    #[default]
    Refuse,
    /// It is left out, and listed in [`Parsed::skipped`].
    Skip,
}

/// Settings of [`parse_rules_with`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ParseOptions {
    /// Treatment of unsupported rules; refused by default.
    pub unsupported: Unsupported,
    /// Protocols whose buffers the caller hands in; rules that name those of others are unsupported. None by
    /// default.
    pub protocols: AppProtocols,
}

/// The contents of a rule file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Parsed {
    /// The rules, in the order of the file.
    pub rules: Vec<Rule>,
    /// Rules left out, in the order of the file.
    pub skipped: Vec<Skipped>,
}

impl Parsed {
    /// How many rules were skipped for each unsupported keyword or protocol, by its name. A rule with
    /// several unsupported keywords counts for each.
    pub fn skipped_by_name(&self) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        for skipped in &self.skipped {
            match &skipped.reason {
                SkipReason::Keywords(names) => {
                    for name in names {
                        *counts.entry(name.as_str()).or_insert(0) += 1;
                    }
                }
                SkipReason::Protocol(name) => *counts.entry(name.as_str()).or_insert(0) += 1,
                SkipReason::NothingLeft => *counts.entry("nothing left to match").or_insert(0) += 1,
                SkipReason::OlderRevision => *counts.entry("rev").or_insert(0) += 1,
            }
        }
        counts
    }
}

/// Reads the rules of a file, refusing what is not supported.
///
/// # Errors
///
/// All faults of the file, one per faulty rule, in the order of the file.
///
/// ```
/// use weir_signatures::{Variables, parse_rules};
///
/// let rules = parse_rules(
///     r#"alert tcp any any -> any 80 (msg:"shadow"; content:"/etc/shadow"; sid:1;)"#,
///     &Variables::stock(),
/// )
/// .unwrap();
/// assert_eq!(rules[0].contents[0].bytes, b"/etc/shadow");
///
/// let errors = parse_rules(
///     "alert tcp any any -> any any (http_uri; sid:1;)",
///     &Variables::stock(),
/// )
/// .unwrap_err();
/// assert_eq!(errors[0].message, "unsupported keyword `http_uri`");
/// assert_eq!((errors[0].line, errors[0].column, errors[0].length), (1, 31, 8));
/// ```
pub fn parse_rules(text: &str, variables: &Variables) -> Result<Vec<Rule>, Vec<RuleError>> {
    parse_rules_with(text, variables, ParseOptions::default()).map(|parsed| parsed.rules)
}

/// Reads the rules of a file.
///
/// Of several rules with the same `gid` and `sid`, the one with the highest `rev` is used and the others are
/// listed as [`SkipReason::OlderRevision`]; two of the same `rev` are an error.
///
/// # Errors
///
/// All faults of the file, one per faulty rule, in the order of the file.
pub fn parse_rules_with(
    text: &str,
    variables: &Variables,
    options: ParseOptions,
) -> Result<Parsed, Vec<RuleError>> {
    let (parsed, errors) = parse_rules_lossy(text, variables, options);
    if errors.is_empty() {
        Ok(parsed)
    } else {
        Err(errors)
    }
}

/// Like [`parse_rules_with`], but gives the usable rules of a file with faults beside its errors: for tools
/// that check or sort rule files.
pub fn parse_rules_lossy(
    text: &str,
    variables: &Variables,
    options: ParseOptions,
) -> (Parsed, Vec<RuleError>) {
    let source = Source::new(text);
    let mut parsed = Parsed::default();
    let mut errors = Vec::new();
    // (gid, sid) → place in `parsed.rules`.
    let mut known: BTreeMap<(u32, u32), usize> = BTreeMap::new();
    for logical in source.rules() {
        let line = source.first_line(&logical);
        match parse_rule(&logical, line, variables, options.protocols) {
            Ok(Outcome::Rule(rule, sid_span)) => match known.get(&(rule.gid, rule.sid)).copied() {
                None => {
                    known.insert((rule.gid, rule.sid), parsed.rules.len());
                    parsed.rules.push(*rule);
                }
                Some(at) => {
                    let Some(other) = parsed.rules.get_mut(at) else {
                        continue;
                    };
                    if other.rev == rule.rev {
                        let message = format!(
                            "gid {}, sid {}, rev {} is already used in line {}",
                            rule.gid, rule.sid, rule.rev, other.line
                        );
                        let fault = Fault::new(sid_span, message)
                            .duplicate()
                            .help("give one of the two rules another `sid`, or remove it");
                        errors.push(source.error(&logical, fault));
                        continue;
                    }
                    let older = if rule.rev > other.rev {
                        std::mem::replace(other, *rule)
                    } else {
                        *rule
                    };
                    parsed.skipped.push(Skipped {
                        line: older.line,
                        sid: Some(older.sid),
                        reason: SkipReason::OlderRevision,
                    });
                }
            },
            Ok(Outcome::Unsupported { sid, reason, at }) => match options.unsupported {
                Unsupported::Skip => parsed.skipped.push(Skipped { line, sid, reason }),
                Unsupported::Refuse => {
                    let Some(message) = unsupported(&reason) else {
                        continue;
                    };
                    let fault = Fault::new(at, message).help(
                        "remove the rule, or put `unsupported: skip` in the settings of the IDS",
                    );
                    errors.push(source.error(&logical, fault));
                }
            },
            Err(Refusal { sid, mut fault }) => match fault.skip.take() {
                Some(reason) if options.unsupported == Unsupported::Skip => {
                    parsed.skipped.push(Skipped { line, sid, reason });
                }
                _ => errors.push(source.error(&logical, fault)),
            },
        }
    }
    parsed.skipped.sort_by_key(|skipped| skipped.line);
    (parsed, errors)
}

/// What is unsupported, where something is.
fn unsupported(reason: &SkipReason) -> Option<String> {
    match reason {
        SkipReason::Keywords(names) => {
            let first = names.first().map_or("", String::as_str);
            Some(format!("unsupported keyword `{first}`"))
        }
        SkipReason::Protocol(name) => Some(format!("unsupported protocol `{name}`")),
        SkipReason::NothingLeft | SkipReason::OlderRevision => None,
    }
}

enum Outcome {
    /// The rule and the place of its `sid`.
    Rule(Box<Rule>, Span),
    Unsupported {
        sid: Option<u32>,
        reason: SkipReason,
        at: Span,
    },
}

/// A rule that cannot be used, with its number where that can be read.
struct Refusal {
    sid: Option<u32>,
    fault: Fault,
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Refusal { sid: None, fault }
    }
}

fn parse_rule(
    logical: &LogicalLine,
    line: usize,
    variables: &Variables,
    protocols: AppProtocols,
) -> Result<Outcome, Refusal> {
    let text = logical.text.as_str();
    let whole = Span::new(0, text.len());
    let Some(open) = text.find('(') else {
        return Err(Fault::new(whole.trim(text), "the rule has no options")
            .help("options follow the header in parentheses: `(msg:\"...\"; sid:1;)`")
            .into());
    };
    let body = Span::new(open + 1, text.len()).trim(text);
    if !body.of(text).ends_with(')') {
        return Err(Fault::new(
            Span::new(text.len().saturating_sub(1), text.len()),
            "the rule's options have no closing `)`",
        )
        .help("a rule continues on the next line only after a `\\` at the end of the line")
        .into());
    }
    let raw = raw_option::split(text, Span::new(body.start, body.end - 1))?;
    let header_span = Span::new(0, open);
    let words = header::words(text, header_span);
    let sid = raw
        .iter()
        .find(|option| option.keyword == "sid")
        .and_then(|option| option.value.of(text).trim().parse().ok());
    if let Some(&word) = words.get(1) {
        let unsupported = match header::protocol(word.of(text)) {
            ProtocolWord::Unsupported => true,
            ProtocolWord::Known(_, Some(application)) => !protocols.contains(application),
            ProtocolWord::Known(_, None) | ProtocolWord::Unknown => false,
        };
        if unsupported {
            return Ok(Outcome::Unsupported {
                sid,
                reason: SkipReason::Protocol(word.of(text).to_ascii_lowercase()),
                at: word,
            });
        }
    }
    let unsupported: Vec<&RawOption> = raw
        .iter()
        .filter(|option| !options::is_supported(text, option, protocols))
        .collect();
    if let Some(first) = unsupported.first() {
        let mut names: Vec<String> = Vec::new();
        for option in &unsupported {
            let name = options::name(text, option);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        return Ok(Outcome::Unsupported {
            sid,
            reason: SkipReason::Keywords(names),
            at: first.name,
        });
    }
    let built = header::parse_header(text, header_span, &words, variables)
        .and_then(|header| options::build(text, &raw, header, line));
    let (rule, sid_span) = built.map_err(|fault| Refusal { sid, fault })?;
    Ok(Outcome::Rule(Box::new(rule), sid_span))
}
