//! The one program that weir gives the kernel: it hands each packet of an
//! interface to the socket of the queue that it came on. Packets of other
//! queues go on into the kernel, or are dropped and counted.
//!
//! # Safety
//!
//! `bpf` is given the address and size of a structure of this stack frame that
//! is laid out as the kernel's `union bpf_attr` for that command; what it
//! points to (instructions, licence, key, value) outlives the call. Descriptors
//! that come back are new and ours alone.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use super::socket::check;

const MAP_CREATE: libc::c_long = 0;
const MAP_LOOKUP: libc::c_long = 1;
const MAP_UPDATE: libc::c_long = 2;
const PROGRAM_LOAD: libc::c_long = 5;
const LINK_CREATE: libc::c_long = 28;
const LINK_UPDATE: libc::c_long = 29;

const TYPE_ARRAY: u32 = 2;
const TYPE_XSKMAP: u32 = 17;
const TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;

/// How a program is attached to an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attach {
    /// In the driver, before the kernel makes a packet buffer.
    Driver,
    /// In the kernel's general receive path: works everywhere.
    Generic,
}

impl Attach {
    /// `XDP_FLAGS_DRV_MODE`, `XDP_FLAGS_SKB_MODE`.
    const fn flags(self) -> u32 {
        match self {
            Attach::Driver => 1 << 2,
            Attach::Generic => 1 << 1,
        }
    }
}

fn bpf<T>(command: libc::c_long, attributes: &T) -> io::Result<i64> {
    let size = size_of::<T>();
    // SAFETY: module documentation.
    check(unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_ref(attributes),
            size as libc::c_long,
        )
    } as i64)
}

fn owned(fd: i64) -> OwnedFd {
    // SAFETY: module documentation.
    unsafe { OwnedFd::from_raw_fd(fd as RawFd) }
}

/// A table of so many values of so many octets.
fn make_map(kind: u32, value_size: u32, most: u32) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Create {
        kind: u32,
        key_size: u32,
        value_size: u32,
        most: u32,
        flags: u32,
    }
    let create = Create {
        kind,
        key_size: 4,
        value_size,
        most,
        flags: 0,
    };
    bpf(MAP_CREATE, &create).map(owned)
}

/// A value of a table, and where it lies or is to lie.
#[repr(C)]
struct Element {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// How many packets the program has dropped.
#[derive(Debug)]
pub(crate) struct DropCount(OwnedFd);

impl DropCount {
    pub(crate) fn new() -> io::Result<DropCount> {
        make_map(TYPE_ARRAY, 8, 1).map(DropCount)
    }

    pub(crate) fn read(&self) -> io::Result<u64> {
        let (key, mut value) = (0u32, 0u64);
        let element = Element {
            map: self.0.as_raw_fd() as u32,
            padding: 0,
            key: std::ptr::from_ref(&key) as u64,
            value: std::ptr::from_mut(&mut value) as u64,
            flags: 0,
        };
        bpf(MAP_LOOKUP, &element)?;
        Ok(value)
    }
}

/// A table from queues to sockets.
#[derive(Debug)]
pub(crate) struct SocketMap(OwnedFd);

impl SocketMap {
    /// For queues 0 to `queues` - 1.
    pub(crate) fn new(queues: u32) -> io::Result<SocketMap> {
        make_map(TYPE_XSKMAP, 4, queues).map(SocketMap)
    }

