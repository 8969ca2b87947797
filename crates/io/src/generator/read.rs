//! The generator's settings, read from text.

use super::headers::MIN_FRAME;
use super::spec::{Family, GeneratorSpec, Life, Payload, Popularity, Protocol, SpecError};
use super::tuples::Tuples;
use super::values::{
    Range, Sizes, Weighted, decimal, duration, hosts4, hosts6, number, number_within, range,
    weighted, yes_no,
};

/// A jumbo frame, without its check sequence.
const MAX_FRAME: u32 = 9_216;
/// Most flows where each takes memory.
const MAX_FLOWS_IN_MEMORY: u32 = 1 << 26;

/// Each key and what it may be, as errors say it.
pub(super) const KEYS: [(&str, &str); 22] = [
    ("flows", "a number from 1 to 4294967294"),
    ("packets", "a number, such as 10k or 1M"),
    ("duration", "a time such as 10s, 1.5s, 500ms or 2m"),
    (
        "size",
        "bytes from 60 to 9216, `min-max`, `imix`, or a list such as 64:7/594:4/1514:1",
    ),
    ("rate", "packets per second, from 1"),
    (
        "proto",
        "tcp, udp, icmp, mix, or a list such as tcp:80/udp:15/icmp:5",
    ),
    ("ip", "4, 6, mix, or a list such as 4:80/6:20"),
    (
        "popularity",
        "uniform, sequential, or zipf:S with S from 0 to 10, such as zipf:1.1",
    ),
    ("life", "none or tcp"),
    ("payload", "zero, random, text or http"),
    ("both", "yes or no"),
    ("src", "an IPv4 prefix such as 10.0.0.0/16"),
    ("dst", "an IPv4 prefix such as 198.18.0.0/16"),
    ("src6", "an IPv6 prefix such as fd00:1::/64"),
    ("dst6", "an IPv6 prefix such as fd00:2::/64"),
    ("sport", "a port from 1 to 65535, or `min-max`"),
    ("dport", "a port from 1 to 65535, or `min-max`"),
    ("vlan", "a VLAN id from 1 to 4094"),
    ("requests", "a number from 1 to 250, or `min-max`"),
    ("response", "bytes from 1 to 16M, or `min-max`"),
    ("seed", "a number"),
    (
        "start",
        "seconds since 1970, up to 18446744072, with up to nine decimals",
    ),
];

/// The settings as written, each with its value and position.
struct Settings<'a> {
    found: Vec<(&'a str, &'a str, usize)>,
}

impl<'a> Settings<'a> {
    fn split(text: &'a str) -> Result<Self, SpecError> {
        let mut found: Vec<(&str, &str, usize)> = Vec::new();
        let mut position = 1;
        for item in text.split(',') {
            let blank = item.chars().take_while(|c| c.is_whitespace()).count();
            let at = position + blank;
            position += item.chars().count() + 1;
            let item = item.trim();
            if item.is_empty() && text.trim().is_empty() {
                continue;
            }
            let error = |value: Option<&str>, allowed: String| SpecError {
                key: item.split('=').next().unwrap_or_default().to_owned(),
                value: value.map(str::to_owned),
                position: at,
                allowed,
            };
            let (key, value) = match item.split_once('=') {
                Some((key, value)) => (key.trim(), value.trim()),
                None => return Err(error(None, "key=value".to_owned())),
            };
            if !KEYS.iter().any(|known| known.0 == key) {
                let keys: Vec<&str> = KEYS.iter().map(|known| known.0).collect();
                let allowed = format!("one of the keys {}", keys.join(", "));
                return Err(error(Some(value), allowed));
            }
            if found.iter().any(|earlier| earlier.0 == key) {
                let allowed = format!("`{key}` only once");
                return Err(error(Some(value), allowed));
            }
            found.push((key, value, at));
        }
        Ok(Self { found })
    }

