//! How a live port is written: `af-packet:IFACE`, `tap:NAME`,
//! `xdp:IFACE[:QUEUES][:MODE]`.

use std::fmt;

use weir_packet::{FramePool, MemoryLayout};

use super::interface::Interface;
use super::xdp::{self, MOST_QUEUES, XdpMode};
use super::{LiveOptions, LivePort, PacketPort, TapPort, XdpPort};
use crate::port::PortError;
use crate::sys::fanout::MOST_MEMBERS;

/// A live port as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LiveSpec {
    /// A packet socket on an interface.
    Packet {
        /// Name of the interface.
        interface: String,
    },
    /// A TAP interface, which is made if it is not there.
    Tap {
        /// Name of the interface.
        interface: String,
    },
    /// XDP sockets on an interface.
    Xdp {
        /// Name of the interface.
        interface: String,
        /// Queues to receive from, from the first on; all without it.
        queues: Option<u32>,
        /// Which mode it must be.
        mode: XdpMode,
    },
}

impl fmt::Display for LiveSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LiveSpec::Packet { interface } => write!(f, "af-packet:{interface}"),
            LiveSpec::Tap { interface } => write!(f, "tap:{interface}"),
            LiveSpec::Xdp {
                interface,
                queues,
                mode,
            } => {
                write!(f, "xdp:{interface}")?;
                if let Some(queues) = queues {
                    write!(f, ":{queues}")?;
                }
                match mode {
                    XdpMode::Any => Ok(()),
                    XdpMode::Native => f.write_str(":native"),
                    XdpMode::Generic => f.write_str(":generic"),
                }
            }
        }
    }
}

impl LiveSpec {
    /// Reads a port; `None` where the text is no live port at all.
    ///
    /// # Errors
    ///
    /// The fault, and its remedy.
    pub fn parse(text: &str) -> Option<Result<LiveSpec, String>> {
        let (kind, rest) = text.split_once(':')?;
        Some(match kind {
            "af-packet" => name(rest).map(|interface| LiveSpec::Packet { interface }),
            "tap" => name(rest).map(|interface| LiveSpec::Tap { interface }),
            "xdp" => xdp(rest),
            _ => return None,
        })
    }

    /// Name of the interface.
    pub fn interface(&self) -> &str {
        match self {
            LiveSpec::Packet { interface }
            | LiveSpec::Tap { interface }
            | LiveSpec::Xdp { interface, .. } => interface,
        }
    }

    /// Opens it. `pool` gives the frames that wait for packets; its memory is
    /// one of [`live_layout`] of all ports.
    ///
    /// # Errors
    ///
    /// If the interface is not there, or the kernel refuses.
    pub fn open(
        &self,
        options: LiveOptions,
        pool: &mut FramePool,
    ) -> Result<Box<dyn LivePort>, PortError> {
        let port = self.to_string();
        Ok(match self {
            LiveSpec::Packet { interface } => {
                Box::new(PacketPort::open(&port, interface, options)?)
            }
            LiveSpec::Tap { interface } => Box::new(TapPort::open(&port, interface, options)?),
            LiveSpec::Xdp {
                interface,
                queues,
                mode,
            } => Box::new(XdpPort::open(
                &port, interface, *queues, *mode, options, pool,
            )?),
        })
    }
}

impl LiveSpec {
    /// Most members that it may be opened with ([`LiveSpec::open_members`]): 1 where
    /// one worker only can own it.
    ///
    /// # Errors
    ///
    /// If the interface is not there.
    pub fn most_members(&self) -> Result<u32, PortError> {
        match self {
            LiveSpec::Packet { .. } => Ok(MOST_MEMBERS),
            LiveSpec::Tap { .. } => Ok(1),
            LiveSpec::Xdp {
                interface, queues, ..
            } => {
                let interface = Interface::find(&self.to_string(), interface)?;
                let queues = xdp::used(*queues, &interface);
                Ok(xdp::most_members(queues, &interface))
            }
        }
    }

