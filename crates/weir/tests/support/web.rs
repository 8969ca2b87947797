//! A web server and its client, whose contents can be checked to the octet.

#![allow(dead_code)] // each test needs another part of it

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use crate::network::{Network, SERVER, at};

/// Longer than any transfer here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// The content of that length: octets that depend on their place and on `seed`.
fn content(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Answers `GET /SEED/LENGTH` with that content and `PUT` of a content with
/// whether it is right, for ever.
pub(crate) fn serve(listener: &TcpListener) {
    for stream in listener.incoming().flatten() {
        std::thread::spawn(move || {
            let _ = answer(stream);
        });
    }
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut request = String::new();
    reader.read_line(&mut request)?;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        if header.trim().is_empty() {
            break;
        }
    }
    let mut parts = request.split(['/', ' ']).filter(|part| !part.is_empty());
    let method = parts.next().unwrap_or("").to_owned();
    let mut number = || parts.next().and_then(|part| part.parse().ok()).unwrap_or(0);
    let (seed, length) = (number(), number() as usize);
    let expected = content(seed, length);
    let body = if method == "PUT" {
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let right = body == expected;
        if right {
            b"right".to_vec()
        } else {
            b"wrong".to_vec()
        }
    } else {
        expected
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(&body)
}

/// One exchange: a download, or an upload, of so many octets.
pub(crate) fn fetch(
    server: SocketAddr,
    upload: bool,
    seed: u64,
    length: usize,
) -> Result<(), String> {
    let wrong =
        |what: &str, error: std::io::Error| format!("{server}: {what} of {length} octets: {error}");
    let mut stream =
        TcpStream::connect_timeout(&server, PATIENCE).map_err(|e| wrong("connecting", e))?;
    stream
        .set_read_timeout(Some(PATIENCE))
        .map_err(|e| wrong("set-up", e))?;
    stream
        .set_write_timeout(Some(PATIENCE))
        .map_err(|e| wrong("set-up", e))?;
    let (method, body) = if upload {
        ("PUT", content(seed, length))
    } else {
        ("GET", Vec::new())
    };
    let head = format!(
        "{method} /{seed}/{length} HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream
        .write_all(head.as_bytes())
        .map_err(|e| wrong("asking", e))?;
    stream.write_all(&body).map_err(|e| wrong("sending", e))?;
    let mut response = Vec::new();
    stream
        .read_to_end(&mut response)
        .map_err(|e| wrong("reading", e))?;
    let end = response.windows(4).position(|four| four == b"\r\n\r\n");
    let got = end.and_then(|end| response.get(end + 4..)).unwrap_or(&[]);
    let right = if upload {
        got == b"right"
    } else {
        got == content(seed, length)
    };
    if right {
        Ok(())
    } else {
        Err(format!(
            "{server}: {length} octets came wrong ({} came)",
            got.len()
        ))
    }
}

/// Starts the server; it is reached at both its addresses.
pub(crate) fn server(network: &Network) {
    let (ready, is_ready) = std::sync::mpsc::channel();
    network.spawn("server", move || {
        let listener = TcpListener::bind("[::]:80").expect("the port is free");
        ready.send(()).expect("the test waits");
        serve(&listener);
    });
    is_ready.recv().expect("the server starts");
}

/// Downloads and uploads of mixed sizes, by IPv4 and IPv6, several at a time.
pub(crate) fn transfers(network: &Network, each: u64) -> u64 {
    let clients = [0u64, 1].map(|client| {
        network.spawn("client", move || {
            for turn in 0..each {
                // 1 octet to 1 MiB, most of them small.
                let seed = turn * 7 + client;
                let length = 1usize << (seed * 5 % 21);
                let length = length + (seed as usize * 997) % length;
                for address in SERVER {
                    fetch(at(address, 80), turn % 3 == 2, seed, length)?;
                }
            }
            Ok::<u64, String>(each * SERVER.len() as u64)
        })
    });
    let done = clients.map(|client| {
        client
            .join()
            .expect("no panic")
            .unwrap_or_else(|e| panic!("{e}"))
    });
    done.iter().sum()
}
