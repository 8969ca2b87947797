//! What rules do with bits: those of their flow, and those of hosts.

/// What a rule does with bits of its flow (`flowbits`) or of hosts (`xbits`, `hostbits`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowbitKind {
    /// Set the bit when the rule matches.
    Set,
    /// Clear the bit when the rule matches.
    Unset,
    /// Change the bit when the rule matches.
    Toggle,
    /// The rule matches only when one of the bits is set.
    IsSet,
    /// The rule matches only when one of the bits is not set.
    IsNotSet,
}

impl FlowbitKind {
    /// The operation of a command, in lower case.
    pub(crate) fn named(command: &str) -> Option<FlowbitKind> {
        Some(match command {
            "set" => FlowbitKind::Set,
            "unset" => FlowbitKind::Unset,
            "toggle" => FlowbitKind::Toggle,
            "isset" => FlowbitKind::IsSet,
            "isnotset" => FlowbitKind::IsNotSet,
            _ => return None,
        })
    }

    /// True if this changes a bit, rather than testing it.
    pub fn writes(self) -> bool {
        matches!(
            self,
            FlowbitKind::Set | FlowbitKind::Unset | FlowbitKind::Toggle
        )
    }
}
