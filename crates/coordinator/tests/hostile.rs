//! Hostile and damaged messages on every call of a coordinator: none is taken, none stops anything.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use prost::Message as _;
use tokio::net::UnixListener;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::Channel;
use tonic::{Request, Status};
use weir_api::v1;
use weir_api::v1::coordinator_client::CoordinatorClient;
use weir_coordinator::service::{Listener, Reader, serve};
use weir_coordinator::state::Facts;
use weir_coordinator::store::Store;
use weir_coordinator::{Access, Address};

/// Messages of each call.
const MANY: u32 = 2_500;

/// Reads names alone: a first line `name HOST…`.
struct Plain;

impl Reader for Plain {
    fn read(&self, folder: &Path, file: &Path) -> Result<Facts, String> {
        let text = std::fs::read_to_string(folder.join(file)).map_err(|why| why.to_string())?;
        let mut words = text.split_whitespace().map(str::to_owned);
        let name = words.next().ok_or("error: there is no name")?;
        let hosts: Vec<String> = words.collect();
        Ok(Facts {
            name,
            switches: hosts.first().cloned().into_iter().collect(),
            hosts,
            addresses: Vec::new(),
            keys: BTreeMap::new(),
            prices: None,
        })
    }
}

/// Octets as they are, in place of messages.
#[derive(Clone, Copy, Debug, Default)]
struct Raw;

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, octets: Vec<u8>, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        bytes::BufMut::put_slice(to, &octets);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let mut octets = vec![0; bytes::Buf::remaining(from)];
        bytes::Buf::copy_to_slice(from, &mut octets);
        Ok(Some(octets))
    }
}

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

/// Numbers from a seed.
struct Draws(u64);

impl Draws {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % most.max(1) as u64) as usize
    }

    /// A message that is damaged, cut, lengthened, or nothing but noise.
    fn damaged(&mut self, whole: &[u8]) -> Vec<u8> {
        let mut octets = whole.to_vec();
        match self.below(4) {
            0 => octets.truncate(self.below(whole.len())),
            1 => (0..self.below(200)).for_each(|_| octets.push(self.below(256) as u8)),
            2 => {
                octets = (0..self.below(300))
                    .map(|_| self.below(256) as u8)
                    .collect()
            }
            _ => {}
        }
        for _ in 0..=self.below(6) {
            let at = self.below(octets.len());
            if let Some(octet) = octets.get_mut(at) {
                *octet = self.below(256) as u8;
            }
        }
        octets
    }
}

fn folder() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("weir-hostile-{}-{number}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir(&folder).unwrap();
    folder
}

fn files(paths: &[(&str, &str)]) -> v1::Files {
    let file = |(path, text): &(&str, &str)| v1::File {
        path: (*path).to_owned(),
        content: text.as_bytes().to_vec(),
    };
    v1::Files {
        composition: paths[0].0.to_owned(),
        files: paths.iter().map(file).collect(),
    }
}

/// Starts a coordinator, and gives a connection to it.
async fn started(folder: &Path) -> Channel {
    let socket = folder.join("socket");
    let store = Arc::new(Store::open(&folder.join("store")).unwrap());
    let kept = store.load().unwrap();
    let listener = Listener::Unix(UnixListener::bind(&socket).unwrap());
    tokio::spawn(serve(
        store,
        vec![listener],
        Arc::new(Plain),
        kept,
        std::future::pending(),
    ));
    let access = Access {
        addresses: vec![Address::Unix(socket)],
        credentials: None,
    };
    access.connect(None).await.unwrap()
}