    /// Opens it with a member for each of `pools`: each member receives packets that
    /// no other does, and sends by a way of its own. XDP sockets: some of the queues.
    /// Packet sockets: by a hash of the flow. A port of one member is as one that
    /// [`LiveSpec::open`] gives.
    ///
    /// # Errors
    ///
    /// As [`LiveSpec::open`]; and where there are more members than
    /// [`LiveSpec::most_members`].
    pub fn open_members(
        &self,
        options: LiveOptions,
        pools: &mut [FramePool],
    ) -> Result<Vec<Box<dyn LivePort>>, PortError> {
        fn boxed<P: LivePort + 'static>(ports: Vec<P>) -> Vec<Box<dyn LivePort>> {
            let boxed = |port| -> Box<dyn LivePort> { Box::new(port) };
            ports.into_iter().map(boxed).collect()
        }
        let port = self.to_string();
        match self {
            LiveSpec::Packet { interface } => {
                let count = pools.len() as u32;
                PacketPort::open_members(&port, interface, options, count).map(boxed)
            }
            LiveSpec::Tap { interface } => match pools.len() {
                1 => Ok(boxed(vec![TapPort::open(&port, interface, options)?])),
                _ => Err(PortError::new(
                    &port,
                    "one worker only can own a TAP interface",
                )),
            },
            LiveSpec::Xdp {
                interface,
                queues,
                mode,
            } => XdpPort::open_members(&port, interface, *queues, *mode, options, pools).map(boxed),
        }
    }
}

/// Small frames that one of so many members needs for the rings of these ports.
///
/// # Errors
///
/// If an interface is not there.
pub fn member_frames<'a>(
    ports: impl IntoIterator<Item = &'a LiveSpec>,
    members: u32,
) -> Result<u32, PortError> {
    let mut frames = 0;
    for port in ports {
        if let LiveSpec::Xdp {
            interface, queues, ..
        } = port
        {
            let interface = Interface::find(&port.to_string(), interface)?;
            frames += xdp::frames_for(xdp::used(*queues, &interface), members);
        }
    }
    Ok(frames)
}

fn name(text: &str) -> Result<String, String> {
    // The kernel's rule for names.
    let fits = !text.is_empty() && text.len() < 16 && text != "." && text != "..";
    let forbidden = |c: char| c == '/' || c == ':' || c == '\0' || c.is_whitespace();
    if fits && !text.contains(forbidden) {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "`{text}` is no name of an interface: see `ip link` (1 to 15 octets)"
        ))
    }
}

fn xdp(text: &str) -> Result<LiveSpec, String> {
    let mut parts = text.split(':');
    let interface = name(parts.next().unwrap_or(""))?;
    let (mut queues, mut mode) = (None, XdpMode::Any);
    for part in parts {
        match part {
            "native" if mode == XdpMode::Any => mode = XdpMode::Native,
            "generic" if mode == XdpMode::Any => mode = XdpMode::Generic,
            number => match number.parse() {
                Ok(number) if queues.is_none() && (1..=MOST_QUEUES).contains(&number) => {
                    queues = Some(number);
                }
                _ => {
                    return Err(format!(
                        "`{part}`: write xdp:IFACE[:QUEUES][:native|generic] with 1 to \
                         {MOST_QUEUES} queues"
                    ));
                }
            },
        }
    }
    Ok(LiveSpec::Xdp {
        interface,
        queues,
        mode,
    })
}

/// The XDP sockets that these ports open: one per queue.
///
/// # Errors
///
/// If an interface is not there.
pub fn live_sockets<'a>(ports: impl IntoIterator<Item = &'a LiveSpec>) -> Result<u32, PortError> {
    let mut sockets = 0;
    for port in ports {
        if let LiveSpec::Xdp {
            interface, queues, ..
        } = port
        {
            sockets += xdp::used(*queues, &Interface::find(&port.to_string(), interface)?);
        }
    }
    Ok(sockets)
}

/// The packet memory that these ports need beside the frames of packets under
/// way. With XDP sockets frames are 2 KiB or, where an interface has a larger
/// MTU than fits, 4 KiB: the sizes that every driver takes.
///
/// # Errors
///
/// If an interface is not there, or its packets fit no frame.
pub fn live_layout<'a>(
    ports: impl IntoIterator<Item = &'a LiveSpec>,
) -> Result<MemoryLayout, PortError> {
    let mut layout = MemoryLayout::default();
    let mut chunk = None;
    for port in ports {
        let LiveSpec::Xdp {
            interface, queues, ..
        } = port
        else {
            continue;
        };
        let interface = Interface::find(&port.to_string(), interface)?;
        let queues = xdp::used(*queues, &interface);
        // Frames in fill and transmit rings.
        layout.small_frames += xdp::frames_for(queues, 1);
        let bytes = xdp::chunk_for(interface.mtu).ok_or_else(|| {
            let message = format!(
                "an MTU of {} is too large for AF_XDP: `ip link set {} mtu {}` or less",
                interface.mtu,
                interface.name,
                xdp::LARGEST_MTU
            );
            PortError::new(&interface.port, message)
        })?;
        chunk = chunk.max(Some(bytes));
    }
    if let Some(bytes) = chunk {
        layout.small_bytes = bytes;
        // A whole number of pages.
        layout.small_frames = layout.small_frames.next_multiple_of(2);
    }
    Ok(layout)
}
