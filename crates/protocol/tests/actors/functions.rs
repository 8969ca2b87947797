//! Functions whose packets say what they are to do.

use std::net::IpAddr;

use weir_nf::prelude::*;
use weir_nf::{Cluster, PoolId, PoolSpec, PortSpace, RuntimeId, Want};

#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Page {
    pub(crate) count: u32,
    /// The runtime wanted, plus one.
    wanted: u32,
}

impl State for Page {}

/// Counts in its state, and writes the count into the packet's last byte. The
/// payload's first byte says what else: `q` nothing changes, `d` drop, `e`
/// emit a packet, `a` an alert, `n` another name, `m` prefer the runtime in
/// the next byte, `p` panic.
#[derive(Debug)]
pub(crate) struct Ledger;

weir_nf::labels! {
    /// Drop reasons.
    enum Reason: Counter<Packets> {
        /// It asked for it.
        Asked = "asked",
        /// No port was left.
        NoPort = "no_port",
    }
}

impl NetworkFunction for Ledger {
    type Settings = ();
    type State = Page;
    type Stats = ();
    type FlowState = ();

    const DESCRIPTOR: Descriptor = Descriptor {
        needs: Needs::Flow,
        drops: Reason::TABLE,
        emits: true,
        aliases: true,
        ..Descriptor::new("ledger", "Does what its packets say")
    };

    fn new((): (), _: &mut SetUp<'_>) -> Result<Self, SettingsError> {
        Ok(Ledger)
    }

    fn process(
        &self,
        packet: &mut Packet<'_>,
        flow: &mut Flow<'_, Self>,
        cx: &mut Context<'_>,
    ) -> Verdict {
        let (what, more) = match *packet.payload() {
            [what, more, ..] => (what, more),
            _ => return Verdict::Pass,
        };
        if what != b'q' {
            flow.state.count += 1;
        }
        let count = flow.state.count as u8;
        if let Some(last) = packet.payload_mut().last_mut() {
            *last = count;
        }
        match what {
            b'd' => return Verdict::Drop(Reason::Asked.into()),
            b'e' => {
                if let Some(room) = cx.emit(Side::Outside, 60) {
                    room.fill(count);
                }
            }
            b'a' => {
                cx.event("alert", &flow.info).number("count", count.into());
            }
            b'n' => {
                let info = flow.info;
                let (server, port) = info.key().destination(info.client_direction());
                let name = IpAddr::from([198, 51, 100, more]);
                let (key, way) = FlowKey::new(name, 7_000, server, port, info.key().proto(), 0, 0);
                cx.alias(key, way);
            }
            b'm' => flow.state.wanted = u32::from(more) + 1,
            b'p' => panic!("it asked for it"),
            _ => {}
        }
        Verdict::Pass
    }

    fn preferred_owner(&self, page: &Page, _: &Cluster<'_>) -> Option<RuntimeId> {
        page.wanted.checked_sub(1).map(RuntimeId)
    }
}

/// Another function of the same state under another name: its snapshots don't
/// fit.
#[derive(Debug)]
pub(crate) struct Other;

impl NetworkFunction for Other {
    type Settings = ();
    type State = Page;
    type Stats = ();
    type FlowState = ();

    const DESCRIPTOR: Descriptor = Descriptor {
        needs: Needs::Flow,
        ..Descriptor::new("other", "Is not the ledger")
    };

    fn new((): (), _: &mut SetUp<'_>) -> Result<Self, SettingsError> {
        Ok(Other)
    }
}

/// Takes a port for each flow and drops the packet where there is none.
#[derive(Debug)]
pub(crate) struct Ports(PoolId);

impl NetworkFunction for Ports {
    type Settings = ();
    type State = Page;
    type Stats = ();
    type FlowState = ();

    const DESCRIPTOR: Descriptor = Descriptor {
        needs: Needs::Flow,
        drops: Reason::TABLE,
        shares: true,
        ..Descriptor::new("ports", "Takes ports")
    };

    fn new((): (), set_up: &mut SetUp<'_>) -> Result<Self, SettingsError> {
        let spec = PoolSpec {
            addresses: vec![IpAddr::from([192, 0, 2, 1])],
            first: 1_024,
            last: 65_535,
            block: 64,
        };
        Ok(Ports(set_up.lease("pool", spec)?))
    }

    fn open(
        &self,
        _: &Packet<'_>,
        _: &FlowInfo<'_>,
        cx: &mut Context<'_>,
    ) -> Result<Page, DropReason> {
        let lease = cx.leases.take(self.0, 0, PortSpace::Udp, Want::default());
        let lease = lease.ok_or(Reason::NoPort)?;
        Ok(Page {
            count: lease.port.into(),
            wanted: 0,
        })
    }

    fn process(
        &self,
        packet: &mut Packet<'_>,
        flow: &mut Flow<'_, Self>,
        _: &mut Context<'_>,
    ) -> Verdict {
        if let Some(last) = packet.payload_mut().last_mut() {
            *last = flow.state.count as u8;
        }
        Verdict::Pass
    }
}
