//! Syslog messages (RFC 5424): an event each, its line as the text.

use std::io::Write as _;

use super::record::{Record, first_line};

/// Suricata's facility for events: local5.
const FACILITY: u8 = 21;
/// For events that are no findings.
const INFORMATIONAL: u8 = 6;

/// A session with a collector.
pub(in super::super) struct Syslog {
    /// Each message has its length before it (RFC 6587 §3.4.1): on a stream.
    is_counted: bool,
    host: String,
    process: u32,
}

impl Syslog {
    pub(super) fn new(is_counted: bool) -> Syslog {
        let host = rustix::system::uname();
        let host = host.nodename().to_string_lossy();
        let is_printable = |c: &char| c.is_ascii_graphic();
        let host: String = host.chars().filter(is_printable).take(255).collect();
        Syslog {
            is_counted,
            host: if host.is_empty() { "-".into() } else { host },
            process: std::process::id(),
        }
    }

    pub(super) fn encode(&mut self, lines: &[u8], message: &mut Vec<u8>) -> usize {
        let (line, taken) = first_line(lines);
        let Ok(record) = serde_json::from_slice::<Record<'_>>(line) else {
            return taken;
        };
        let severity = record.alert.as_ref().map_or(INFORMATIONAL, |alert| {
            // Of a finding's 1, 2, and all others: error, warning, notice.
            2 + alert.severity.clamp(1, 3)
        });
        let time = record.timestamp.replace("+0000", "Z");
        let (host, process) = (&self.host, self.process);
        let kind = record.event_type.get(..32).unwrap_or(&record.event_type);
        let head = format!(
            "<{}>1 {time} {host} weir {process} {kind} - ",
            FACILITY * 8 + severity
        );
        if self.is_counted {
            // Writing to a vector can't fail.
            let _ = write!(message, "{} ", head.len() + line.len());
        }
        message.extend_from_slice(head.as_bytes());
        message.extend_from_slice(line);
        taken
    }
}