#[tokio::test]
async fn damaged_messages_change_nothing() {
    let folder = folder();
    let channel = started(&folder).await;
    let mut client = CoordinatorClient::new(channel.clone());
    let apply = v1::ApplyRequest {
        files: Some(files(&[("edge.yaml", "edge alpha beta")])),
        dry_run: true,
        anew: false,
    };
    let said = v1::HostSaid {
        what: Some(v1::host_said::What::Hello(v1::HostHello {
            host: "alpha".to_owned(),
            version: "1".to_owned(),
        })),
    };
    let carried = v1::Carried {
        id: 7,
        octets: vec![1, 2, 3],
    };
    let calls = [
        ("Apply", apply.encode_to_vec()),
        ("Attend", said.encode_to_vec()),
        ("Carry", carried.encode_to_vec()),
        ("WatchChanges", vec![8, 1, 16, 1]),
    ];
    let mut draws = Draws(0x2545_f491_4f6c_dd1d);
    for (call, whole) in &calls {
        let path = format!("/weir.v1.Coordinator/{call}")
            .parse::<http::uri::PathAndQuery>()
            .unwrap();
        for _ in 0..MANY {
            let mut grpc = tonic::client::Grpc::new(channel.clone());
            grpc.ready().await.unwrap();
            let (sender, messages) = tokio::sync::mpsc::channel(4);
            for _ in 0..=draws.below(2) {
                sender.send(draws.damaged(whole)).await.unwrap();
            }
            drop(sender);
            let request = Request::new(ReceiverStream::new(messages));
            // What becomes of each is of no account.
            let asked = grpc.streaming(request, path.clone(), Raw);
            let _ = tokio::time::timeout(std::time::Duration::from_secs(8), asked)
                .await
                .unwrap();
        }
    }
    let listed = client
        .list_compositions(v1::ListCompositionsRequest {})
        .await
        .unwrap();
    assert_eq!(listed.into_inner().compositions, []);
    // It serves on.
    let real = v1::ApplyRequest {
        dry_run: false,
        ..apply
    };
    let applied = client.apply(real).await.unwrap().into_inner();
    assert!(applied.taken, "{applied:?}");
    drop(std::fs::remove_dir_all(&folder));
}

/// The coordinator reads what it is sent, whoever sends it: files outside of the folder, and wrong ones, are
/// refused with a reason, and nothing is written.
#[tokio::test]
async fn wrong_compositions_are_refused() {
    let folder = folder();
    let mut client = CoordinatorClient::new(started(&folder).await);
    for (wrong, why) in [
        (
            files(&[("../edge.yaml", "edge alpha")]),
            "not in the composition's folder",
        ),
        (
            files(&[("/tmp/edge.yaml", "edge alpha")]),
            "not in the composition's folder",
        ),
        (
            files(&[("edge.yaml", "edge alpha"), ("edge.yaml", "x")]),
            "there twice",
        ),
        (files(&[("edge.yaml", "")]), "no name"),
        (v1::Files::default(), "not among its files"),
    ] {
        let request = v1::ApplyRequest {
            files: Some(wrong),
            dry_run: false,
            anew: true,
        };
        let answer = client.apply(request).await.unwrap().into_inner();
        assert!(answer.wrong.contains(why) && !answer.taken, "{answer:?}");
    }
    let left = std::fs::read_dir(folder.join("store/scratch"))
        .unwrap()
        .count();
    assert_eq!(left, 0, "files of checks are left");
    drop(std::fs::remove_dir_all(&folder));
}

/// A host's agent hears of its shares, and a newer agent of its name takes its place.
#[tokio::test]
async fn an_agent_is_cut_off_by_the_next_one_of_its_host() {
    let folder = folder();
    let mut client = CoordinatorClient::new(started(&folder).await);
    let hello = |host: &str| v1::HostSaid {
        what: Some(v1::host_said::What::Hello(v1::HostHello {
            host: host.to_owned(),
            version: "1".to_owned(),
        })),
    };
    let report = || v1::HostSaid {
        what: Some(v1::host_said::What::Report(v1::HostReport::default())),
    };
    let (first, said) = tokio::sync::mpsc::channel(4);
    first.send(hello("alpha")).await.unwrap();
    first.send(report()).await.unwrap();
    let mut told = client
        .attend(ReceiverStream::new(said))
        .await
        .unwrap()
        .into_inner();
    let shares = told.message().await.unwrap().unwrap();
    assert!(
        matches!(shares.what, Some(v1::host_told::What::Shares(_))),
        "{shares:?}"
    );
    let (second, said) = tokio::sync::mpsc::channel(4);
    second.send(hello("alpha")).await.unwrap();
    second.send(report()).await.unwrap();
    let mut other = client
        .attend(ReceiverStream::new(said))
        .await
        .unwrap()
        .into_inner();
    assert!(other.message().await.unwrap().is_some());
    assert!(
        told.message().await.unwrap().is_none(),
        "the former one hears nothing any more"
    );
    drop(std::fs::remove_dir_all(&folder));
}
