//! Peers that are not what they should be: each is refused for its own reason, and the server goes
//! on.

mod support;

use std::time::SystemTime;

use rcgen::ExtendedKeyUsagePurpose;
use support::{Ca, DAY, Folder, Server, Shown, Spec, echo, hello, raw_client, try_server};
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use weir_identity::{Credentials, HANDSHAKE_LIMIT, Refused, Role};

const COORDINATOR: &str = "spiffe://lab/weir/coordinator/c1";
const OPERATOR: &str = "spiffe://lab/weir/operator/ada";

/// An authority, and a coordinator of it that listens.
struct Scene {
    folder: Folder,
    ca: Ca,
    credentials: Credentials,
    server: Server,
}

impl Scene {
    async fn new() -> Scene {
        let (folder, ca) = (Folder::new(), Ca::new());
        let credentials = ca.credentials(&folder.path("c1"), COORDINATOR);
        let server = Server::start(credentials.clone()).await;
        Scene {
            folder,
            ca,
            credentials,
            server,
        }
    }

    /// Shows the server a certificate.
    async fn show(&mut self, shown: &Shown) -> Result<weir_identity::Peer, Refused> {
        self.server.try_raw(Some(shown)).await
    }

    /// A good client still gets through.
    async fn still_serves(&mut self) {
        let good = self.ca.sign(&Spec::of(OPERATOR));
        assert_eq!(self.show(&good).await.unwrap().to_string(), OPERATOR);
    }
}

#[tokio::test]
async fn a_client_without_a_certificate() {
    let mut scene = Scene::new().await;
    assert_eq!(
        scene.server.try_raw(None).await,
        Err(Refused::NoCertificate)
    );
    scene.still_serves().await;
}

#[tokio::test]
async fn certificates_of_nobody_known() {
    let mut scene = Scene::new().await;
    let spec = Spec::of(OPERATOR);
    let self_signed = Shown::self_signed(&spec);
    // An authority of the same name.
    let foreign = Ca::new().sign(&spec);
    // A chain that ends in a foreign authority which is shown along.
    let other = Ca::new();
    let mut chained = other.sign(&spec);
    chained.certificate += &other.pem();
    for shown in [self_signed, foreign, chained] {
        assert_eq!(scene.show(&shown).await, Err(Refused::UnknownAuthority));
    }
    scene.still_serves().await;
}

#[tokio::test]
async fn one_that_signs_with_its_own_certificate() {
    let mut scene = Scene::new().await;
    // The key of a good peer, as if it were an authority's.
    let good = scene.ca.sign(&Spec::of(OPERATOR));
    let issuer = rcgen::Issuer::from_ca_cert_pem(
        &good.certificate,
        rcgen::KeyPair::from_pem(&good.key).unwrap(),
    )
    .unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    let uri = rcgen::string::Ia5String::try_from("spiffe://lab/weir/coordinator/evil").unwrap();
    params.subject_alt_names = vec![rcgen::SanType::URI(uri)];
    let forged = params.signed_by(&key, &issuer).unwrap().pem();
    let shown = Shown {
        certificate: forged + &good.certificate,
        key: key.serialize_pem(),
    };
    let said = scene.show(&shown).await;
    assert!(said.is_err(), "{said:?}");
    scene.still_serves().await;
}

#[tokio::test]
async fn another_cluster_of_the_same_authority() {
    let mut scene = Scene::new().await;
    let uri = "spiffe://plant/weir/operator/ada";
    let shown = scene.ca.sign(&Spec::of(uri));
    let expected = Err(Refused::OtherCluster("plant".to_owned()));
    assert_eq!(scene.show(&shown).await, expected);
    let server = scene
        .ca
        .sign(&Spec::of("spiffe://plant/weir/coordinator/c1"));
    let said = try_server(&scene.credentials, &server, &Role::ALL).await;
    assert_eq!(said, expected);
    scene.still_serves().await;
}

#[tokio::test]
async fn certificates_at_the_wrong_time() {
    let mut scene = Scene::new().await;
    let now = SystemTime::now();
    for (from, to, expected) in [
        (now - 3 * DAY, now - DAY, Refused::Expired),
        (now + DAY, now + 3 * DAY, Refused::NotYetValid),
    ] {
        let spec = |uri| Spec {
            from,
            to,
            ..Spec::of(uri)
        };
        let client = scene.ca.sign(&spec(OPERATOR));
        assert_eq!(scene.show(&client).await, Err(expected.clone()));
        let server = scene.ca.sign(&spec(COORDINATOR));
        let said = try_server(&scene.credentials, &server, &Role::ALL).await;
        assert_eq!(said, Err(expected));
    }
    scene.still_serves().await;
}

