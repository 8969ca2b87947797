//! Which segments the two ends of a link look at.

use schemars::JsonSchema;
use serde::Deserialize;
use weir_nf::prelude::*;

/// Which way packets go, as their ports tell it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Towards {
    /// Either way.
    #[default]
    Both,
    /// To one of the ports.
    ToServer,
    /// From one of the ports.
    ToClient,
}

/// The ports of HTTP servers.
pub(super) fn http_ports() -> Vec<u16> {
    vec![80, 8080]
}

/// Which segments one end looks at. Both ends must choose alike: what one looks at and the other
/// does not would reach its receiver coded.
#[derive(Debug)]
pub(super) struct Selection {
    /// In order.
    ports: Vec<u16>,
    direction: Towards,
}

impl Selection {
    pub(super) fn new(mut ports: Vec<u16>, direction: Towards) -> Result<Selection, SettingsError> {
        if ports.is_empty() {
            let error = SettingsError::new("ports", "no port, so no packet is looked at");
            return Err(error.help("list the ports of the servers, such as [80, 8080]"));
        }
        ports.sort_unstable();
        Ok(Selection { ports, direction })
    }

    #[inline]
    pub(super) fn takes(&self, (source, destination): (u16, u16)) -> bool {
        self.direction != Towards::ToClient && self.has(destination)
            || self.direction != Towards::ToServer && self.has(source)
    }

    #[inline]
    fn has(&self, port: u16) -> bool {
        self.ports.binary_search(&port).is_ok()
    }
}
