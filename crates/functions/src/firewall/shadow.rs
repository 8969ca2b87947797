//! Rules that decide nothing: those that no packet meets, and those whose
//! packets all meet an earlier rule.

use weir_nf::SettingsError;

use super::table::Compiled;

/// More rules are not compared with each other: each pair costs time.
const MOST: usize = 4_096;

/// Warnings about rules that decide nothing.
pub(super) fn warnings(rules: &[Compiled]) -> Vec<SettingsError> {
    let mut found = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        let at = |message: String| SettingsError::new(format!("rules[{index}]"), message);
        if let Some(why) = rule.contradiction() {
            found.push(at(format!("no packet meets this rule: {why}")).help("leave the rule out"));
            continue;
        }
        if index < MOST
            && let Some(number) = rules
                .iter()
                .take(index)
                .position(|first| first.covers(rule))
            && let Some(first) = rules.get(number)
        {
            let message = match first.action == rule.action {
                true => format!(
                    "this rule decides nothing: `{}` (rules[{number}]) takes all its packets, \
                     with the same action",
                    first.name
                ),
                false => format!(
                    "this rule decides nothing: `{}` (rules[{number}]) takes all its packets",
                    first.name
                ),
            };
            found.push(at(message).help("put it before that rule, or leave it out"));
        }
    }
    found.extend(duplicate_names(rules));
    found
}

fn duplicate_names(rules: &[Compiled]) -> Vec<SettingsError> {
    let mut names = std::collections::BTreeMap::new();
    let mut found = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        let first = *names.entry(rule.name.as_str()).or_insert(index);
        if first != index {
            let message = format!(
                "rules[{first}] is named `{}` as well: events and counts don't tell them apart",
                rule.name
            );
            found.push(SettingsError::new(format!("rules[{index}]"), message).help("rename one"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::rule::Rule;
    use super::*;

    /// The warnings about rules as texts: number of the rule, and message.
    fn warned(texts: &[&str]) -> Vec<(String, String)> {
        let rules: Vec<Compiled> = texts
            .iter()
            .enumerate()
            .map(|(index, text)| Compiled::new(index, &Rule::parse(text).unwrap()).unwrap())
            .collect();
        let found = warnings(&rules).into_iter();
        found
            .map(|warning| (warning.path, warning.message))
            .collect()
    }

    #[test]
    fn a_rule_behind_one_that_takes_all_its_packets_is_told() {
        for (first, second) in [
            ("drop from any", "accept tcp to any port 80"),
            (
                "accept tcp from 10.0.0.0/8",
                "drop tcp from 10.1.0.0/16 to any port 22",
            ),
            (
                "accept udp to any port 1-100",
                "drop udp to any port 50-60,80",
            ),
            ("accept tcp to any port not 80", "drop tcp to any port 443"),
            (
                "accept tcp to any port not 80",
                "drop tcp to any port not 70-90",
            ),
            ("accept from not 10.0.0.0/8", "drop from 192.0.2.0/24"),
            ("accept from not 10.1.0.0/16", "drop from not 10.0.0.0/8"),
            ("accept tcp", "drop tcp flags syn"),
            ("drop tcp flags syn", "accept tcp flags syn,!ack"),
            ("drop ethertype arp", "accept ethertype arp vlan 5"),
            ("accept", "drop ethertype ipv4"),
        ] {
            let found = warned(&[first, second]);
            assert_eq!(found.len(), 1, "{first}; {second}: {found:?}");
            assert_eq!(found[0].0, "rules[1]");
            assert!(found[0].1.contains("decides nothing"), "{found:?}");
        }
    }

    #[test]
    fn a_rule_with_packets_of_its_own_is_not_told() {
        for (first, second) in [
            ("accept tcp to any port 80", "drop"),
            ("accept tcp from 10.1.0.0/16", "drop tcp from 10.0.0.0/8"),
            ("accept in tcp", "drop tcp"),
            ("accept out tcp", "drop in tcp"),
            (
                "accept tcp to any port 1-100",
                "drop tcp to any port 50-150",
            ),
            ("accept tcp", "accept tcp,udp"),
            ("accept", "drop tcp state invalid"),
            ("accept", "drop ethertype arp"),
            ("accept tcp flags syn", "drop tcp flags ack"),
            ("accept from not 10.0.0.0/8", "drop from 0.0.0.0/0"),
            ("accept vlan 5", "drop vlan 6"),
        ] {
            assert_eq!(warned(&[first, second]), [], "{first}; {second}");
        }
    }

    #[test]
    fn a_rule_that_no_packet_meets_is_told() {
        for text in [
            "accept from 10.0.0.0/8 to 2001:db8::/32",
            "drop tcp to any port not 0-65535",
            "drop from 10.0.0.0/8 ethertype arp",
            "drop from 10.0.0.0/8 ethertype ipv6",
        ] {
            let found = warned(&[text]);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(
                found[0].1.contains("no packet meets this rule"),
                "{found:?}"
            );
        }
    }

    #[test]
    fn names_that_are_given_twice_are_told() {
        let found = warned(&[
            "accept tcp name web",
            "accept udp name dns",
            "drop sctp name web",
        ]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, "rules[2]");
        assert!(
            found[0].1.contains("rules[0] is named `web` as well"),
            "{found:?}"
        );
    }
}
