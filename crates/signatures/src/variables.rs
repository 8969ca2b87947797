//! `$NAME` variables of addresses and ports, as a rule's header uses them.

use std::collections::BTreeMap;

/// Values of the variables rules may name. A value is written as in a rule's header (`any`, `10.0.0.0/8`,
/// `[80,8080]`, `!$HOME_NET`, ...) and may name further variables.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Variables {
    addresses: BTreeMap<String, String>,
    ports: BTreeMap<String, String>,
}

/// Address variables of Suricata's stock configuration that stand for servers in the home network.
const SERVERS: [&str; 10] = [
    "HTTP_SERVERS",
    "SMTP_SERVERS",
    "SQL_SERVERS",
    "DNS_SERVERS",
    "TELNET_SERVERS",
    "AIM_SERVERS",
    "DC_SERVERS",
    "DNP3_SERVER",
    "MODBUS_SERVER",
    "ENIP_SERVER",
];

/// Address variables of Suricata's stock configuration that stand for clients in the home network.
const CLIENTS: [&str; 3] = ["DNP3_CLIENT", "MODBUS_CLIENT", "ENIP_CLIENT"];

/// Port variables of Suricata's stock configuration.
const PORTS: [(&str, &str); 10] = [
    ("HTTP_PORTS", "80"),
    ("SHELLCODE_PORTS", "!80"),
    ("ORACLE_PORTS", "1521"),
    ("SSH_PORTS", "22"),
    ("DNP3_PORTS", "20000"),
    ("MODBUS_PORTS", "502"),
    ("FILE_DATA_PORTS", "[$HTTP_PORTS,110,143]"),
    ("FTP_PORTS", "21"),
    ("GENEVE_PORTS", "6081"),
    ("VXLAN_PORTS", "4789"),
];

impl Variables {
    /// No variables.
    pub fn none() -> Self {
        Variables::default()
    }

    /// The names and values of Suricata's stock configuration: `HOME_NET` is the private IPv4 networks,
    /// `EXTERNAL_NET` all other addresses, servers are in the home network, `HTTP_PORTS` is 80, and so on.
    pub fn stock() -> Self {
        let mut variables = Variables::none();
        variables.set_address("HOME_NET", "[192.168.0.0/16,10.0.0.0/8,172.16.0.0/12]");
        variables.set_address("EXTERNAL_NET", "!$HOME_NET");
        for name in SERVERS.into_iter().chain(CLIENTS) {
            variables.set_address(name, "$HOME_NET");
        }
        variables.set_address("AIM_SERVERS", "$EXTERNAL_NET");
        for (name, value) in PORTS {
            variables.set_port(name, value);
        }
        variables
    }

    /// Sets an address variable; `name` is without `$`.
    pub fn set_address(&mut self, name: impl Into<String>, value: impl Into<String>) -> &mut Self {
        self.addresses.insert(name.into(), value.into());
        self
    }

    /// Sets a port variable; `name` is without `$`.
    pub fn set_port(&mut self, name: impl Into<String>, value: impl Into<String>) -> &mut Self {
        self.ports.insert(name.into(), value.into());
        self
    }

    /// The value of an address variable.
    pub fn address(&self, name: &str) -> Option<&str> {
        self.addresses.get(name).map(String::as_str)
    }

    /// The value of a port variable.
    pub fn port(&self, name: &str) -> Option<&str> {
        self.ports.get(name).map(String::as_str)
    }
}