    /// The value of `key`, or `default` where it is not set.
    fn get<T>(
        &self,
        key: &str,
        default: T,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, SpecError> {
        match self.find(key) {
            None => Ok(default),
            Some((_, value, _)) => parse(value).ok_or_else(|| {
                let known = KEYS.iter().find(|known| known.0 == key);
                self.error(key, known.map_or(String::new(), |known| known.1.to_owned()))
            }),
        }
    }

    fn find(&self, key: &str) -> Option<(&'a str, &'a str, usize)> {
        self.found.iter().find(|found| found.0 == key).copied()
    }

    fn error(&self, key: &str, allowed: String) -> SpecError {
        let found = self.find(key);
        SpecError {
            key: key.to_owned(),
            value: found.map(|found| found.1.to_owned()),
            position: found.map_or(1, |found| found.2),
            allowed,
        }
    }
}

fn one_or_mix<T: Copy>(
    text: &str,
    mix: &[(T, u32)],
    choice: impl Fn(&str) -> Option<T>,
) -> Option<Weighted<T>> {
    if text == "mix" {
        Weighted::new(mix)
    } else {
        weighted(text, choice)
    }
}

fn protocols(text: &str) -> Option<Weighted<Protocol>> {
    let mix = [
        (Protocol::Tcp, 80),
        (Protocol::Udp, 15),
        (Protocol::Icmp, 5),
    ];
    one_or_mix(text, &mix, |name| match name {
        "tcp" => Some(Protocol::Tcp),
        "udp" => Some(Protocol::Udp),
        "icmp" => Some(Protocol::Icmp),
        _ => None,
    })
}

fn families(text: &str) -> Option<Weighted<Family>> {
    let mix = [(Family::V4, 1), (Family::V6, 1)];
    one_or_mix(text, &mix, |name| match name {
        "4" => Some(Family::V4),
        "6" => Some(Family::V6),
        _ => None,
    })
}

fn sizes(text: &str) -> Option<Sizes> {
    let size = |text: &str| number_within(text, MIN_FRAME as u32, MAX_FRAME);
    if text == "imix" {
        return Weighted::new(&[(60, 7), (590, 4), (1_514, 1)]).map(Sizes::Weighted);
    }
    if text.contains([':', '/']) {
        return weighted(text, size).map(Sizes::Weighted);
    }
    let range = range(text, MIN_FRAME as u32, MAX_FRAME)?;
    Some(if range.low == range.high {
        Sizes::Fixed(range.low)
    } else {
        Sizes::Between(range)
    })
}

fn popularity(text: &str) -> Option<Popularity> {
    match text {
        "uniform" => Some(Popularity::Uniform),
        "sequential" => Some(Popularity::Sequential),
        _ => {
            let exponent = text.strip_prefix("zipf:")?.parse::<f64>().ok()?;
            (0.0..=10.0)
                .contains(&exponent)
                .then_some(Popularity::Zipf(exponent))
        }
    }
}

const CLIENT_PORTS: Range = Range {
    low: 1_024,
    high: 65_535,
};
const RESPONSE_BYTES: Range = Range {
    low: 200,
    high: 20_000,
};

fn life(text: &str) -> Option<Life> {
    match text {
        "none" => Some(Life::None),
        "tcp" => Some(Life::Tcp),
        _ => None,
    }
}

fn payload(text: &str) -> Option<Payload> {
    match text {
        "zero" => Some(Payload::Zero),
        "random" => Some(Payload::Random),
        "text" => Some(Payload::Text),
        "http" => Some(Payload::Http),
        _ => None,
    }
}

impl GeneratorSpec {
    /// Reads settings written `key=value,key=value`; the empty text means all defaults.
    ///
    /// # Errors
    ///
    /// A [`SpecError`] for an unknown or repeated key, a value that is not allowed, more flows
    /// than the addresses and ports can tell apart, or inside and outside prefixes that overlap.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let settings = Settings::split(text)?;
        let life = settings.get("life", Life::None, life)?;
        let payload = settings.get("payload", Payload::Zero, payload)?;
        let alive = life == Life::Tcp;
        let tcp = alive || payload == Payload::Http;
        let protocol = if tcp { Protocol::Tcp } else { Protocol::Udp };
        let wrong_default = |key| settings.error(key, "another default".to_owned());
        let default_protocols =
            Weighted::new(&[(protocol, 1)]).ok_or_else(|| wrong_default("proto"))?;
        let default_families =
            Weighted::new(&[(Family::V4, 1)]).ok_or_else(|| wrong_default("ip"))?;
        let prefix4 = |key, default| {
            let default = hosts4(default).ok_or_else(|| wrong_default(key));
            settings.get(key, default?, hosts4)
        };
        let prefix6 = |key, default| {
            let default = hosts6(default).ok_or_else(|| wrong_default(key));
            settings.get(key, default?, hosts6)
        };
        let port = |text: &str| range(text, 1, 65_535);
        let duration_ns = settings.get("duration", None, |text| duration(text).map(Some))?;
        let spec = Self {
            flows: settings.get("flows", 1_000, |text| number_within(text, 1, u32::MAX - 1))?,
            packets: settings.get(
                "packets",
                duration_ns.is_none().then_some(1_000_000),
                |text| number(text).map(Some),
            )?,
            duration_ns,
            sizes: settings.get("size", Sizes::Fixed(if alive { 1_514 } else { 64 }), sizes)?,
            rate: settings.get("rate", 1_000_000, |text| {
                number(text).filter(|rate| (1..=u64::MAX / 2).contains(rate))
            })?,
            protocols: settings.get("proto", default_protocols, protocols)?,
            families: settings.get("ip", default_families, families)?,
            popularity: settings.get("popularity", Popularity::Uniform, popularity)?,
            life,
            payload,
            both: settings.get("both", alive, yes_no)?,
            src: prefix4("src", "10.0.0.0/16")?,
            dst: prefix4("dst", "198.18.0.0/16")?,
            src6: prefix6("src6", "fd00:1::/64")?,
            dst6: prefix6("dst6", "fd00:2::/64")?,
            sports: settings.get("sport", CLIENT_PORTS, port)?,
            dports: settings.get("dport", None, |text| port(text).map(Some))?,
            vlan: settings.get("vlan", None, |text| {
                number_within(text, 1, 4_094).map(|id| Some(id as u16))
            })?,
            requests: settings.get("requests", Range { low: 1, high: 4 }, |text| {
                range(text, 1, 250)
            })?,
            response: settings.get("response", RESPONSE_BYTES, |text| {
                range(text, 1, 16_000_000)
            })?,
            seed: settings.get("seed", 1, number)?,
            start_ns: settings.get("start", 1_767_225_600_000_000_000, |text| {
                let last = u64::MAX / 1_000_000_000 * 1_000_000_000;
                decimal(text, 1_000_000_000).filter(|start| *start < last)
            })?,
        };
        spec.fits(&settings)?;
        Ok(spec)
    }

