//! Data frames between hosts: headers are written as they were read, frames
//! with a wrong tag are refused, and no frame leaks.

use std::cell::RefCell;

use weir_packet::nsh::{NshContext, NshRepr, NshViewMut};
use weir_packet::weir_header::WeirRepr;
use weir_packet::{FrameMeta, FramePool, MemoryLayout, Time};
use weir_protocol::Key;
use weir_protocol::wire::{Hop, decode_data, encode_data, seal};

use crate::input::Input;

const KEY: Key = Key(*b"a key of no-one!");

thread_local! {
    static POOL: RefCell<FramePool> = RefCell::new(FramePool::with_layout(MemoryLayout {
        small_frames: 2,
        small_bytes: 2112,
        large_frames: 1,
        large_bytes: 65_536,
    }));
}

/// The first byte chooses: the rest is a frame; or changes to a good frame.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let choice = input.u8();
    headers(input.0);
    let bytes = if choice % 2 == 0 {
        input.0.to_vec()
    } else {
        let mut bytes = example();
        while !input.is_empty() {
            let at = usize::from(input.u16()) % bytes.len();
            bytes[at] = input.u8();
        }
        bytes
    };
    POOL.with_borrow_mut(|pool| {
        read(pool, &bytes);
        // And past the tag.
        let mut sealed = bytes;
        seal(&KEY, &mut sealed);
        read(pool, &sealed);
        assert_eq!(pool.outstanding(), 0);
    });
}

fn headers(b: &[u8]) {
    if let Ok(repr) = NshRepr::parse(b) {
        let mut buffer = vec![0xaa; NshRepr::LEN];
        assert_eq!(repr.emit(&mut buffer), Ok(NshRepr::LEN));
        assert_eq!(NshRepr::parse(&buffer), Ok(repr));
        let context = NshContext::from_bytes(repr.context);
        assert_eq!(context.to_bytes(), Some(repr.context));
        let _ = NshViewMut::new(&mut buffer).map(|mut view| view.decrement_ttl());
    }
    if let Ok(repr) = WeirRepr::parse(b) {
        let mut buffer = vec![0xaa; b.len()];
        assert_eq!(repr.emit(&mut buffer), Ok(WeirRepr::LEN));
        assert_eq!(WeirRepr::parse(&buffer), Ok(repr));
    }
}

/// What is read is written to the same bytes, but for a TTL on its way.
fn read(pool: &mut FramePool, bytes: &[u8]) {
    let Ok((frame, hop)) = decode_data(pool, &KEY, bytes) else {
        return;
    };
    let mut again = Vec::new();
    encode_data(pool.memory(), &frame, &hop, &KEY, &mut again).expect("it was read");
    pool.give(frame);
    let ttl = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        bytes[14] &= 0xf0;
        bytes[15] &= 0x3f;
        bytes
    };
    if ttl(bytes) != ttl(&again) {
        // Bits that RFC 8300 leaves free are not kept.
        let mut free = bytes.to_vec();
        free[14] &= !0x10;
        free[16] &= 0x0f;
        seal(&KEY, &mut free);
        assert_eq!(ttl(&free), ttl(&again));
    }
}

/// A good frame.
pub(crate) fn example() -> Vec<u8> {
    POOL.with_borrow_mut(|pool| {
        let mut meta = FrameMeta::received(Time(1_700_000_000_000_000_000), 0);
        (meta.unit, meta.view, meta.clock) = (1 << 32 | 5, 1 << 48 | 7, 9);
        let frame = pool.copy(&[0x45; 60], meta).expect("a frame");
        let mut bytes = Vec::new();
        encode_data(pool.memory(), &frame, &Hop::default(), &KEY, &mut bytes).expect("it fits");
        pool.give(frame);
        bytes
    })
}