#[tokio::test]
async fn certificates_that_name_nobody() {
    let mut scene = Scene::new().await;
    let two = ["spiffe://lab/weir/viewer/v", OPERATOR];
    let other = ["https://example.org/", OPERATOR];
    for uris in [
        &[][..],
        &two,
        &other,
        &[OPERATOR, OPERATOR],
        &["https://lab/weir/operator/ada"],
        &["spiffe://lab"],
        &["spiffe://lab/ns/default/sa/weir"],
        &["spiffe://lab/weir/root/ada"],
        &["spiffe://lab/weir/operator/ada/x"],
    ] {
        let spec = Spec {
            uris: uris.iter().map(|uri| (*uri).to_owned()).collect(),
            ..Spec::of("")
        };
        let shown = scene.ca.sign(&spec);
        let said = scene.show(&shown).await;
        assert!(matches!(said, Err(Refused::NoIdentity(_))), "{said:?}");
        let said = try_server(&scene.credentials, &shown, &Role::ALL).await;
        assert!(matches!(said, Err(Refused::NoIdentity(_))), "{said:?}");
    }
    scene.still_serves().await;
}

#[tokio::test]
async fn a_server_of_the_wrong_role() {
    let scene = Scene::new().await;
    for role in Role::ALL {
        let shown = scene
            .ca
            .sign(&Spec::of(&format!("spiffe://lab/weir/{role}/x")));
        for looked_for in Role::ALL {
            let said = try_server(&scene.credentials, &shown, &[looked_for]).await;
            match role == looked_for {
                true => assert_eq!(said.unwrap().role(), role),
                false => assert_eq!(said, Err(Refused::WrongRole(role))),
            }
        }
        let said = try_server(&scene.credentials, &shown, &[]).await;
        assert_eq!(said, Err(Refused::WrongRole(role)));
    }
}

#[tokio::test]
async fn the_servers_side_learns_that_it_was_refused() {
    let mut scene = Scene::new().await;
    let client = scene.ca.credentials(&scene.folder.path("ada"), OPERATOR);
    let said = client.connect(scene.server.tcp().await, &[Role::Agent]);
    assert_eq!(
        said.await.unwrap_err(),
        Refused::WrongRole(Role::Coordinator)
    );
    let told = scene.server.next().await.unwrap_err();
    assert_eq!(told.reason(), "by_peer", "{told}");
    scene.still_serves().await;
}

#[tokio::test]
async fn certificates_for_the_other_side_alone() {
    let mut scene = Scene::new().await;
    let spec = |uri, usage| Spec {
        uses: vec![usage],
        ..Spec::of(uri)
    };
    let server_only = scene
        .ca
        .sign(&spec(OPERATOR, ExtendedKeyUsagePurpose::ServerAuth));
    assert_eq!(scene.show(&server_only).await, Err(Refused::WrongUse));
    let client_only = scene
        .ca
        .sign(&spec(COORDINATOR, ExtendedKeyUsagePurpose::ClientAuth));
    let said = try_server(&scene.credentials, &client_only, &[Role::Coordinator]).await;
    assert_eq!(said, Err(Refused::WrongUse));
}

#[tokio::test]
async fn an_authority_that_has_expired() {
    let folder = Folder::new();
    let (ca, old) = (Ca::new(), Ca::until(SystemTime::now() - DAY));
    let shown = ca.sign(&Spec::of(COORDINATOR));
    support::write(&folder.path("c1"), &shown, &(old.pem() + &ca.pem()));
    let credentials = Credentials::load(&folder.path("c1")).unwrap();
    let mut server = Server::start(credentials.clone()).await;
    let of_old = old.sign(&Spec::of(OPERATOR));
    let said = server.try_raw(Some(&of_old)).await;
    assert_eq!(said, Err(Refused::UnknownAuthority));
    let of_old = old.sign(&Spec::of(COORDINATOR));
    let said = try_server(&credentials, &of_old, &Role::ALL).await;
    assert_eq!(said, Err(Refused::UnknownAuthority));
}

#[tokio::test]
async fn a_certificate_whose_key_the_peer_does_not_have() {
    let mut scene = Scene::new().await;
    let stolen = Shown {
        key: scene.ca.sign(&Spec::of(OPERATOR)).key,
        ..scene.ca.sign(&Spec::of(OPERATOR))
    };
    let (chain, key) = stolen.parts();
    let provider = support::provider();
    let key = provider.key_provider.load_private_key(key).unwrap();
    let pair = rustls::sign::CertifiedKey::new(chain, key);
    let pair = rustls::sign::SingleCertAndKey::from(pair);
    let mut config = raw_client(None, &[&rustls::version::TLS13]);
    config.client_auth_cert_resolver = std::sync::Arc::new(pair);
    assert!(hello(config, scene.server.tcp().await).await.is_err());
    let said = scene.server.next().await.unwrap_err();
    assert_eq!(said.reason(), "handshake", "{said}");
    scene.still_serves().await;
}