    /// Settings that are right each by itself must also go together.
    fn fits(&self, settings: &Settings<'_>) -> Result<(), SpecError> {
        // A flow from a to b and one from b to a would be one.
        let shared = self.src.length.min(self.dst.length);
        let differ = self.src.network ^ self.dst.network;
        if differ.leading_zeros() >= u32::from(shared) {
            let key = if settings.find("dst").is_some() {
                "dst"
            } else {
                "src"
            };
            let allowed = "inside and outside prefixes that don't overlap".to_owned();
            return Err(settings.error(key, allowed));
        }
        let shared = self.src6.length.min(self.dst6.length);
        let differ = self.src6.network ^ self.dst6.network;
        if differ.leading_zeros() >= u32::from(shared) {
            let key = if settings.find("dst6").is_some() {
                "dst6"
            } else {
                "src6"
            };
            let allowed = "inside and outside prefixes that don't overlap".to_owned();
            return Err(settings.error(key, allowed));
        }
        let possible = Tuples::new(self).capacity();
        if self.flows > possible {
            let allowed = format!(
                "at most {possible}, the flows that these prefixes and ports can tell apart"
            );
            return Err(settings.error("flows", allowed));
        }
        let in_memory = self.life == Life::Tcp || matches!(self.popularity, Popularity::Zipf(_));
        if in_memory && self.flows > MAX_FLOWS_IN_MEMORY {
            let allowed = format!("at most {MAX_FLOWS_IN_MEMORY} with life=tcp or popularity=zipf");
            return Err(settings.error("flows", allowed));
        }
        Ok(())
    }
}
