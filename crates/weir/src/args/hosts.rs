//! Hosts of runtimes and loggers, as text.

/// A host for runtimes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    /// That of the switch.
    Local,
    /// That of an agent.
    Agent(std::net::SocketAddr),
}

impl std::str::FromStr for Host {
    type Err = String;

    fn from_str(text: &str) -> Result<Host, String> {
        match text {
            "local" => Ok(Host::Local),
            text => match text.parse() {
                Ok(address) => Ok(Host::Agent(address)),
                Err(_) => Err("expected `local` or an agent's ADDRESS:PORT".to_owned()),
            },
        }
    }
}

/// The hosts of loggers, of each its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Loggers(pub(crate) Vec<Host>);

impl std::str::FromStr for Loggers {
    type Err = String;

    /// A number of loggers on this host, or a list of hosts.
    fn from_str(text: &str) -> Result<Loggers, String> {
        let most = weir_graph::MOST_RUNTIMES;
        let hosts: Vec<Host> = match text.parse::<u32>() {
            Ok(count) if count <= most => (0..count).map(|_| Host::Local).collect(),
            Ok(_) => return Err(format!("there are at most {most}")),
            Err(_) => {
                let hosts = text.split(',').map(|host| {
                    let why = |why| format!("`{host}`: {why}, or a number of loggers on this host");
                    host.parse().map_err(why)
                });
                hosts.collect::<Result<_, String>>()?
            }
        };
        Ok(Loggers(hosts))
    }
}
