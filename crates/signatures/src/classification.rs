//! Class types: the description and the priority that stand behind a rule's `classtype`.

use std::collections::BTreeMap;

use crate::error::{Fault, RuleError, Span};
use crate::source::Source;

/// Priority of a rule that gives none, neither itself nor by its class type.
pub const DEFAULT_PRIORITY: u8 = 3;

/// One class type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classification {
    /// Name of the category in alerts.
    pub description: String,
    /// 1 (most urgent) to 255.
    pub priority: u8,
}

/// Class types by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Classifications {
    types: BTreeMap<String, Classification>,
}

/// The class types that rule sets commonly rely on, with their usual descriptions and priorities.
const STANDARD: [(&str, &str, u8); 42] = [
    ("not-suspicious", "Not Suspicious Traffic", 3),
    ("unknown", "Unknown Traffic", 3),
    ("bad-unknown", "Potentially Bad Traffic", 2),
    ("attempted-recon", "Attempted Information Leak", 2),
    ("successful-recon-limited", "Information Leak", 2),
    (
        "successful-recon-largescale",
        "Large Scale Information Leak",
        2,
    ),
    ("attempted-dos", "Attempted Denial of Service", 2),
    ("successful-dos", "Denial of Service", 2),
    ("attempted-user", "Attempted User Privilege Gain", 1),
    ("unsuccessful-user", "Unsuccessful User Privilege Gain", 1),
    ("successful-user", "Successful User Privilege Gain", 1),
    (
        "attempted-admin",
        "Attempted Administrator Privilege Gain",
        1,
    ),
    (
        "successful-admin",
        "Successful Administrator Privilege Gain",
        1,
    ),
    ("rpc-portmap-decode", "Decode of an RPC Query", 2),
    ("shellcode-detect", "Executable code was detected", 1),
    ("string-detect", "A suspicious string was detected", 3),
    (
        "suspicious-filename-detect",
        "A suspicious filename was detected",
        2,
    ),
    (
        "suspicious-login",
        "An attempted login using a suspicious username was detected",
        2,
    ),
    ("system-call-detect", "A system call was detected", 2),
    ("tcp-connection", "A TCP connection was detected", 4),
    ("trojan-activity", "A Network Trojan was detected", 1),
    (
        "unusual-client-port-connection",
        "A client was using an unusual port",
        2,
    ),
    ("network-scan", "Detection of a Network Scan", 3),
    (
        "denial-of-service",
        "Detection of a Denial of Service Attack",
        2,
    ),
    (
        "non-standard-protocol",
        "Detection of a non-standard protocol or event",
        2,
    ),
    (
        "protocol-command-decode",
        "Generic Protocol Command Decode",
        3,
    ),
    (
        "web-application-activity",
        "access to a potentially vulnerable web application",
        2,
    ),
    ("web-application-attack", "Web Application Attack", 1),
    ("misc-activity", "Misc activity", 3),
    ("misc-attack", "Misc Attack", 2),
    ("icmp-event", "Generic ICMP event", 3),
    (
        "inappropriate-content",
        "Inappropriate Content was Detected",
        1,
    ),
    (
        "policy-violation",
        "Potential Corporate Privacy Violation",
        1,
    ),
    (
        "default-login-attempt",
        "Attempt to login by a default username and password",
        2,
    ),
    (
        "targeted-activity",
        "Targeted Malicious Activity was Detected",
        1,
    ),
    ("exploit-kit", "Exploit Kit Activity Detected", 1),
    (
        "external-ip-check",
        "Device Retrieving External IP Address Detected",
        2,
    ),
    ("domain-c2", "Domain Observed Used for C2 Detected", 1),
    ("pup-activity", "Possibly Unwanted Program Detected", 2),
    (
        "credential-theft",
        "Successful Credential Theft Detected",
        1,
    ),
    (
        "social-engineering",
        "Possible Social Engineering Attempted",
        2,
    ),
    (
        "command-and-control",
        "Malware Command and Control Activity Detected",
        1,
    ),
];

impl Classifications {
    /// No class types: every rule without a `priority` has [`DEFAULT_PRIORITY`].
    pub fn none() -> Self {
        Classifications::default()
    }

    /// The class types that rule sets commonly rely on.
    pub fn standard() -> Self {
        let mut all = Classifications::none();
        for (name, description, priority) in STANDARD {
            all.insert(name, description, priority);
        }
        all
    }

    /// Reads a `classification.config`: lines of `config classification: NAME,DESCRIPTION,PRIORITY`,
    /// comments and blank lines.
    ///
    /// # Errors
    ///
    /// The first faulty line.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        let source = Source::new(text);
        let mut all = Classifications::none();
        for line in source.rules() {
            let written = line.text.trim();
            let whole = Span::new(0, line.text.len()).trim(&line.text);
            let fault = |message: &str| {
                let fault = Fault::new(whole, message)
                    .help("write `config classification: NAME,DESCRIPTION,PRIORITY`");
                source.error(&line, fault)
            };
            let fields = written
                .strip_prefix("config classification:")
                .ok_or_else(|| fault("not a line of a classification file"))?;
            let (name, rest) = fields
                .split_once(',')
                .ok_or_else(|| fault("description and priority are missing"))?;
            let (description, priority) = rest
                .rsplit_once(',')
                .ok_or_else(|| fault("the priority is missing"))?;
            let priority: u8 = priority
                .trim()
                .parse()
                .ok()
                .filter(|&priority| priority > 0)
                .ok_or_else(|| fault("the priority is not a number from 1 to 255"))?;
            all.insert(name.trim(), description.trim(), priority);
        }
        Ok(all)
    }

    /// Adds a class type, or replaces the one of that name.
    pub fn insert(&mut self, name: &str, description: &str, priority: u8) -> &mut Self {
        self.types.insert(
            name.to_string(),
            Classification {
                description: description.to_string(),
                priority,
            },
        );
        self
    }

    /// The class type of that name.
    pub fn get(&self, name: &str) -> Option<&Classification> {
        self.types.get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_classification_file() {
        let text = "# types\nconfig classification: a-b,One, and two,7\n\n";
        let all = Classifications::parse(text).unwrap();
        let found = all.get("a-b").unwrap();
        assert_eq!(
            (found.description.as_str(), found.priority),
            ("One, and two", 7)
        );
        let error = Classifications::parse("config classification: a,b,0").unwrap_err();
        assert_eq!(error.line, 1);
        assert!(error.message.contains("1 to 255"));
    }
}
