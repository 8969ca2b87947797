//! Syslog messages (RFC 5424): an event each, its line as the text.

use std::io::Write as _;

use serde_json::Value;
use weir_packet::Time;

use super::super::lines;

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
        let machine = rustix::system::uname();
        Syslog {
            is_counted,
            host: graphic(&machine.nodename().to_string_lossy(), 255),
            process: std::process::id(),
        }
    }

    pub(super) fn encode(&mut self, lines: &[u8], message: &mut Vec<u8>) -> usize {
        let taken = lines::first_length(lines);
        let line = lines.get(..taken).unwrap_or_default();
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        // A function of a tenant writes what it likes: the header has only what fits there.
        let event: Value = serde_json::from_slice(line).unwrap_or_default();
        let text = |name| event.get(name).and_then(Value::as_str).unwrap_or_default();
        let severity = match event.get("alert") {
            None => INFORMATIONAL,
            // Suricata's severity, of which 1 is the highest: error, warning, notice.
            Some(alert) => match alert.get("severity").and_then(Value::as_u64) {
                Some(1) => 3,
                Some(2) => 4,
                _ => 5,
            },
        };
        let time = text("timestamp").parse::<Time>();
        let time = time.map_or("-".into(), |time| time.to_string().replace("+0000", "Z"));
        let kind = graphic(text("event_type"), 32);
        let (host, process) = (&self.host, self.process);
        let priority = FACILITY * 8 + severity;
        let head = format!("<{priority}>1 {time} {host} weir {process} {kind} - ");
        if self.is_counted {
            // Writing to a vector can't fail.
            let _ = write!(message, "{} ", head.len() + line.len());
        }
        message.extend_from_slice(head.as_bytes());
        message.extend_from_slice(line);
        taken
    }
}

/// A field of a header: printable ASCII without spaces, or `-` (RFC 5424 §6).
fn graphic(text: &str, most: usize) -> String {
    let fits = text.chars().filter(char::is_ascii_graphic).take(most);
    let field: String = fits.collect();
    match field.is_empty() {
        true => "-".to_owned(),
        false => field,
    }
}
