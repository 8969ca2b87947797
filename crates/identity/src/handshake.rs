//! Handshakes of TLS 1.3, as server and as client.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::Resumption;
use rustls::server::NoServerSessionStorage;
use rustls::sign::SingleCertAndKey;
use rustls::version::TLS13;
use rustls::{ClientConfig, ServerConfig};
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use crate::set::Set;
use crate::verify::{Check, named};
use crate::{Refused, Role, Secured};

/// How long a handshake may take, from the first byte to the last.
pub const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);

/// The protocol in the connection (ALPN): HTTP/2, as gRPC has it.
const PROTOCOL: &[u8] = b"h2";
/// Stands for the name of a server, which nobody looks at and which is not sent.
const NOBODY: &str = "weir.invalid";

fn wrong(error: &rustls::Error) -> Refused {
    Refused::Handshake(error.to_string())
}

fn check(set: &Set, roles: &[Role]) -> Arc<Check> {
    Arc::new(Check {
        authorities: Arc::clone(&set.authorities),
        cluster: set.own.cluster().to_owned(),
        roles: roles.to_vec(),
    })
}

/// One for each connection: there are few of them, and none shares a thing with another.
fn server(set: &Set) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::clone(&set.authorities.provider);
    let key = SingleCertAndKey::from(Arc::clone(&set.key));
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(check(set, &Role::ALL))
        .with_cert_resolver(Arc::new(key));
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    // Nothing to resume a session with, and no early data: each connection has keys of its own, to
    // which the random numbers of both sides belong, so that recorded bytes open none.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.max_early_data_size = 0;
    Ok(config)
}

fn client(set: &Set, roles: &[Role]) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::clone(&set.authorities.provider);
    let key = SingleCertAndKey::from(Arc::clone(&set.key));
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        // rustls calls any verifier dangerous that is not its own. This one leaves chains and
        // signatures to rustls, and asks for an id where rustls asks for a host name.
        .dangerous()
        .with_custom_certificate_verifier(check(set, roles))
        .with_client_cert_resolver(Arc::new(key));
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.resumption = Resumption::disabled();
    config.enable_early_data = false;
    config.enable_sni = false;
    Ok(config)
}

/// The server's side.
pub(crate) async fn accept(set: &Set, tcp: TcpStream) -> Result<Secured, Refused> {
    let config = server(set).map_err(|error| wrong(&error))?;
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let stream = in_time(acceptor.accept(tcp)).await?;
    secured(set, TlsStream::Server(stream))
}

/// The client's side.
pub(crate) async fn connect(set: &Set, tcp: TcpStream, roles: &[Role]) -> Result<Secured, Refused> {
    let config = client(set, roles).map_err(|error| wrong(&error))?;
    let nobody =
        ServerName::try_from(NOBODY).map_err(|error| Refused::Handshake(error.to_string()))?;
    let connector = TlsConnector::from(Arc::new(config));
    let stream = in_time(connector.connect(nobody, tcp)).await?;
    secured(set, TlsStream::Client(stream))
}

async fn in_time<T>(handshake: impl Future<Output = io::Result<T>>) -> Result<T, Refused> {
    match tokio::time::timeout(HANDSHAKE_LIMIT, handshake).await {
        Ok(done) => done.map_err(|error| Refused::from_io(&error)),
        Err(_) => Err(Refused::TimedOut),
    }
}

/// A connection whose handshake is over: who the peer is that the verifier has let pass.
fn secured(set: &Set, stream: TlsStream<TcpStream>) -> Result<Secured, Refused> {
    let (_, connection) = stream.get_ref();
    if connection.alpn_protocol() != Some(PROTOCOL) {
        let why = "the peer does not speak HTTP/2 (ALPN h2)";
        return Err(Refused::Handshake(why.to_owned()));
    }
    let chain = connection.peer_certificates();
    let end = chain.and_then(<[_]>::first).ok_or(Refused::NoCertificate)?;
    let (peer, facts) = named(end, set.own.cluster())?;
    Ok(Secured::new(stream, peer, facts.not_after))
}
