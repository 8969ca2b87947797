//! Where a coordinator is, and how it is reached.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinSet;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;
use weir_identity::{Credentials, Role};

/// How long it may take to be connected.
const CONNECT: Duration = Duration::from_secs(5);
/// When a silent connection is asked for a sign of life, and how long that may take.
const ASK: Duration = Duration::from_secs(10);
const ANSWER: Duration = Duration::from_secs(10);

/// The address of a coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A socket on this host, which its owner alone can open.
    Unix(PathBuf),
    /// A host and a TCP port; both ends show certificates.
    Tcp(String),
}

impl FromStr for Address {
    type Err = String;

    /// `unix:PATH`, a path with `/`, or `HOST:PORT`.
    fn from_str(text: &str) -> Result<Address, String> {
        let path = text.strip_prefix("unix:");
        match path.or_else(|| text.contains('/').then_some(text)) {
            Some("") => Err("expected a path behind `unix:`".to_owned()),
            Some(path) => Ok(Address::Unix(path.into())),
            None => match text.rsplit_once(':') {
                Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
                    Ok(Address::Tcp(text.to_owned()))
                }
                _ => Err("expected `HOST:PORT`, or `unix:PATH`".to_owned()),
            },
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Tcp(text) => f.write_str(text),
        }
    }
}

/// A coordinator, or several of which one leads, and what one is to it.
#[derive(Clone, Debug)]
pub struct Access {
    /// Where it is, or where each of them is: one at least.
    pub addresses: Vec<Address>,
    /// The certificate that is shown to it, with TCP.
    pub credentials: Option<Credentials>,
}

impl Access {
    /// Connects to the coordinator that leads: the others let nobody in. Where an instance is named, its
    /// calls are passed on to that.
    ///
    /// # Errors
    ///
    /// Nobody is there within 5 seconds, it is not a coordinator of the same cluster, or there is no
    /// certificate to show.
    pub async fn connect(&self, instance: Option<&str>) -> Result<Channel, String> {
        self.reach(instance).await.map(|(channel, _)| channel)
    }

    /// The same, and which of them it is.
    pub(crate) async fn reach(&self, instance: Option<&str>) -> Result<(Channel, Address), String> {
        let authority = instance.unwrap_or("coordinator");
        let origin = format!("http://{authority}").parse::<Uri>();
        let origin = origin.map_err(|_| format!("`{authority}` is no name of an instance"))?;
        // All at once: one whose machine is lost keeps nobody waiting.
        let mut attempts = JoinSet::new();
        for (turn, address) in self.addresses.iter().cloned().enumerate() {
            let (origin, credentials) = (origin.clone(), self.credentials.clone());
            attempts.spawn(async move {
                let reached = address.connect(origin, credentials).await;
                reached.map(|it| (it, address)).map_err(|why| (turn, why))
            });
        }
        let mut failed = Vec::new();
        while let Some(attempt) = attempts.join_next().await {
            match attempt {
                Ok(Ok(reached)) => return Ok(reached),
                Ok(Err(why)) => failed.push(why),
                Err(broken) => failed.push((self.addresses.len(), broken.to_string())),
            }
        }
        failed.sort();
        let failed: Vec<String> = failed.into_iter().map(|(_, why)| why).collect();
        Err(failed.join("; "))
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        f.write_str(&addresses.join(","))
    }
}

impl Address {
    /// Reads addresses with commas between them.
    ///
    /// # Errors
    ///
    /// One of them is none: which, and why.
    pub fn several(text: &str) -> Result<Vec<Address>, String> {
        let one = |text: &str| {
            let read = text.parse();
            read.map_err(|why| format!("`{text}` is no address of a coordinator: {why}"))
        };
        text.split(',').map(one).collect()
    }

    async fn connect(
        &self,
        origin: Uri,
        credentials: Option<Credentials>,
    ) -> Result<Channel, String> {
        if credentials.is_none() && matches!(self, Address::Tcp(_)) {
            return Err(format!(
                "{self} wants a certificate: name the folder that has one, by WEIR_IDENTITY"
            ));
        }
        let endpoint = Endpoint::from_static("http://coordinator")
            .origin(origin)
            .connect_timeout(CONNECT)
            .http2_keep_alive_interval(ASK)
            .keep_alive_timeout(ANSWER);
        let connected = match self.clone() {
            Address::Unix(path) => {
                let connector = service_fn(move |_: Uri| {
                    let path = path.clone();
                    async move { UnixStream::connect(path).await.map(TokioIo::new) }
                });
                endpoint.connect_with_connector(connector).await
            }
            Address::Tcp(to) => {
                let connector = service_fn(move |_: Uri| {
                    let (to, credentials) = (to.clone(), credentials.clone());
                    async move { secured(&to, credentials).await.map(TokioIo::new) }
                });
                endpoint.connect_with_connector(connector).await
            }
        };
        connected.map_err(|error| format!("can't reach {self}: {}", bottom(&error)))
    }
}

async fn secured(
    to: &str,
    credentials: Option<Credentials>,
) -> std::io::Result<weir_identity::Secured> {
    let none = || std::io::Error::other("there is no certificate to show");
    let credentials = credentials.ok_or_else(none)?;
    let tcp = TcpStream::connect(to).await?;
    tcp.set_nodelay(true)?;
    let connected = credentials.connect(tcp, &[Role::Coordinator]).await;
    connected.map_err(|refused| std::io::Error::other(refused.to_string()))
}

/// The innermost cause of an error: it says most.
fn bottom(mut error: &dyn std::error::Error) -> String {
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let read = |text: &str| text.parse::<Address>();
        assert_eq!(read("unix:/run/x"), Ok(Address::Unix("/run/x".into())));
        assert_eq!(read("./x"), Ok(Address::Unix("./x".into())));
        assert_eq!(
            read("[::1]:4780"),
            Ok(Address::Tcp("[::1]:4780".to_owned()))
        );
        assert_eq!(read("host:4780"), Ok(Address::Tcp("host:4780".to_owned())));
        assert_eq!(
            Address::several("a:1,unix:/b"),
            Ok(vec![
                Address::Tcp("a:1".to_owned()),
                Address::Unix("/b".into())
            ])
        );
        let why = Address::several("a:1,").unwrap_err();
        assert!(why.contains("`` is no address"), "{why}");
        for wrong in ["", "unix:", "host", ":4780", "host:x", "host:70000"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
