//! Bytes that are no handshake, or one of somebody else's: none is accepted, none ends the server.

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::{Ca, Folder, Server, Spec, echo, raw_client};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use weir_identity::{Credentials, Role};

const OPERATOR: &str = "spiffe://lab/weir/operator/ada";
const COORDINATOR: &str = "spiffe://lab/weir/coordinator/c1";

/// Numbers from a seed (splitmix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.roll() % n as u64) as usize
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        let length = 1 + self.below(most);
        (0..length).map(|_| self.roll() as u8).collect()
    }
}

/// The first bytes of a real client.
fn client_hello() -> Vec<u8> {
    let config = raw_client(None, &[&rustls::version::TLS13]);
    let name = rustls_pki_types::ServerName::try_from("any.invalid").unwrap();
    let mut client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

/// Junk of one of five kinds.
fn junk(dice: &mut Dice, hello: &[u8]) -> Vec<u8> {
    let mut bytes = hello.to_vec();
    match dice.below(5) {
        0 => return dice.bytes(2_000),
        1 => bytes.truncate(dice.below(hello.len())),
        2 => {
            for _ in 0..=dice.below(8) {
                let at = dice.below(bytes.len());
                bytes[at] = dice.roll() as u8;
            }
        }
        // A record's head, and nonsense in it.
        3 => {
            let body = dice.bytes(600);
            bytes = vec![20 + dice.below(5) as u8, 3, dice.below(5) as u8];
            bytes.extend((body.len() as u16).to_be_bytes());
            bytes.extend(body);
        }
        // A hello, and nonsense after it.
        _ => bytes.extend(dice.bytes(600)),
    }
    bytes
}

#[tokio::test]
async fn junk_is_refused_and_the_server_goes_on() {
    let (folder, ca) = (Folder::new(), Ca::new());
    let mut server = Server::start(ca.credentials(&folder.path("c1"), COORDINATOR)).await;
    let (mut dice, hello) = (Dice(20_261_128), client_hello());
    let mut reasons = std::collections::BTreeMap::new();
    for number in 0..1_000 {
        let bytes = junk(&mut dice, &hello);
        let mut tcp = server.tcp().await;
        tcp.write_all(&bytes).await.unwrap();
        tcp.shutdown().await.unwrap();
        match server.next().await {
            Ok(peer) => panic!("string {number} is taken for {peer}: {bytes:02x?}"),
            Err(refused) => *reasons.entry(refused.reason()).or_insert(0) += 1,
        }
    }
    // Neither the one nor the other alone: what is junk is told from what ends too early.
    assert!(reasons["handshake"] > 100, "{reasons:?}");
    assert!(reasons["closed"] > 100, "{reasons:?}");
    let good = ca.sign(&Spec::of(OPERATOR));
    let said = server.try_raw(Some(&good)).await.unwrap();
    assert_eq!(said.to_string(), OPERATOR);
}

#[tokio::test]
async fn junk_from_a_server_is_refused() {
    let (folder, ca) = (Folder::new(), Ca::new());
    let client = ca.credentials(&folder.path("ada"), OPERATOR);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (mut dice, hello) = (Dice(7), client_hello());
    for number in 0..200 {
        let bytes = junk(&mut dice, &hello);
        let tcp = TcpStream::connect(address).await.unwrap();
        let (mut served, _) = listener.accept().await.unwrap();
        served.write_all(&bytes).await.unwrap();
        served.shutdown().await.unwrap();
        let said = client.connect(tcp, &Role::ALL).await;
        assert!(said.is_err(), "string {number}: {bytes:02x?}");
    }
}

/// What a client and a server have said to each other, as somebody between them records it.
async fn recorded(client: &Credentials, server: &Server) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    let (mut there, _) = listener.accept().await.unwrap();
    let mut onward = server.tcp().await;
    let recorder = tokio::spawn(async move {
        let (mut said, mut answered) = (Vec::new(), Vec::new());
        let (mut a, mut b) = ([0; 16_384], [0; 16_384]);
        loop {
            tokio::select! {
                length = there.read(&mut a) => match length {
                    Ok(length @ 1..) => {
                        said.push(a[..length].to_vec());
                        onward.write_all(&a[..length]).await.unwrap();
                    }
                    _ => return (said, answered),
                },
                length = onward.read(&mut b) => match length {
                    Ok(length @ 1..) => {
                        answered.push(b[..length].to_vec());
                        there.write_all(&b[..length]).await.unwrap();
                    }
                    _ => return (said, answered),
                },
            }
        }
    });
    let mut secured = client.connect(near, &[Role::Coordinator]).await.unwrap();
    echo(&mut secured).await.unwrap();
    secured.shutdown().await.unwrap();
    drop(secured);
    recorder.await.unwrap()
}

#[tokio::test]
async fn recorded_bytes_open_nothing() {
    let (folder, ca) = (Folder::new(), Ca::new());
    let mut server = Server::start(ca.credentials(&folder.path("c1"), COORDINATOR)).await;
    let client = ca.credentials(&folder.path("ada"), OPERATOR);
    let (said, answered) = recorded(&client, &server).await;
    assert!(server.next().await.is_ok());
    assert!(said.len() >= 2 && !answered.is_empty());

    // All at once, and each part after an answer, as the client did.
    for waits in [false, true] {
        let mut tcp = server.tcp().await;
        for part in &said {
            if tcp.write_all(part).await.is_err() {
                break;
            }
            if waits {
                let mut answer = [0; 16_384];
                let read = tcp.read(&mut answer);
                let _ = tokio::time::timeout(Duration::from_millis(200), read).await;
            }
        }
        let refused = server.next().await.unwrap_err();
        assert_eq!(refused.reason(), "handshake", "{refused}");
    }

    // The server's words, to a client that asks anew.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let tcp = TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    let (mut replay, _) = listener.accept().await.unwrap();
    for part in &answered {
        replay.write_all(part).await.unwrap();
    }
    let refused = client.connect(tcp, &Role::ALL).await.unwrap_err();
    assert_eq!(refused.reason(), "handshake", "{refused}");
}