#[tokio::test]
async fn older_versions_and_other_protocols() {
    let mut scene = Scene::new().await;
    let good = scene.ca.sign(&Spec::of(OPERATOR));
    let old = raw_client(Some(&good), &[&rustls::version::TLS12]);
    assert!(hello(old, scene.server.tcp().await).await.is_err());
    let said = scene.server.next().await.unwrap_err();
    assert_eq!(said.reason(), "handshake", "{said}");
    for protocols in [&[b"http/1.1".to_vec()][..], &[]] {
        let mut other = raw_client(Some(&good), &[&rustls::version::TLS13]);
        other.alpn_protocols = protocols.to_vec();
        assert!(hello(other, scene.server.tcp().await).await.is_err());
        let said = scene.server.next().await.unwrap_err();
        assert_eq!(said.reason(), "handshake", "{said}");
    }
    scene.still_serves().await;
}

#[tokio::test]
async fn a_session_is_never_resumed() {
    let mut scene = Scene::new().await;
    let good = scene.ca.sign(&Spec::of(OPERATOR));
    // This client would resume, and send early data.
    let mut config = raw_client(Some(&good), &[&rustls::version::TLS13]);
    config.enable_early_data = true;
    let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config));
    for _ in 0..3 {
        let name = rustls_pki_types::ServerName::try_from("any.invalid").unwrap();
        let tcp = scene.server.tcp().await;
        let mut stream = connector.connect(name, tcp).await.unwrap();
        echo(&mut stream).await.unwrap();
        let kind = stream.get_ref().1.handshake_kind();
        assert_eq!(kind, Some(rustls::HandshakeKind::Full));
        scene.server.next().await.unwrap();
    }
}

/// The clock stands still but where all wait: then it jumps to what comes first.
#[tokio::test(start_paused = true)]
async fn peers_that_say_nothing_or_next_to_nothing() {
    let mut scene = Scene::new().await;
    let start = tokio::time::Instant::now();
    let _mute = scene.server.tcp().await;
    assert_eq!(scene.server.next().await, Err(Refused::TimedOut));
    assert_eq!(start.elapsed().as_secs(), HANDSHAKE_LIMIT.as_secs());

    // A record's head, byte by byte: as slow as one likes, but not for long.
    let start = tokio::time::Instant::now();
    let slow = scene.server.tcp().await;
    let drip = tokio::spawn(async move {
        for byte in [22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]
            .into_iter()
            .chain([0; 100])
        {
            slow.writable().await.unwrap();
            if slow.try_write(&[byte]).is_err() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        }
    });
    assert_eq!(scene.server.next().await, Err(Refused::TimedOut));
    assert_eq!(start.elapsed().as_secs(), HANDSHAKE_LIMIT.as_secs());
    drip.await.unwrap();

    // A server that accepts, and says nothing.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tcp = TcpStream::connect(address).await.unwrap();
    let (_kept, _) = listener.accept().await.unwrap();
    let said = scene.credentials.connect(tcp, &Role::ALL).await;
    assert_eq!(said.unwrap_err(), Refused::TimedOut);
}

#[tokio::test]
async fn a_peer_that_goes_in_the_middle_of_a_sentence() {
    let mut scene = Scene::new().await;
    let client = scene.ca.credentials(&scene.folder.path("ada"), OPERATOR);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let tcp = TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    let (accepted, connected) = tokio::join!(
        async {
            let (tcp, _) = listener.accept().await.unwrap();
            scene.credentials.accept(tcp).await
        },
        client.connect(tcp, &[Role::Coordinator]),
    );
    // Somebody on the way cuts the connection: no word of TLS says that this is the end.
    cut(connected.as_ref().unwrap().tcp());
    let mut all = Vec::new();
    let read = accepted.unwrap().read_to_end(&mut all).await;
    assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
    scene.still_serves().await;
}

/// Ends the writing side of a stream, below TLS.
fn cut(tcp: &TcpStream) {
    use std::os::fd::AsFd as _;
    let copy = tcp.as_fd().try_clone_to_owned().unwrap();
    let copy = std::net::TcpStream::from(copy);
    copy.shutdown(std::net::Shutdown::Write).unwrap();
}
