//! Settings under which stock functions have something to do.

use weir_functions::{ids::Ids, load_balancer::LoadBalancer, nat44::Nat44};
use weir_nf::NetworkFunction;
use weir_nf::host::Settings;

pub(crate) fn typed<N: NetworkFunction>(settings: serde_json::Value) -> Settings
where
    N::Settings: Send,
{
    let settings: N::Settings = serde_json::from_value(settings).expect("the settings can be read");
    Box::new(settings)
}

/// Settings of the functions that can't do without.
pub(crate) fn needed(name: &str) -> Option<Settings> {
    match name {
        "nat44" => Some(typed::<Nat44>(serde_json::json!({
            "pool": "198.18.0.0/30",
            // Nearly everyone, so that nearly everything is translated.
            "inside": "0.0.0.0/1,128.0.0.0/2,192.0.0.0/6,196.0.0.0/7"
        }))),
        // Rules for all groups, some of which match nearly everywhere.
        "ids" => Some(typed::<Ids>(serde_json::json!({
            "midstream": true,
            "rules": "alert tcp any any -> any any (content:\"HTTP/1\"; sid:1;)\n\
                alert tcp any any -> any any (content:\"a\"; content:\"e\"; distance:1; sid:2;)\n\
                alert tcp any any -> any any (content:!\"Host\"; content:\"GET \"; sid:3;)\n\
                alert tcp any any -> any any (content:\"zqzq\"; flowbits:set,a; sid:4;)\n\
                alert udp any any -> any any (content:\"|00 01|\"; sid:5;)\n\
                alert ip any any -> any any (ttl:>1; sid:6;)\n"
        }))),
        "load-balancer" => Some(typed::<LoadBalancer>(serde_json::json!({
            "services": [{
                "vip": "10.0.0.1,192.168.1.1,192.168.0.1,198.189.255.75,10.0.2.2",
                "backends": [{ "address": "198.18.1.1" }, { "address": "198.18.1.2" }]
            }]
        }))),
        _ => None,
    }
}

/// Settings that make a function do all that it can do, beside those of [`needed`] or its
/// defaults.
pub(crate) fn busy(name: &str) -> Vec<Settings> {
    use serde_json::json;
    use weir_functions as f;
    match name {
        "classifier" => vec![typed::<f::classifier::Classifier>(json!({
            "classes": [
                {"protocol": "tcp", "to-port": 80}, {"from": "10.0.0.0/8"}, {"vlan": "1-4095"},
                {"dscp": "1-63"}, {"network": "ipv6"}, {"network": "other"}
            ]
        }))],
        "filter" => vec![typed::<f::filter::Filter>(json!({
            "drop": [{"to-port": "53"}],
            "classes": [{"protocol": "udp"}, {"network": "ipv6"}],
            "accept": [{"to-port": 80}],
            "otherwise": "drop"
        }))],
        "firewall" => vec![
            typed::<f::firewall::Firewall>(json!({
                "default": "reject", "log-default": true, "midstream": "drop", "non-ip": "drop",
                "rules": ["accept tcp from any to any port 80", "drop udp from any to any port 53"]
            })),
            typed::<f::firewall::Firewall>(json!({"default": "drop", "log-default": true})),
        ],
        "ids" => vec![typed::<f::ids::Ids>(json!({
            "midstream": true, "action": "rule",
            "rules": "drop tcp any any -> any any (content:\"HTTP/1\"; sid:1;)\n"
        }))],
        "ip-check" => vec![typed::<f::ip_check::IpCheck>(json!({
            "martians": true, "transport": true
        }))],
        "monitor" => vec![typed::<f::monitor::Monitor>(json!({"active-timeout": 1}))],
        "payload-compressor" => vec![typed::<f::compression::PayloadCompressor>(json!({
            "smallest": 0, "largest": 65_535
        }))],
        "policer" => ["drop", "mark", "label"]
            .map(|action| {
                typed::<f::policer::Policer>(json!({
                    "rate": "1000bit", "burst": "500B", "action": action, "dscp": 8
                }))
            })
            .into(),
        "syn-guard" => vec![typed::<f::syn_guard::SynGuard>(json!({
            "max-half-open": 2, "log": true
        }))],
        "ttl" => vec![typed::<f::ttl::Ttl>(json!({
            "icmp": true, "address": "192.0.2.1", "address6": "2001:db8::1"
        }))],
        "udp-whitelist" => vec![typed::<f::udp_whitelist::UdpWhitelist>(json!({
            "learn": [{"port": 80}], "log": true
        }))],
        "url-validator" => vec![typed::<f::url_validator::UrlValidator>(json!({
            "action": "drop", "patterns": ["."]
        }))],
        _ => vec![],
    }
}
