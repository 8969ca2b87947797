//! Classifies packets by their headers, and does nothing else.

use schemars::JsonSchema;
use serde::Deserialize;
use weir_nf::prelude::*;

use crate::filter::matcher::{Fields as PacketFields, Matcher};
use crate::filter::{LABELS, Match, check_number, labels_of, list};

/// The classes, at most six.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Packets of the first leave by the link `class-1`, of the second by `class-2`, and so on; a
    /// packet is of the first class that it meets. Packets of none leave by `pass`.
    pub classes: Vec<Match>,
}

/// Labels packets by their headers.
#[derive(Debug)]
pub struct Classifier {
    classes: Vec<Matcher>,
    needs_addresses: bool,
}

impl NetworkFunction for Classifier {
    type Settings = Settings;
    type State = ();
    type Stats = ();
    type FlowState = ();

    const DESCRIPTOR: Descriptor = Descriptor {
        manual: "Sends each packet out by the link of the first of its `classes` that it meets, \
                 class-1 to class-6, and what meets none by `pass`. A class has the conditions \
                 of `filter`: protocol, addresses, ports, DSCP, VLAN, IP version.\n\n\
                 Unlike `filter` it drops nothing, counts nothing and remembers nothing, so that \
                 classifiers with the same classes can be made one wherever they stand in a \
                 chain; a `counter` on a link says how much of a class there was.\n\n\
                 In an opened tunnel addresses and ports are the inner packet's. Of a fragmented \
                 datagram only the first fragment has ports: the others meet no class with \
                 from-port or to-port, but one with the protocol and addresses.",
        needs: Needs::Transport,
        reads: Parts::LINK.and(Parts::NETWORK).and(Parts::TRANSPORT),
        labels: &LABELS,
        cycles: 35,
        ..Descriptor::new("classifier", "classifies by headers, and nothing else")
    };

    fn new(settings: Settings, _: &mut SetUp<'_>) -> Result<Classifier, SettingsError> {
        check_number(settings.classes.len())?;
        let classes = list("classes", &settings.classes)?;
        Ok(Classifier {
            needs_addresses: classes.iter().any(Matcher::needs_addresses),
            classes,
        })
    }

    fn labels_used(&self) -> u64 {
        labels_of(self.classes.len())
    }

    #[inline]
    fn without_flow(&self, packet: &mut Packet<'_>, _: &mut Context<'_>) -> Verdict {
        let fields = PacketFields::of(packet, self.needs_addresses);
        match self.classes.iter().position(|class| class.meets(&fields)) {
            Some(class) => Verdict::Label(class as u8 + 1),
            None => Verdict::Pass,
        }
    }
}
