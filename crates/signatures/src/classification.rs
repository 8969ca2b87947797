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

/// The class types that rule sets commonly rely on, with their usual descriptions and priorities:
/// a `classification.config`.
const STANDARD: &str = "
config classification: not-suspicious,Not Suspicious Traffic,3
config classification: unknown,Unknown Traffic,3
config classification: bad-unknown,Potentially Bad Traffic,2
config classification: attempted-recon,Attempted Information Leak,2
config classification: successful-recon-limited,Information Leak,2
config classification: successful-recon-largescale,Large Scale Information Leak,2
config classification: attempted-dos,Attempted Denial of Service,2
config classification: successful-dos,Denial of Service,2
config classification: attempted-user,Attempted User Privilege Gain,1
config classification: unsuccessful-user,Unsuccessful User Privilege Gain,1
config classification: successful-user,Successful User Privilege Gain,1
config classification: attempted-admin,Attempted Administrator Privilege Gain,1
config classification: successful-admin,Successful Administrator Privilege Gain,1
config classification: rpc-portmap-decode,Decode of an RPC Query,2
config classification: shellcode-detect,Executable code was detected,1
config classification: string-detect,A suspicious string was detected,3
config classification: suspicious-filename-detect,A suspicious filename was detected,2
config classification: suspicious-login,An attempted login using a suspicious username was detected,2
config classification: system-call-detect,A system call was detected,2
config classification: tcp-connection,A TCP connection was detected,4
config classification: trojan-activity,A Network Trojan was detected,1
config classification: unusual-client-port-connection,A client was using an unusual port,2
config classification: network-scan,Detection of a Network Scan,3
config classification: denial-of-service,Detection of a Denial of Service Attack,2
config classification: non-standard-protocol,Detection of a non-standard protocol or event,2
config classification: protocol-command-decode,Generic Protocol Command Decode,3
config classification: web-application-activity,access to a potentially vulnerable web application,2
config classification: web-application-attack,Web Application Attack,1
config classification: misc-activity,Misc activity,3
config classification: misc-attack,Misc Attack,2
config classification: icmp-event,Generic ICMP event,3
config classification: inappropriate-content,Inappropriate Content was Detected,1
config classification: policy-violation,Potential Corporate Privacy Violation,1
config classification: default-login-attempt,Attempt to login by a default username and password,2
config classification: targeted-activity,Targeted Malicious Activity was Detected,1
config classification: exploit-kit,Exploit Kit Activity Detected,1
config classification: external-ip-check,Device Retrieving External IP Address Detected,2
config classification: domain-c2,Domain Observed Used for C2 Detected,1
config classification: pup-activity,Possibly Unwanted Program Detected,2
config classification: credential-theft,Successful Credential Theft Detected,1
config classification: social-engineering,Possible Social Engineering Attempted,2
config classification: command-and-control,Malware Command and Control Activity Detected,1
";

impl Classifications {
    /// No class types: every rule without a `priority` has [`DEFAULT_PRIORITY`].
    pub fn none() -> Self {
        Classifications::default()
    }

    /// The class types that rule sets commonly rely on.
    pub fn standard() -> Self {
        Classifications::parse(STANDARD).unwrap_or_default()
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
    fn all_standard_types_are_read() {
        assert_eq!(Classifications::parse(STANDARD).unwrap().types.len(), 42);
    }

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