    /// From now on the packets of `queue` are the socket's.
    pub(crate) fn set(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        let value = socket.as_raw_fd();
        let update = Element {
            map: self.0.as_raw_fd() as u32,
            padding: 0,
            key: std::ptr::from_ref(&queue) as u64,
            value: std::ptr::from_ref(&value) as u64,
            flags: 0,
        };
        bpf(MAP_UPDATE, &update).map(drop)
    }
}

/// An instruction.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

const fn instruction(code: u8, to: u8, from: u8, offset: i16, immediate: i32) -> Instruction {
    let registers = if cfg!(target_endian = "little") {
        to | from << 4
    } else {
        to << 4 | from
    };
    Instruction {
        code,
        registers,
        offset,
        immediate,
    }
}

const RX_QUEUE_INDEX: i16 = 16;
const XDP_DROP: i32 = 1;
const XDP_PASS: i32 = 2;
const LOOK_UP: i32 = 1;
const REDIRECT_MAP: i32 = 51;

/// `r1 = map`, in two slots.
const fn load_map(map: RawFd) -> [Instruction; 2] {
    const PSEUDO_MAP_FD: u8 = 1;
    [
        instruction(0x18, 1, PSEUDO_MAP_FD, 0, map),
        instruction(0, 0, 0, 0, 0),
    ]
}

/// `return bpf_redirect_map(&map, context->rx_queue_index, otherwise)`: where
/// packets of queues that have no socket are dropped, they are counted.
fn program(map: RawFd, count: Option<RawFd>) -> Vec<Instruction> {
    let otherwise = if count.is_some() { XDP_DROP } else { XDP_PASS };
    // r2 = *(u32 *)(r1 + 16)
    let mut program = vec![instruction(0x61, 2, 1, RX_QUEUE_INDEX, 0)];
    program.extend(load_map(map));
    program.extend([
        // r3 = otherwise
        instruction(0xb7, 3, 0, 0, otherwise),
        instruction(0x85, 0, 0, 0, REDIRECT_MAP),
    ]);
    if let Some(count) = count {
        program.extend([
            // if r0 != XDP_DROP: to the end
            instruction(0x55, 0, 0, 10, XDP_DROP),
            // *(u32 *)(r10 - 4) = 0
            instruction(0x62, 10, 0, -4, 0),
            // r2 = r10 - 4
            instruction(0xbf, 2, 10, 0, 0),
            instruction(0x07, 2, 0, 0, -4),
        ]);
        program.extend(load_map(count));
        program.extend([
            instruction(0x85, 0, 0, 0, LOOK_UP),
            // if r0 == 0: over the next two
            instruction(0x15, 0, 0, 2, 0),
            // lock *(u64 *)r0 += 1
            instruction(0xb7, 1, 0, 0, 1),
            instruction(0xdb, 0, 1, 0, 0),
            // r0 = XDP_DROP
            instruction(0xb7, 0, 0, 0, XDP_DROP),
        ]);
    }
    program.push(instruction(0x95, 0, 0, 0, 0));
    program
}

/// The program, loaded.
#[derive(Debug)]
pub(crate) struct Program(OwnedFd);

impl Program {
    /// Loads it with this table. With a count it drops what comes on queues that
    /// are not in the table; without, that goes on into the kernel.
    pub(crate) fn load(map: &SocketMap, count: Option<&DropCount>) -> io::Result<Program> {
        #[repr(C)]
        struct Load {
            kind: u32,
            count: u32,
            instructions: u64,
            license: u64,
            log_level: u32,
            log_size: u32,
            log: u64,
            kernel_version: u32,
            flags: u32,
            name: [u8; 16],
        }
        let program = program(map.0.as_raw_fd(), count.map(|count| count.0.as_raw_fd()));
        let load = Load {
            kind: TYPE_XDP,
            count: program.len() as u32,
            instructions: program.as_ptr() as u64,
            license: c"Apache-2.0 OR MIT".as_ptr() as u64,
            log_level: 0,
            log_size: 0,
            log: 0,
            kernel_version: 0,
            flags: 0,
            name: *b"weir\0\0\0\0\0\0\0\0\0\0\0\0",
        };
        bpf(PROGRAM_LOAD, &load).map(|fd| Program(owned(fd)))
    }

    /// Attaches it to an interface until the link is dropped, or the process
    /// ends in whatever way.
    pub(crate) fn attach(&self, interface: u32, how: Attach) -> io::Result<Link> {
        #[repr(C)]
        struct Create {
            program: u32,
            interface: u32,
            kind: u32,
            flags: u32,
        }
        let create = Create {
            program: self.0.as_raw_fd() as u32,
            interface,
            kind: ATTACH_XDP,
            flags: how.flags(),
        };
        bpf(LINK_CREATE, &create).map(|fd| Link(owned(fd)))
    }
}

/// An attachment.
#[derive(Debug)]
pub(crate) struct Link(OwnedFd);

impl Link {
    /// Puts another program in the place of the one that is attached.
    pub(crate) fn update(&self, program: &Program) -> io::Result<()> {
        #[repr(C)]
        struct Update {
            link: u32,
            program: u32,
            flags: u32,
            old: u32,
        }
        let update = Update {
            link: self.0.as_raw_fd() as u32,
            program: program.0.as_raw_fd() as u32,
            flags: 0,
            old: 0,
        };
        bpf(LINK_UPDATE, &update).map(drop)
    }
}
