//! The forms of what messages are made of.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_nf::host::AliasRequest;
use weir_nf::{PoolId, PortLease, PortSpace, RuntimeId};
use weir_packet::{Direction, Disposition, FlowKey, LinkType, Prefix, Side, Time};

use super::DecodeError;
use super::field::{Field, Reader, choices, fields, wrappers};
use crate::ids::{Clock, UnitId, View};
use crate::message::{
    Change, Claim, Comparison, Entry, EntryBatch, FlowSpace, Image, MoveMode, Open, Origin, Part,
    Refusal, Selection, StateUpdate, Workload,
};

wrappers! {
    UnitId(u64),
    View(u64),
    Clock(u64),
    RuntimeId(u32),
    PoolId(u8),
    Time(u64),
}

choices! {
    MoveMode { 0 = Push, 1 = Pull, 2 = Reprocess }
    Comparison { 0 = Equal, 1 = Differs, 2 = Behind, 3 = Missing }
    Refusal { 0 = Full, 1 = Layout, 2 = Corrupt, 3 = NoState, 4 = TooLong }
    Side { 0 = Inside, 1 = Outside }
    Direction { 0 = Forward, 1 = Reverse }
    PortSpace { 0 = Tcp, 1 = Udp, 2 = Icmp }
}

fields! {
    Open {
        unit: UnitId,
        view: View,
        old: View,
        base: Clock,
        out: Clock,
        origin: Origin,
        replica: Option<RuntimeId>,
        every: u32,
    }
    Part {
        disposition: Disposition,
        flags: u8,
        side: Side,
        port: u8,
        link: LinkType,
        dlt: u16,
        wire_len: u32,
        time: Time,
        sequence: u64,
        path: u32,
        bytes: Vec<u8>,
    }
    Change { at: u32, bytes: Vec<u8> }
    Entry { clock: Clock, parts: Vec<Part> }
    EntryBatch { unit: UnitId, view: View, clock: Clock, state: StateUpdate, entries: Vec<Entry> }
    Image { clock: Clock, state: Option<Vec<u8>>, since: Clock, outputs: Vec<Entry> }
    AliasRequest { flow: u32, key: FlowKey, client: Direction, side: Side, open: bool }
    Claim {
        unit: UnitId,
        view: View,
        owner: bool,
        clock: Clock,
        state: bool,
        key: Option<FlowKey>,
        flows: Vec<(FlowKey, bool)>,
        aliases: Vec<(FlowKey, AliasRequest)>,
    }
    FlowSpace { prefixes: Vec<Prefix>, ports: Vec<(u16, u16)>, protocols: Vec<u8> }
    Workload { packets: u64, drops: u64, units: u32, busy: u32 }
    PortLease { address: u16, port: u16, space: PortSpace }
}

impl Field for Disposition {
    const LEAST: usize = 1;

    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }

    fn get(reader: &mut Reader<'_>) -> Result<Disposition, DecodeError> {
        Disposition::from_u8(u8::get(reader)?).ok_or(DecodeError::Value("Disposition"))
    }
}

impl Field for LinkType {
    const LEAST: usize = 1;

    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }

    fn get(reader: &mut Reader<'_>) -> Result<LinkType, DecodeError> {
        let number = u8::get(reader)?;
        let link = LinkType::from_u8(number);
        if link as u8 == number {
            Ok(link)
        } else {
            Err(DecodeError::Value("LinkType"))
        }
    }
}

/// Six words, each little endian.
impl Field for FlowKey {
    const LEAST: usize = 48;

    fn put(&self, out: &mut Vec<u8>) {
        for word in self.to_words() {
            word.put(out);
        }
    }

    fn get(reader: &mut Reader<'_>) -> Result<FlowKey, DecodeError> {
        let mut words = [0; 6];
        for word in &mut words {
            *word = u64::get(reader)?;
        }
        Ok(FlowKey::from_words(words))
    }
}

/// Family (4 or 6), length, and the address in network order.
impl Field for Prefix {
    const LEAST: usize = 6;

    fn put(&self, out: &mut Vec<u8>) {
        match self.address() {
            IpAddr::V4(address) => {
                out.extend([4, self.length()]);
                out.extend(address.octets());
            }
            IpAddr::V6(address) => {
                out.extend([6, self.length()]);
                out.extend(address.octets());
            }
        }
    }

