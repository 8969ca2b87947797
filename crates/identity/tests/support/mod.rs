//! Certificates good and bad, and peers that use them.

// Each test file uses a part of this.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, SanType,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, SignatureScheme, SupportedProtocolVersion,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use weir_identity::{Credentials, Peer, Refused, Role};

pub(crate) const DAY: Duration = Duration::from_secs(86_400);

/// An empty folder of one test's alone, which goes with it.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("identity-{}-{number}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a certificate is to say.
#[derive(Clone)]
pub(crate) struct Spec {
    pub(crate) uris: Vec<String>,
    pub(crate) from: SystemTime,
    pub(crate) to: SystemTime,
    pub(crate) uses: Vec<ExtendedKeyUsagePurpose>,
}

impl Spec {
    /// A good one, for both sides.
    pub(crate) fn of(uri: &str) -> Spec {
        Spec {
            uris: vec![uri.to_owned()],
            from: SystemTime::now() - DAY,
            to: SystemTime::now() + DAY,
            uses: vec![
                ExtendedKeyUsagePurpose::ClientAuth,
                ExtendedKeyUsagePurpose::ServerAuth,
            ],
        }
    }

    fn params(&self) -> CertificateParams {
        let mut params = CertificateParams::default();
        let uris = self.uris.iter();
        params.subject_alt_names = uris
            .map(|uri| SanType::URI(Ia5String::try_from(uri.as_str()).unwrap()))
            .collect();
        params.not_before = self.from.into();
        params.not_after = self.to.into();
        params.extended_key_usages = self.uses.clone();
        params
    }
}

/// A certificate with its key.
#[derive(Clone)]
pub(crate) struct Shown {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Shown {
    pub(crate) fn self_signed(spec: &Spec) -> Shown {
        let key = KeyPair::generate().unwrap();
        Shown {
            certificate: spec.params().self_signed(&key).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }

    /// As rustls has it.
    pub(crate) fn parts(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        use rustls_pki_types::pem::PemObject as _;
        let chain = CertificateDer::pem_slice_iter(self.certificate.as_bytes());
        (
            chain.collect::<Result<_, _>>().unwrap(),
            PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap(),
        )
    }
}

/// An authority that signs anything.
pub(crate) struct Ca(CertifiedIssuer<'static, KeyPair>);

impl Ca {
    /// All have one name, so that nothing but signatures tells them apart.
    pub(crate) fn new() -> Ca {
        Ca::until(SystemTime::now() + 10 * DAY)
    }

    pub(crate) fn until(to: SystemTime) -> Ca {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "ca");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.not_before = (SystemTime::now() - 10 * DAY).into();
        params.not_after = to.into();
        Ca(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    pub(crate) fn sign(&self, spec: &Spec) -> Shown {
        let key = KeyPair::generate().unwrap();
        Shown {
            certificate: spec.params().signed_by(&key, &self.0).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }

    /// One of this authority's, in a folder.
    pub(crate) fn write(&self, folder: &Path, shown: &Shown) {
        write(folder, shown, &self.pem());
    }

    pub(crate) fn credentials(&self, folder: &Path, uri: &str) -> Credentials {
        self.write(folder, &self.sign(&Spec::of(uri)));
        Credentials::load(folder).unwrap()
    }
}

pub(crate) fn write(folder: &Path, shown: &Shown, authorities: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("ca.pem"), authorities).unwrap();
    std::fs::write(folder.join("cert.pem"), &shown.certificate).unwrap();
    let key = folder.join("key.pem");
    std::fs::write(&key, &shown.key).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// A server that echoes what clients say, and tells of each.
pub(crate) struct Server {
    pub(crate) address: std::net::SocketAddr,
    told: mpsc::UnboundedReceiver<Result<Peer, Refused>>,
}

impl Server {
    pub(crate) async fn start(credentials: Credentials) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, told) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            loop {
                let (tcp, _) = listener.accept().await.unwrap();
                let (credentials, tell) = (credentials.clone(), tell.clone());
                tokio::spawn(async move {
                    let secured = credentials.accept(tcp).await;
                    let peer = secured.as_ref().map(|s| s.peer().clone());
                    tell.send(peer.map_err(Clone::clone)).unwrap();
                    if let Ok(mut secured) = secured {
                        let mut buffer = [0; 1024];
                        while let Ok(length @ 1..) = secured.read(&mut buffer).await {
                            secured.write_all(&buffer[..length]).await.unwrap();
                            secured.flush().await.unwrap();
                        }
                    }
                });
            }
        });
        Server { address, told }
    }

    pub(crate) async fn tcp(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// What became of the next client. A panic in its task would keep it silent.
    pub(crate) async fn next(&mut self) -> Result<Peer, Refused> {
        let next = tokio::time::timeout(Duration::from_secs(20), self.told.recv());
        next.await.expect("the server tells").unwrap()
    }

    /// A client that shows this (or nothing) and takes any server: what the server says of it.
    pub(crate) async fn try_raw(&mut self, shown: Option<&Shown>) -> Result<Peer, Refused> {
        let config = raw_client(shown, &[&rustls::version::TLS13]);
        let refused = hello(config, self.tcp().await).await.is_err();
        let said = self.next().await;
        assert_eq!(
            said.is_err(),
            refused,
            "both sides agree whether there is a connection: {said:?}"
        );
        said
    }
}

/// One word there and back.
pub(crate) async fn echo(
    stream: &mut (impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin),
) -> std::io::Result<()> {
    stream.write_all(b"hello").await?;
    stream.flush().await?;
    let mut back = [0; 5];
    stream.read_exact(&mut back).await?;
    assert_eq!(&back, b"hello");
    Ok(())
}

/// Connects and says a word: a client of TLS 1.3 learns only then what the server thinks of it.
pub(crate) async fn hello(config: ClientConfig, tcp: TcpStream) -> std::io::Result<()> {
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let name = ServerName::try_from("any.invalid").unwrap();
    let mut stream = connector.connect(name, tcp).await?;
    echo(&mut stream).await
}

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// A client that takes any server.
pub(crate) fn raw_client(
    shown: Option<&Shown>,
    versions: &[&'static SupportedProtocolVersion],
) -> ClientConfig {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(versions)
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyServer));
    let mut config = match shown {
        Some(shown) => {
            let (chain, key) = shown.parts();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    config
}

/// What a client says of a server that shows this and takes any client.
pub(crate) async fn try_server(
    credentials: &Credentials,
    shown: &Shown,
    roles: &[Role],
) -> Result<Peer, Refused> {
    let (chain, key) = shown.parts();
    let mut config = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let tcp = TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    let server = async { acceptor.accept(listener.accept().await.unwrap().0).await };
    let (_served, connected) = tokio::join!(server, credentials.connect(tcp, roles));
    connected.map(|secured| secured.peer().clone())
}

#[derive(Debug)]
struct AnyServer;

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}
