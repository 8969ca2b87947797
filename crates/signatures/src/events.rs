//! Events: facts about packets and messages that are out of the ordinary, which rules ask for by name.

use crate::app_protocol::AppProtocol;
use crate::error::{Fault, Span};

macro_rules! app_events {
    ($($(#[$doc:meta])* $variant:ident $name:literal $protocol:ident;)*) => {
        /// An event of a message (`app-layer-event`).
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum AppEvent {
            $($(#[$doc])* $variant,)*
        }

        impl AppEvent {
            /// All of them.
            pub const ALL: &'static [AppEvent] = &[$(AppEvent::$variant,)*];

            /// The name that rules use.
            pub fn name(self) -> &'static str {
                match self {
                    $(AppEvent::$variant => $name,)*
                }
            }

            /// The protocol of the messages that may have it.
            pub fn protocol(self) -> AppProtocol {
                match self {
                    $(AppEvent::$variant => AppProtocol::$protocol,)*
                }
            }
        }
    };
}

app_events! {
    /// The reserved Z bit is set.
    DnsZFlagSet "dns.z_flag_set" Dns;
    /// A message that could not be read to its end.
    DnsMalformed "dns.malformed_data" Dns;
    /// A query where a response is due.
    DnsNotResponse "dns.not_a_response" Dns;
    /// A response where a query is due.
    DnsNotRequest "dns.not_a_request" Dns;
    /// A record that is none.
    TlsInvalidRecord "tls.invalid_record_type" Tls;
    /// A handshake message that could not be read.
    TlsInvalidHandshake "tls.invalid_handshake_message" Tls;
    /// A certificate that could not be read.
    TlsInvalidCertificate "tls.invalid_certificate" Tls;
    /// A banner that is none.
    SshInvalidBanner "ssh.invalid_banner" Ssh;
    /// A banner that is too long.
    SshLongBanner "ssh.long_banner" Ssh;
    /// A command line that is too long.
    SmtpCommandTooLong "smtp.max_command_line_len_exceeded" Smtp;
    /// A reply that is too long.
    SmtpReplyTooLong "smtp.max_reply_line_len_exceeded" Smtp;
    /// A command that is too long.
    FtpCommandTooLong "ftp.request_command_too_long" Ftp;
    /// A reply that is too long.
    FtpReplyTooLong "ftp.response_command_too_long" Ftp;
}

impl AppEvent {
    /// The event of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|known| known.name() == name)
    }
}

/// Events of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AppEvents(u32);

const _: () = assert!(AppEvent::ALL.len() <= u32::BITS as usize);

impl AppEvents {
    /// No event.
    pub const NONE: AppEvents = AppEvents(0);

    /// The set with this event added.
    #[must_use]
    pub const fn with(self, event: AppEvent) -> Self {
        AppEvents(self.0 | 1 << event as u8)
    }

    /// True if the event is in the set.
    pub const fn contains(self, event: AppEvent) -> bool {
        self.0 >> event as u8 & 1 == 1
    }
}

macro_rules! decode_events {
    ($($(#[$doc:meta])* $variant:ident $name:literal;)*) => {
        /// An event of a packet (`decode-event`): what is odd about its headers.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum DecodeEvent {
            $($(#[$doc])* $variant,)*
        }

        impl DecodeEvent {
            /// All of them.
            pub const ALL: &'static [DecodeEvent] = &[$(DecodeEvent::$variant,)*];

            /// The name that rules use.
            pub fn name(self) -> &'static str {
                match self {
                    $(DecodeEvent::$variant => $name,)*
                }
            }
        }
    };
}

decode_events! {
    /// An IPv6 extension header goes beyond the packet.
    Ipv6ExtensionCut "ipv6.trunc_exthdr";
    /// A second fragment header.
    Ipv6SecondFragmentHeader "ipv6.exthdr_dupl_fh";
    /// A fragment header on a packet that is whole (RFC 6946).
    Ipv6UselessFragmentHeader "ipv6.exthdr_useless_fh";
    /// A fragment before the last whose data are no multiple of eight bytes.
    Ipv6FragmentLength "ipv6.frag_invalid_length";
    /// A fragment that ends beyond the longest packet.
    Ipv6FragmentTooLarge "ipv6.frag_pkt_too_large";
}

impl DecodeEvent {
    /// The event of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|known| known.name() == name)
    }
}

/// Events of one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DecodeEvents(u32);

const _: () = assert!(DecodeEvent::ALL.len() <= u32::BITS as usize);

impl DecodeEvents {
    /// No event.
    pub const NONE: DecodeEvents = DecodeEvents(0);

    /// The set with this event added.
    #[must_use]
    pub const fn with(self, event: DecodeEvent) -> Self {
        DecodeEvents(self.0 | 1 << event as u8)
    }

    /// True if the event is in the set.
    pub const fn contains(self, event: DecodeEvent) -> bool {
        self.0 >> event as u8 & 1 == 1
    }
}

/// Reads the value of `app-layer-event`.
pub(crate) fn parse_app_event(text: &str, value: Span) -> Result<AppEvent, Fault> {
    let name = value.of(text).trim();
    AppEvent::named(name).ok_or_else(|| Fault::new(value, format!("unknown event `{name}`")))
}

/// Reads the value of `decode-event`.
pub(crate) fn parse_decode_event(text: &str, value: Span) -> Result<DecodeEvent, Fault> {
    let name = value.of(text).trim();
    DecodeEvent::named(name).ok_or_else(|| Fault::new(value, format!("unknown event `{name}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_their_protocols() {
        for &event in AppEvent::ALL {
            assert_eq!(AppEvent::named(event.name()), Some(event));
            let protocol = event.name().split('.').next();
            assert_eq!(protocol, Some(event.protocol().name()));
            let set = AppEvents::NONE.with(event);
            let others = AppEvent::ALL.iter().filter(|&&other| other != event);
            assert!(set.contains(event) && !others.into_iter().any(|&other| set.contains(other)));
        }
    }
}
