//! Facts from a network interface's driver: name, queues, offloads.
//!
//! # Safety
//!
//! Each `SIOCETHTOOL` is given the address of a structure laid out as the
//! kernel's for that command, in memory that outlives the call. Where the kernel
//! writes as many entries as it has (the names of offloads), it was asked for
//! their number just before, which is a constant of the running kernel, and
//! there is room for twice as many.

#![allow(unsafe_code)]

use std::io;

use super::interface::Interfaces;

const SIOCETHTOOL: libc::c_int = 0x8946;
const GET_DRIVER: u32 = 0x03;
const GET_STRINGS: u32 = 0x1b;
const GET_SET_INFO: u32 = 0x37;
const GET_FEATURES: u32 = 0x3a;
const GET_CHANNELS: u32 = 0x3c;
/// The set of strings that names offloads.
const FEATURES: u32 = 4;
/// Octets of a string.
const STRING: usize = 32;
/// Most offloads that are believed.
const MOST_FEATURES: usize = 512;

/// An offload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Feature {
    /// The kernel's name, as `tx-checksum-ip-generic`.
    pub(crate) name: String,
    pub(crate) on: bool,
    /// It can be switched.
    pub(crate) changeable: bool,
}

/// Queues of a driver: now, and the most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Channels {
    pub(crate) receive: u32,
    pub(crate) transmit: u32,
    pub(crate) combined: u32,
    pub(crate) most_receive: u32,
    pub(crate) most_transmit: u32,
    pub(crate) most_combined: u32,
}

/// The driver's name.
pub(crate) fn driver(ask: &Interfaces, name: &str) -> io::Result<String> {
    // `struct ethtool_drvinfo` is 196 octets: the command, then the name.
    let mut answer = [0u32; 64];
    answer[0] = GET_DRIVER;
    call(ask, name, &mut answer)?;
    let bytes: Vec<u8> = answer[1..9].iter().flat_map(|n| n.to_ne_bytes()).collect();
    Ok(text(&bytes))
}

/// Its queues.
pub(crate) fn channels(ask: &Interfaces, name: &str) -> io::Result<Channels> {
    // `struct ethtool_channels`: the command, the most, what there are; each
    // receive, transmit, other, combined.
    let mut answer = [0u32; 9];
    answer[0] = GET_CHANNELS;
    call(ask, name, &mut answer)?;
    let [_, rx, tx, _, both, receive, transmit, _, combined] = answer;
    Ok(Channels {
        receive,
        transmit,
        combined,
        most_receive: rx,
        most_transmit: tx,
        most_combined: both,
    })
}

/// Its offloads.
pub(crate) fn features(ask: &Interfaces, name: &str) -> io::Result<Vec<Feature>> {
    // `struct ethtool_sset_info`: command, reserved, a mask of 64 bits, numbers.
    let mut info = [0u32; 8];
    info[0] = GET_SET_INFO;
    info[if cfg!(target_endian = "little") { 2 } else { 3 }] = 1 << FEATURES;
    call(ask, name, &mut info)?;
    let count = info[4] as usize;
    if count == 0 || count > MOST_FEATURES {
        return Ok(Vec::new());
    }
    // `struct ethtool_gstrings`: command, set, number, strings.
    let mut names = vec![0u32; 3 + 2 * count * STRING / 4];
    names[0] = GET_STRINGS;
    names[1] = FEATURES;
    names[2] = count as u32;
    call(ask, name, names.as_mut_slice())?;
    let strings: Vec<u8> = names[3..].iter().flat_map(|n| n.to_ne_bytes()).collect();
    // `struct ethtool_gfeatures`: command, number of blocks of 32 offloads; in
    // each block what can be switched, is wished, is on, and is fixed.
    let blocks = count.div_ceil(32);
    let mut values = vec![0u32; 2 + 4 * blocks];
    values[0] = GET_FEATURES;
    values[1] = blocks as u32;
    call(ask, name, values.as_mut_slice())?;
    let blocks: Vec<&[u32]> = values[2..].chunks_exact(4).collect();
    let all = strings.chunks_exact(STRING).take(count).enumerate();
    let features = all.filter_map(|(number, string)| {
        let [can, _, on, never] = blocks.get(number / 32)? else {
            return None;
        };
        let bit = |word: &u32| word >> (number % 32) & 1 == 1;
        Some(Feature {
            name: text(string),
            on: bit(on),
            changeable: bit(can) && !bit(never),
        })
    });
    Ok(features.filter(|f| !f.name.is_empty()).collect())
}

/// One request; `data` begins with the command and takes the answer.
fn call(ask: &Interfaces, name: &str, data: &mut [u32]) -> io::Result<()> {
    // SAFETY: module documentation.
    unsafe { ask.ask_data(name, SIOCETHTOOL, data.as_mut_ptr().cast()) }
}

/// Up to the first zero.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
}
