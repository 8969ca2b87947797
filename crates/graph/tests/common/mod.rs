//! A few functions of no use but to chain files, and a load with them.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use weir_graph::{ChainFile, Diagnostic, Input, Override, load};
use weir_nf::host::Kind;
use weir_nf::prelude::*;
use weir_nf::{PoolSpec, Sources};

/// A function that passes everything.
macro_rules! function {
    ($name:ident, $settings:ty, $descriptor:expr, |$given:ident, $set_up:ident| $check:expr) => {
        pub(crate) struct $name;

        impl NetworkFunction for $name {
            type Settings = $settings;
            type State = ();
            type Stats = ();
            type FlowState = ();

            const DESCRIPTOR: Descriptor = $descriptor;

            fn new($given: $settings, $set_up: &mut SetUp<'_>) -> Result<$name, SettingsError> {
                $check?;
                Ok($name)
            }
        }
    };
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoSettings {}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Action {
    #[default]
    Accept,
    Drop,
    RateLimit(u32),
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Rule {
    pub(crate) action: Action,
    pub(crate) source: Option<String>,
    #[serde(default)]
    pub(crate) ports: Vec<u16>,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct FirewallSettings {
    pub(crate) default: Action,
    pub(crate) rules: Vec<Rule>,
    pub(crate) log_drops: bool,
}

weir_nf::labels! {
    /// Drop reasons.
    enum Reason: Counter<Packets> {
        /// The checksum of its header is wrong.
        BadChecksum = "bad_checksum",
    }
}

function!(
    IpCheck,
    NoSettings,
    Descriptor {
        needs: weir_nf::Needs::Network,
        reads: Parts::NETWORK,
        drops: Reason::TABLE,
        ..Descriptor::new("ip-check", "drops bad IP headers")
    },
    |_settings, _set_up| Ok(())
);

function!(
    Firewall,
    FirewallSettings,
    Descriptor {
        needs: weir_nf::Needs::Flow,
        reads: Parts::NETWORK.and(Parts::TRANSPORT),
        ..Descriptor::new("firewall", "ordered rules")
    },
    |settings, set_up| {
        if settings.rules.is_empty() && matches!(settings.default, Action::Accept) {
            set_up.warn("it lets everything pass");
        }
        settings
            .rules
            .iter()
            .zip(0..)
            .find(|(rule, _)| {
                let source = rule.source.as_ref();
                source.is_some_and(|source| source.parse::<std::net::IpAddr>().is_err())
            })
            .map_or(Ok(()), |(_, number)| {
                Err(
                    SettingsError::new(format!("rules[{number}].source"), "that is no address")
                        .help("write one like `10.0.0.1`"),
                )
            })
    }
);

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClassifySettings {
    pub(crate) ports: (u16, u16),
}

function!(
    Classify,
    ClassifySettings,
    Descriptor {
        needs: weir_nf::Needs::Flow,
        reads: Parts::TRANSPORT,
        labels: &["other", "late"],
        ..Descriptor::new("classify", "tells HTTP from the rest")
    },
    |_settings, _set_up| Ok(())
);

#[derive(Default, Deserialize, JsonSchema)]
pub(crate) struct LooseSettings {
    #[serde(default)]
    pub(crate) rate: f64,
}

function!(
    Monitor,
    LooseSettings,
    Descriptor {
        needs: weir_nf::Needs::Flow,
        ..Descriptor::new("monitor", "counts")
    },
    |_settings, _set_up| Ok(())
);

function!(
    Whitelist,
    NoSettings,
    Descriptor {
        needs: weir_nf::Needs::Flow,
        scope: Scope::Fields(Fields::CLIENT_ADDRESS),
        ..Descriptor::new("whitelist", "clients that may speak")
    },
    |_settings, _set_up| Ok(())
);

#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct BalancerSettings {
    pub(crate) per_connection: bool,
}

/// Keeps a state per server, or per connection where the settings say so.
pub(crate) struct Balancer {
    per_connection: bool,
}

impl NetworkFunction for Balancer {
    type Settings = BalancerSettings;
    type State = ();
    type Stats = ();
    type FlowState = ();

    const DESCRIPTOR: Descriptor = Descriptor {
        needs: weir_nf::Needs::Flow,
        scope: Scope::Fields(Fields::SERVER_ADDRESS),
        writes: Parts::NETWORK,
        ..Descriptor::new("balancer", "spreads connections")
    };

    fn new(settings: BalancerSettings, _: &mut SetUp<'_>) -> Result<Balancer, SettingsError> {
        let per_connection = settings.per_connection;
        Ok(Balancer { per_connection })
    }

    fn process(&self, _: &mut Packet<'_>, _: &mut Flow<'_, Self>, _: &mut Context<'_>) -> Verdict {
        Verdict::Pass
    }

    fn scope(&self) -> Scope {
        match self.per_connection {
            true => Scope::Flow,
            false => Self::DESCRIPTOR.scope,
        }
    }
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct IdsSettings {
    /// Text with rules.
    pub(crate) rules: Option<String>,
}

function!(
    Ids,
    IdsSettings,
    Descriptor {
        needs: weir_nf::Needs::Flow,
        ..Descriptor::new("ids", "matches rules")
    },
    |settings, set_up| match &settings.rules {
        None => Err(SettingsError::new("", "it has no rules").help("write `rules: FILE`")),
        Some(name) => set_up.text("rules", name).and_then(|text| {
            let bad = text
                .lines()
                .zip(1..)
                .find(|(line, _)| line.contains("pcre"));
            bad.map_or(Ok(()), |(line, number)| {
                let column = line.find("pcre").unwrap_or(0) + 1;
                Err(
                    SettingsError::new("rules", "the keyword `pcre` is not supported").at(
                        name.as_str(),
                        number,
                        column,
                    ),
                )
            })
        }),
    }
);

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct NatSettings {
    pub(crate) block: u16,
}

function!(
    Nat,
    NatSettings,
    Descriptor {
        needs: weir_nf::Needs::Flow,
        shares: true,
        ..Descriptor::new("nat", "one address for many")
    },
    |settings, set_up| {
        let spec = PoolSpec {
            addresses: vec![std::net::IpAddr::from([192, 0, 2, 1])],
            first: 1024,
            last: 65535,
            block: settings.block,
        };
        set_up.lease("block", spec)
    }
);

pub(crate) const KINDS: &[Kind] = &[
    Kind::of::<Balancer>(),
    Kind::of::<Classify>(),
    Kind::of::<Firewall>(),
    Kind::of::<Ids>(),
    Kind::of::<IpCheck>(),
    Kind::of::<Monitor>(),
    Kind::of::<Nat>(),
    Kind::of::<Whitelist>(),
];

pub(crate) struct Texts(pub(crate) BTreeMap<&'static str, &'static str>);

impl Sources for Texts {
    fn text(&mut self, name: &str) -> Result<String, String> {
        let text = self.0.get(name).map(|text| (*text).to_owned());
        text.ok_or_else(|| format!("{name} can't be read: no such file"))
    }
}

pub(crate) fn load_with(text: &str, overrides: &[&str]) -> Result<ChainFile, Vec<Diagnostic>> {
    let overrides: Vec<Override> = overrides.iter().map(|set| set.parse().unwrap()).collect();
    let input = Input {
        name: "edge.yaml",
        text,
        kinds: KINDS,
        overrides: &overrides,
        seed: 7,
    };
    let mut texts = Texts(BTreeMap::from([
        ("good.rules", "alert tcp\n"),
        ("bad.rules", "# one\nalert tcp pcre\n"),
    ]));
    load(&input, &mut texts)
}

pub(crate) fn read(text: &str) -> Result<ChainFile, Vec<Diagnostic>> {
    load_with(text, &[])
}
