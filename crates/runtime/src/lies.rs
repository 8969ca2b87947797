//! Findings of an audit: functions that do what their descriptor does not allow.

use weir_packet::{Depth, ParseOptions};

/// Something that a function did and its descriptor does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lie {
    /// Name of the function in the chain.
    pub function: String,
    /// Its kind.
    pub nf: &'static str,
    /// The violation, for people.
    pub what: String,
    /// Number of the first packet for which it did, at its ingress port; 0 for
    /// the end of a flow.
    pub packet: u64,
}

impl core::fmt::Display for Lie {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Lie {
            function,
            nf,
            what,
            packet,
        } = self;
        write!(
            f,
            "{function} ({nf}) {what}, which its descriptor does not say: "
        )?;
        match packet {
            0 => f.write_str("at the end of a flow"),
            number => write!(f, "packet {number}"),
        }
    }
}

/// The findings so far.
#[derive(Debug)]
pub(crate) struct Audit {
    pub(crate) options: ParseOptions,
    pub(crate) lies: Vec<Lie>,
}

impl Audit {
    /// Packets are read as deep as can be, whatever the stage needs.
    pub(crate) fn new(inner: bool) -> Audit {
        Audit {
            options: ParseOptions {
                depth: Depth::L4,
                inner,
                lenient: true,
            },
            lies: Vec::new(),
        }
    }

    /// Each is told once per function.
    pub(crate) fn tell(&mut self, function: &str, nf: &'static str, what: String, packet: u64) {
        let known = |lie: &Lie| lie.function == function && lie.what == what;
        if !self.lies.iter().any(known) {
            self.lies.push(Lie {
                function: function.to_owned(),
                nf,
                what,
                packet,
            });
        }
    }
}
