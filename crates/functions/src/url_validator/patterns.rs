//! Patterns of attacks.

use aho_corasick::AhoCorasick;
use weir_nf::SettingsError;

use super::normalize::{OVERLAP, PIECE, Text, has_tautology};
use super::settings::Settings;

const SQL: &[&str] = &[
    "union select",
    "union all select",
    "union distinct select",
    "union(select",
    "(select ",
    ";select ",
    "; select ",
    ";drop ",
    "; drop ",
    ";insert into",
    "; insert into",
    ";delete from",
    "; delete from",
    ";update ",
    "; update ",
    ";exec",
    "; exec",
    "information_schema",
    "sqlite_master",
    "xp_cmdshell",
    "and sleep(",
    "or sleep(",
    "select sleep(",
    ",sleep(",
    "benchmark(",
    "pg_sleep(",
    "waitfor delay",
    "load_file(",
    "into outfile",
    "into dumpfile",
    "extractvalue(",
    "updatexml(",
    "'-- ",
    "' -- ",
];

const SCRIPTING: &[&str] = &[
    "<script",
    "</script",
    "javascript:",
    "onerror=",
    "onload=",
    "onmouseover=",
    "<svg",
    "<iframe",
    "document.cookie",
];

const TRAVERSAL: &[&str] = &[
    "../../",
    "..\\..\\",
    "/../..",
    "/.%2e/",
    "/etc/passwd",
    "/etc/shadow",
    "boot.ini",
    "win.ini",
    "/proc/self/",
];

/// Kinds of attacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Sql,
    Scripting,
    Traversal,
    Own,
}

impl Class {
    pub(super) fn id(self) -> u64 {
        1_000_001 + self as u64
    }

    pub(super) fn signature(self) -> &'static str {
        match self {
            Class::Sql => "SQL injection in a request",
            Class::Scripting => "cross-site scripting in a request",
            Class::Traversal => "path traversal in a request",
            Class::Own => "forbidden text in a request",
        }
    }
}

/// An attack that was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Finding<'a> {
    pub(super) class: Class,
    pub(super) pattern: &'a str,
}

/// All patterns, compiled.
#[derive(Debug)]
pub(super) struct Patterns {
    machine: AhoCorasick,
    texts: Vec<(Class, String)>,
    tautologies: bool,
}

impl Patterns {
    pub(super) fn new(settings: &Settings) -> Result<Patterns, SettingsError> {
        let mut texts = Vec::new();
        let mut add = |wanted: bool, class: Class, list: &[&str]| {
            if wanted {
                texts.extend(list.iter().map(|text| (class, (*text).to_owned())));
            }
        };
        add(settings.sql_injection, Class::Sql, SQL);
        add(settings.cross_site_scripting, Class::Scripting, SCRIPTING);
        add(settings.path_traversal, Class::Traversal, TRAVERSAL);
        for (i, text) in settings.patterns.iter().enumerate() {
            let path = format!("patterns[{i}]");
            if text.is_empty() || text.len() > OVERLAP / 4 {
                return Err(SettingsError::new(path, "a pattern has 1 to 128 bytes"));
            }
            if text.bytes().any(|b| b.is_ascii_uppercase()) {
                return Err(
                    SettingsError::new(path, "no text would match a capital letter")
                        .help("write the pattern in lower case"),
                );
            }
            if text.contains("  ") || text.contains("/*") {
                return Err(SettingsError::new(
                    path,
                    "comments and runs of spaces are one space before the comparison",
                )
                .help("write a single space"));
            }
            texts.push((Class::Own, text.clone()));
        }
        if texts.is_empty() {
            return Err(SettingsError::new("", "there is nothing to look for")
                .help("switch sql-injection on, or give patterns"));
        }
        let machine = AhoCorasick::new(texts.iter().map(|(_, text)| text))
            .map_err(|error| SettingsError::new("patterns", error.to_string()))?;
        Ok(Patterns {
            machine,
            texts,
            tautologies: settings.sql_injection,
        })
    }

    /// The first attack in raw text.
    pub(super) fn search(&self, raw: &[u8]) -> Option<Finding<'_>> {
        let mut text = Text::new();
        let mut at = 0;
        loop {
            text.fill(raw.get(at..).unwrap_or(&[]));
            if let Some(finding) = self.search_piece(text.as_slice()) {
                return Some(finding);
            }
            at += PIECE - OVERLAP;
            if at + OVERLAP >= raw.len() {
                return None;
            }
        }
    }

    fn search_piece(&self, text: &[u8]) -> Option<Finding<'_>> {
        if let Some(found) = self.machine.find(text) {
            let (class, pattern) = self.texts.get(found.pattern().as_usize())?;
            return Some(Finding {
                class: *class,
                pattern,
            });
        }
        (self.tautologies && has_tautology(text)).then_some(Finding {
            class: Class::Sql,
            pattern: "a condition that is always true",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attacks_are_found_wherever_they_are() {
        let patterns = Patterns::new(&Settings::default()).unwrap();
        for pad in [0, 10, 3_500, 3_584, 4_000, 4_095, 4_096, 60_000] {
            let raw = format!("/{}?id=1%27%20UnIoN/**/%53ELECT+1", "x".repeat(pad));
            let found = patterns.search(raw.as_bytes()).unwrap();
            assert_eq!((found.class, found.pattern), (Class::Sql, "union select"));
        }
        assert!(patterns.search(b"/trade-unions/select?a=1").is_none());
        assert!(patterns.search(b"").is_none());
    }

    #[test]
    fn patterns_that_can_never_match_are_refused() {
        for (pattern, path) in [
            ("", "patterns[0]"),
            ("ABC", "patterns[0]"),
            ("a  b", "patterns[0]"),
        ] {
            let settings = Settings {
                patterns: vec![pattern.to_owned()],
                ..Settings::default()
            };
            assert_eq!(Patterns::new(&settings).unwrap_err().path, path);
        }
        let nothing = Settings {
            sql_injection: false,
            ..Settings::default()
        };
        assert!(Patterns::new(&nothing).is_err());
    }
}
