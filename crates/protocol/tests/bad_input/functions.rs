//! Functions of one state under two names.

use weir_nf::prelude::*;

/// Packets so far.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Count {
    packets: u64,
}

impl State for Count {}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)+) => {
        $($(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $name;

        impl NetworkFunction for $name {
            type Settings = ();
            type State = Count;
            type Stats = ();
            type FlowState = ();

            const DESCRIPTOR: Descriptor = Descriptor {
                needs: Needs::Flow,
                ..Descriptor::new($text, "Writes the number of the packet into its last octet")
            };

            fn new((): (), _: &mut SetUp<'_>) -> Result<Self, SettingsError> {
                Ok($name)
            }

            fn process(
                &self,
                packet: &mut Packet<'_>,
                flow: &mut Flow<'_, Self>,
                _: &mut Context<'_>,
            ) -> Verdict {
                flow.state.packets += 1;
                let number = flow.state.packets as u8;
                if let Some(last) = packet.payload_mut().last_mut() {
                    *last = number;
                }
                Verdict::Pass
            }
        })+
    };
}

counters! {
    /// What the cluster runs.
    Counter = "counter";
    /// The same under another name: snapshots of one do not fit the other.
    OtherCounter = "other-counter";
}
