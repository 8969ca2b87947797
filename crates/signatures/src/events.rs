//! Events: anomalies of packets and messages, which rules name.

use crate::app_protocol::AppProtocol;
use crate::error::{Fault, Span};

macro_rules! events {
    (
        $(#[$event_doc:meta])* $event:ident,
        $(#[$set_doc:meta])* $set:ident {
            $($(#[$doc:meta])* $variant:ident $name:literal;)*
        }
    ) => {
        $(#[$event_doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum $event {
            $($(#[$doc])* $variant,)*
        }

        impl $event {
            /// All of them.
            pub const ALL: &'static [$event] = &[$($event::$variant,)*];

            /// The name that rules use.
            pub fn name(self) -> &'static str {
                match self {
                    $($event::$variant => $name,)*
                }
            }

            /// The event of a name.
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|known| known.name() == name)
            }
        }

        $(#[$set_doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $set(u32);

        const _: () = assert!($event::ALL.len() <= u32::BITS as usize);

        impl $set {
            /// No event.
            pub const NONE: $set = $set(0);

            /// The set with this event added.
            #[must_use]
            pub const fn with(self, event: $event) -> Self {
                $set(self.0 | 1 << event as u8)
            }

            /// The events of both sets.
            pub const fn and(self, other: $set) -> $set {
                $set(self.0 | other.0)
            }

            /// The events in the set.
            pub fn iter(self) -> impl Iterator<Item = $event> {
                $event::ALL.iter().copied().filter(move |event| self.contains(*event))
            }

            /// True if the event is in the set.
            pub const fn contains(self, event: $event) -> bool {
                self.0 >> event as u8 & 1 == 1
            }
        }
    };
}

events! {
    /// An anomaly of a message (`app-layer-event`).
    AppEvent,
    /// Anomalies of one message.
    AppEvents {
        /// A line of a request's head without a colon.
        HttpRequestColon "http.request_field_missing_colon";
        /// A line of a response's head without a colon.
        HttpResponseColon "http.response_field_missing_colon";
        /// A request's `Content-Length` that is no number.
        HttpRequestLength "http.invalid_content_length_field_in_request";
        /// A response's `Content-Length` that is no number.
        HttpResponseLength "http.invalid_content_length_field_in_response";
        /// A request with two `Content-Length`.
        HttpRequestLengthTwice "http.duplicate_content_length_field_in_request";
        /// A response with two `Content-Length`.
        HttpResponseLengthTwice "http.duplicate_content_length_field_in_response";
        /// A request of HTTP/1.1 without `Host`.
        HttpHostMissing "http.missing_host_header";
        /// A request with two `Host`, or with one that is not that of its target.
        HttpHostAmbiguous "http.host_header_ambiguous";
        /// An `Authorization` other than Basic, Digest and Bearer.
        HttpAuthorizationUnknown "http.request_auth_unrecognized";
        /// A target with a byte that is percent encoded twice.
        HttpEncodedTwice "http.double_encoded_uri";
        /// The reserved Z bit is set.
        DnsZFlagSet "dns.z_flag_set";
        /// A message that could not be read to its end.
        DnsMalformed "dns.malformed_data";
        /// A query where a response is due.
        DnsNotResponse "dns.not_a_response";
        /// A response where a query is due.
        DnsNotRequest "dns.not_a_request";
        /// A record that is none.
        TlsInvalidRecord "tls.invalid_record_type";
        /// A handshake message that could not be read.
        TlsInvalidHandshake "tls.invalid_handshake_message";
        /// A certificate that could not be read.
        TlsInvalidCertificate "tls.invalid_certificate";
        /// A banner that is none.
        SshInvalidBanner "ssh.invalid_banner";
        /// A banner that is too long.
        SshLongBanner "ssh.long_banner";
        /// A command line that is too long.
        SmtpCommandTooLong "smtp.max_command_line_len_exceeded";
        /// A reply that is too long.
        SmtpReplyTooLong "smtp.max_reply_line_len_exceeded";
        /// A command that is too long.
        FtpCommandTooLong "ftp.request_command_too_long";
        /// A reply that is too long.
        FtpReplyTooLong "ftp.response_command_too_long";
    }
}

impl AppEvent {
    /// The protocol of the messages that may have it.
    pub fn protocol(self) -> AppProtocol {
        match self {
            AppEvent::HttpRequestColon
            | AppEvent::HttpResponseColon
            | AppEvent::HttpRequestLength
            | AppEvent::HttpResponseLength
            | AppEvent::HttpRequestLengthTwice
            | AppEvent::HttpResponseLengthTwice
            | AppEvent::HttpHostMissing
            | AppEvent::HttpHostAmbiguous
            | AppEvent::HttpAuthorizationUnknown
            | AppEvent::HttpEncodedTwice => AppProtocol::Http,
            AppEvent::DnsZFlagSet
            | AppEvent::DnsMalformed
            | AppEvent::DnsNotResponse
            | AppEvent::DnsNotRequest => AppProtocol::Dns,
            AppEvent::TlsInvalidRecord
            | AppEvent::TlsInvalidHandshake
            | AppEvent::TlsInvalidCertificate => AppProtocol::Tls,
            AppEvent::SshInvalidBanner | AppEvent::SshLongBanner => AppProtocol::Ssh,
            AppEvent::SmtpCommandTooLong | AppEvent::SmtpReplyTooLong => AppProtocol::Smtp,
            AppEvent::FtpCommandTooLong | AppEvent::FtpReplyTooLong => AppProtocol::Ftp,
        }
    }
}

events! {
    /// An anomaly of a packet's headers (`decode-event`).
    DecodeEvent,
    /// Anomalies of one packet.
    DecodeEvents {
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
        /// A fragment that overlaps with an earlier one of its packet and flow.
        Ipv6FragmentOverlap "ipv6.frag_overlap";
        /// The same of IPv4.
        Ipv4FragmentOverlap "ipv4.frag_overlap";
        /// A hop-by-hop option that is not known.
        Ipv6UnknownHopOption "ipv6.hopopts_unknown_opt";
        /// A header of hop-by-hop options with nothing but padding.
        Ipv6HopPadding "ipv6.hopopts_only_padding";
        /// A destination option that is not known.
        Ipv6UnknownDestinationOption "ipv6.dstopts_unknown_opt";
        /// A header of destination options with nothing but padding.
        Ipv6DestinationPadding "ipv6.dstopts_only_padding";
        /// The length in a UDP header is smaller than the header, or larger than what IP carries.
        UdpLengthInvalid "udp.len_invalid";
    }
}

events! {
    /// An anomaly of a TCP segment in its connection (`stream-event`).
    StreamEvent,
    /// Anomalies of one segment.
    StreamEvents {
        /// A timestamp older than the last one of its direction (RFC 7323 section 5).
        InvalidTimestamp "pkt_invalid_timestamp";
    }
}

/// Reads the value of `stream-event`.
pub(crate) fn parse_stream_event(text: &str, value: Span) -> Result<StreamEvent, Fault> {
    let name = value.of(text).trim();
    StreamEvent::named(name).ok_or_else(|| Fault::new(value, format!("unknown event `{name}`")))
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
