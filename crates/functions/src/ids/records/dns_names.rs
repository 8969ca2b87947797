//! Names of types of records and of response codes.

use weir_nf::Event;

/// Types of DNS records (IANA's registry, as far as they are common).
const TYPES: &[(i64, &str)] = &[
    (1, "A"),
    (2, "NS"),
    (5, "CNAME"),
    (6, "SOA"),
    (10, "NULL"),
    (12, "PTR"),
    (13, "HINFO"),
    (15, "MX"),
    (16, "TXT"),
    (17, "RP"),
    (28, "AAAA"),
    (29, "LOC"),
    (33, "SRV"),
    (35, "NAPTR"),
    (39, "DNAME"),
    (41, "OPT"),
    (43, "DS"),
    (44, "SSHFP"),
    (46, "RRSIG"),
    (47, "NSEC"),
    (48, "DNSKEY"),
    (50, "NSEC3"),
    (52, "TLSA"),
    (64, "SVCB"),
    (65, "HTTPS"),
    (99, "SPF"),
    (251, "IXFR"),
    (252, "AXFR"),
    (255, "ANY"),
    (257, "CAA"),
];
/// Response codes of DNS (RFC 6895 section 2.3), by number.
const CODES: [&str; 11] = [
    "NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET",
    "NXRRSET", "NOTAUTH", "NOTZONE",
];

/// The name of a type of records.
pub(super) fn name_of_type(kind: i64) -> Option<&'static str> {
    let place = TYPES.binary_search_by_key(&kind, |&(number, _)| number);
    TYPES.get(place.ok()?).map(|(_, name)| *name)
}

/// The type of a record, by name or by number.
pub(super) fn write_type(event: &mut Event<'_>, kind: i64) {
    match name_of_type(kind) {
        Some(name) => event.text("rrtype", name),
        None => event.display("rrtype", kind),
    };
}

/// A response code, by name or by number.
pub(super) fn write_code(event: &mut Event<'_>, code: u64) {
    match CODES.get(code as usize) {
        Some(name) => event.text("rcode", name),
        None => event.display("rcode", code),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_in_order_for_the_search() {
        assert!(TYPES.is_sorted_by_key(|&(number, _)| number));
    }
}