    fn get(reader: &mut Reader<'_>) -> Result<Prefix, DecodeError> {
        let [family, length] = reader.array()?;
        let address = match family {
            4 => IpAddr::V4(Ipv4Addr::from(reader.array::<4>()?)),
            6 => IpAddr::V6(Ipv6Addr::from(reader.array::<16>()?)),
            _ => return Err(DecodeError::Value("Prefix")),
        };
        Prefix::new(address, length).map_err(|_| DecodeError::Value("Prefix"))
    }
}

/// 0 and `after_loss`, 1 and the source, or 2 and the source.
impl Field for Origin {
    const LEAST: usize = 2;

    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Origin::Nothing { after_loss } => {
                out.push(0);
                after_loss.put(out);
            }
            Origin::Planned { source } => {
                out.push(1);
                source.put(out);
            }
            Origin::Resumed { source } => {
                out.push(2);
                source.put(out);
            }
        }
    }

    fn get(reader: &mut Reader<'_>) -> Result<Origin, DecodeError> {
        Ok(match u8::get(reader)? {
            0 => Origin::Nothing {
                after_loss: bool::get(reader)?,
            },
            1 => Origin::Planned {
                source: RuntimeId::get(reader)?,
            },
            2 => Origin::Resumed {
                source: RuntimeId::get(reader)?,
            },
            _ => return Err(DecodeError::Value("Origin")),
        })
    }
}

/// 0; 1 and bytes; 2 or 3 and perhaps bytes; 4 or 5, a clock and perhaps bytes;
/// 6, a clock and changes.
impl Field for StateUpdate {
    const LEAST: usize = 1;

    fn put(&self, out: &mut Vec<u8>) {
        match self {
            StateUpdate::Omitted => out.push(0),
            StateUpdate::Touched(bytes) => {
                out.push(1);
                bytes.put(out);
            }
            StateUpdate::Full(state) => {
                out.push(2);
                state.put(out);
            }
            StateUpdate::Whole(state) => {
                out.push(3);
                state.put(out);
            }
            StateUpdate::Rest { since, state } => {
                out.push(4);
                since.put(out);
                state.put(out);
            }
            StateUpdate::Delta { from, changes } => {
                out.push(6);
                from.put(out);
                changes.put(out);
            }
            StateUpdate::Apart { since, state } => {
                out.push(5);
                since.put(out);
                state.put(out);
            }
        }
    }

    fn get(reader: &mut Reader<'_>) -> Result<StateUpdate, DecodeError> {
        Ok(match u8::get(reader)? {
            0 => StateUpdate::Omitted,
            1 => StateUpdate::Touched(Vec::get(reader)?),
            2 => StateUpdate::Full(Option::get(reader)?),
            3 => StateUpdate::Whole(Option::get(reader)?),
            4 => StateUpdate::Rest {
                since: Clock::get(reader)?,
                state: Option::get(reader)?,
            },
            5 => StateUpdate::Apart {
                since: Clock::get(reader)?,
                state: Option::get(reader)?,
            },
            6 => StateUpdate::Delta {
                from: Clock::get(reader)?,
                changes: Vec::get(reader)?,
            },
            _ => return Err(DecodeError::Value("StateUpdate")),
        })
    }
}

/// 0 and a number; 1; 2 and a space; 3 and a key.
impl Field for Selection {
    const LEAST: usize = 1;

    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Selection::Number(number) => {
                out.push(0);
                number.put(out);
            }
            Selection::All => out.push(1),
            Selection::Space(space) => {
                out.push(2);
                space.put(out);
            }
            Selection::Key(key) => {
                out.push(3);
                key.put(out);
            }
        }
    }

    fn get(reader: &mut Reader<'_>) -> Result<Selection, DecodeError> {
        Ok(match u8::get(reader)? {
            0 => Selection::Number(u32::get(reader)?),
            1 => Selection::All,
            2 => Selection::Space(FlowSpace::get(reader)?),
            3 => Selection::Key(FlowKey::get(reader)?),
            _ => return Err(DecodeError::Value("Selection")),
        })
    }
}
