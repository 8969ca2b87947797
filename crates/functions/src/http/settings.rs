//! Settings that functions share which read HTTP.

use schemars::JsonSchema;
use serde::Deserialize;
use weir_nf::prelude::*;

use super::reader::{BUFFER_BYTES, HttpLimits};
use crate::stream::Limits;

/// Ports on which HTTP is looked for, and limits of the reader.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Reading {
    /// TCP ports (of either end) on which HTTP is looked for; empty for all.
    pub ports: Vec<u16>,
    /// Most bytes, per direction of a connection, from the first missing byte
    /// to the end of the last one that waits for it; 1,024 to 131,072.
    pub window: u32,
    /// Most bytes of one message's head; 1,024 to 196,608. A longer head is
    /// read as far as that.
    pub head_limit: u32,
    /// Bytes in which a connection's first message must show up; after them
    /// the direction is taken for another protocol and no longer read.
    pub probe: u32,
}

impl Default for Reading {
    fn default() -> Reading {
        Reading {
            ports: Vec::new(),
            window: 64 * 1024,
            head_limit: 64 * 1024,
            probe: 2 * 1024,
        }
    }
}

impl Reading {
    pub(crate) fn limits(&self) -> Result<HttpLimits, SettingsError> {
        if !(1_024..=BUFFER_BYTES / 2).contains(&self.window) {
            return Err(SettingsError::new(
                "reading.window",
                format!("{} bytes can't be kept", self.window),
            )
            .help("give 1024 to 131072"));
        }
        if !(1_024..=BUFFER_BYTES / 4 * 3).contains(&self.head_limit) {
            return Err(SettingsError::new(
                "reading.head-limit",
                format!("{} bytes can't be kept", self.head_limit),
            )
            .help("give 1024 to 196608"));
        }
        Ok(HttpLimits {
            stream: Limits {
                window: self.window,
                ..Limits::default()
            },
            head: self.head_limit,
            probe: self.probe,
        })
    }

    /// True where the flow's ports are among those to look at.
    pub(crate) fn wants(&self, key: &FlowKey) -> bool {
        if self.ports.is_empty() {
            return true;
        }
        let (_, a) = key.source(Direction::Forward);
        let (_, b) = key.destination(Direction::Forward);
        self.ports.contains(&a) || self.ports.contains(&b)
    }
}
