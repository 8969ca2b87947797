mod formats;
mod hostile;
mod resegment;
mod traces;

use std::path::{Path, PathBuf};

use super::{CaptureError, CaptureReader, OwnedRecord};

/// The folder with the shared captures; says so loudly if it is absent.
fn traces() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let named = std::env::var_os("WEIR_TRACES").map(PathBuf::from);
    let found = [Some(beside), named].into_iter().flatten();
    let found = found
        .into_iter()
        .find(|folder| folder.join("truth").is_dir());
    if found.is_none() {
        // Straight to standard error: the harness keeps what a passed test prints.
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            b"SKIPPED: no ../shared/traces beside the workspace, and WEIR_TRACES is not set\n",
        );
    }
    found
}

/// All packets of a capture, and the error that ended it, if any.
fn read_all(file: &[u8]) -> (Vec<OwnedRecord>, Option<CaptureError>) {
    let mut records = Vec::new();
    let mut reader = match CaptureReader::open(file) {
        Ok(reader) => reader,
        Err(error) => return (records, Some(error)),
    };
    loop {
        match reader.next() {
            Ok(Some(record)) => records.push(record.into()),
            Ok(None) => return (records, None),
            Err(error) => {
                assert!(matches!(reader.next(), Ok(None)), "an error ends a capture");
                return (records, Some(error));
            }
        }
    }
}

/// A pcapng block in either byte order.
fn block(big: bool, kind: u32, body: &[u8]) -> Vec<u8> {
    let number = |value: u32| {
        if big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    };
    let padded = body.len().next_multiple_of(4);
    let length = number(padded as u32 + 12);
    let mut block = [number(kind), length].concat();
    block.extend(body);
    block.resize(8 + padded, 0);
    block.extend(length);
    block
}

/// Fields of a pcapng block: numbers of 2, 4 or 8 bytes in either byte order.
struct Body {
    big: bool,
    bytes: Vec<u8>,
}

impl Body {
    fn new(big: bool) -> Self {
        let bytes = Vec::new();
        Self { big, bytes }
    }

    fn u16(mut self, value: u16) -> Self {
        let field = if self.big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        };
        self.bytes.extend(field);
        self
    }

    fn u32(mut self, value: u32) -> Self {
        let field = if self.big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        };
        self.bytes.extend(field);
        self
    }

    fn i64(mut self, value: i64) -> Self {
        let field = if self.big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        };
        self.bytes.extend(field);
        self
    }

    fn data(mut self, data: &[u8]) -> Self {
        self.bytes.extend(data);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self
    }

    fn block(self, kind: u32) -> Vec<u8> {
        block(self.big, kind, &self.bytes)
    }
}

fn section(big: bool) -> Vec<u8> {
    let body = Body::new(big).u32(0x1a2b_3c4d).u16(1).u16(0).i64(-1);
    body.block(0x0a0d_0d0a)
}

fn interface(big: bool, dlt: u16, options: impl FnOnce(Body) -> Body) -> Vec<u8> {
    options(Body::new(big).u16(dlt).u16(0).u32(0)).block(1)
}

fn enhanced(big: bool, interface: u32, time: u64, wire_len: u32, data: &[u8]) -> Vec<u8> {
    let body = Body::new(big).u32(interface);
    let body = body.u32((time >> 32) as u32).u32(time as u32);
    body.u32(data.len() as u32)
        .u32(wire_len)
        .data(data)
        .block(6)
}
