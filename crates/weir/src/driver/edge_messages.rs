//! Messages between a switch's thread and a runtime's process, as bytes: a kind, the
//! chain, and what the kind has. Numbers are little endian. Both ends are one program,
//! so there is no version; what makes no sense is counted and dropped.

use weir_exec::edge::WireMessage;
use weir_packet::FlowKey;
use weir_protocol::{Message, Peer, RuntimeId, UnitId};

use super::wiring::{ToRuntime, ToSwitch};

const MESSAGE: u8 = 1;
const ECHO: u8 = 2;
const CLUSTER: u8 = 3;
const FINISH: u8 = 4;
const END: u8 = 5;
const RELAY: u8 = 6;

/// Peers, as numbers.
const SWITCH: u8 = 0;
const RUNTIME: u8 = 1;
const COORDINATOR: u8 = 2;

/// Reads numbers off the front of some bytes.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take().map(|[byte]| byte)
    }

    fn word(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn long(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn chain(&mut self) -> Option<usize> {
        self.word().map(|chain| chain as usize)
    }

    fn peer(&mut self) -> Option<Peer> {
        let (kind, number) = (self.byte()?, self.word()?);
        Some(match kind {
            SWITCH => Peer::Switch(u16::try_from(number).ok()?),
            RUNTIME => Peer::Runtime(RuntimeId(number)),
            COORDINATOR => Peer::Coordinator,
            _ => return None,
        })
    }

    /// The message that all the rest is.
    fn message(self) -> Option<Message> {
        Message::decode_one(self.0).ok()
    }

    /// This, if nothing is left.
    fn whole<T>(self, value: T) -> Option<T> {
        self.0.is_empty().then_some(value)
    }
}

fn head(out: &mut Vec<u8>, kind: u8, chain: usize) {
    out.push(kind);
    out.extend((chain as u32).to_le_bytes());
}

fn peer(out: &mut Vec<u8>, peer: Peer) {
    let (kind, number) = match peer {
        Peer::Switch(generation) => (SWITCH, u32::from(generation)),
        Peer::Runtime(id) => (RUNTIME, id.0),
        Peer::Coordinator => (COORDINATOR, 0),
    };
    out.push(kind);
    out.extend(number.to_le_bytes());
}

impl WireMessage for ToRuntime {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            ToRuntime::Message {
                chain,
                from,
                message,
            } => {
                head(out, MESSAGE, *chain);
                peer(out, *from);
                message.encode(out);
            }
            ToRuntime::Echo(number) => {
                out.push(ECHO);
                out.extend(number.to_le_bytes());
            }
            ToRuntime::Cluster(runtimes) => {
                out.push(CLUSTER);
                out.extend(runtimes.iter().flat_map(|id| id.0.to_le_bytes()));
            }
            ToRuntime::Finish => out.push(FINISH),
        }
    }

    fn get(bytes: &[u8]) -> Option<ToRuntime> {
        let mut fields = Fields(bytes);
        match fields.byte()? {
            MESSAGE => Some(ToRuntime::Message {
                chain: fields.chain()?,
                from: fields.peer()?,
                message: fields.message()?,
            }),
            ECHO => {
                let number = fields.long()?;
                fields.whole(ToRuntime::Echo(number))
            }
            CLUSTER => {
                let (ids, rest) = fields.0.as_chunks();
                let ids = ids.iter().map(|id| RuntimeId(u32::from_le_bytes(*id)));
                rest.is_empty().then(|| ToRuntime::Cluster(ids.collect()))
            }
            FINISH => fields.whole(ToRuntime::Finish),
            _ => None,
        }
    }
}

impl WireMessage for ToSwitch {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            ToSwitch::Message { chain, message } => {
                head(out, MESSAGE, *chain);
                message.encode(out);
            }
            ToSwitch::Relay { chain, to, message } => {
                head(out, RELAY, *chain);
                out.extend(to.0.to_le_bytes());
                message.encode(out);
            }
            ToSwitch::Echo(number) => {
                out.push(ECHO);
                out.extend(number.to_le_bytes());
            }
            ToSwitch::End { chain, unit, key } => {
                head(out, END, *chain);
                out.extend(unit.0.to_le_bytes());
                out.extend(key.to_words().iter().flat_map(|word| word.to_le_bytes()));
            }
        }
    }

    fn get(bytes: &[u8]) -> Option<ToSwitch> {
        let mut fields = Fields(bytes);
        match fields.byte()? {
            MESSAGE => Some(ToSwitch::Message {
                chain: fields.chain()?,
                message: fields.message()?,
            }),
            RELAY => Some(ToSwitch::Relay {
                chain: fields.chain()?,
                to: RuntimeId(fields.word()?),
                message: fields.message()?,
            }),
            ECHO => {
                let number = fields.long()?;
                fields.whole(ToSwitch::Echo(number))
            }
            END => {
                let (chain, unit) = (fields.chain()?, UnitId(fields.long()?));
                let mut words = [0; 6];
                for word in &mut words {
                    *word = fields.long()?;
                }
                let key = FlowKey::from_words(words);
                fields.whole(ToSwitch::End { chain, unit, key })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_protocol::View;

    use super::*;

    fn held() -> Message {
        Message::Held {
            unit: UnitId(7),
            view: View(9),
        }
    }

    /// What was put is got; less of it, or more, is nothing.
    fn round<T: WireMessage + std::fmt::Debug>(message: &T) {
        let mut bytes = Vec::new();
        message.put(&mut bytes);
        let got = T::get(&bytes).unwrap();
        assert_eq!(format!("{got:?}"), format!("{message:?}"));
        bytes.push(0);
        assert!(T::get(&bytes).is_none(), "{message:?} and a byte");
        for len in 0..bytes.len() - 1 {
            if let Some(shorter) = T::get(&bytes[..len]) {
                // A shorter list of ids is a list, too.
                assert!(format!("{shorter:?}").starts_with("Cluster"), "{shorter:?}");
            }
        }
    }

    #[test]
    fn messages_come_as_they_were() {
        for from in [
            Peer::Switch(3),
            Peer::Runtime(RuntimeId(70_000)),
            Peer::Coordinator,
        ] {
            round(&ToRuntime::Message {
                chain: 2,
                from,
                message: held(),
            });
        }
        round(&ToRuntime::Echo(u64::MAX));
        round(&ToRuntime::Cluster(vec![RuntimeId(1), RuntimeId(6)]));
        round(&ToRuntime::Finish);
        round(&ToSwitch::Message {
            chain: 1,
            message: held(),
        });
        round(&ToSwitch::Relay {
            chain: 0,
            to: RuntimeId(4),
            message: held(),
        });
        round(&ToSwitch::Echo(1));
        round(&ToSwitch::End {
            chain: 0,
            unit: UnitId(5),
            key: FlowKey::from_words([1, 2, 3, 4, 5, 6]),
        });
    }

    #[test]
    fn what_makes_no_sense_is_no_message() {
        for bytes in [&[][..], &[9], &[MESSAGE, 0, 0, 0, 0, 7, 0, 0, 0, 0]] {
            assert!(ToRuntime::get(bytes).is_none() && ToSwitch::get(bytes).is_none());
        }
    }
}
