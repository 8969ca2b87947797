//! `--tenant`: what a tenant may have.

use std::str::FromStr;

use weir_control::tenants::TenantLimits;
use weir_graph::{ComposedTenant, bit_rate, short_time};

use super::pairs::read_pairs;

/// A tenant's limits, as text: `acme:rate=100Mbit,packets=20000,burst=100ms,weight=2`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TenantBy {
    pub(crate) name: String,
    pub(crate) limits: TenantLimits,
}

impl FromStr for TenantBy {
    type Err = String;

    fn from_str(text: &str) -> Result<TenantBy, String> {
        let wanted = || format!("`{text}` is none: write `NAME:rate=100Mbit,weight=2`, say");
        let (name, settings) = text.split_once(':').ok_or_else(wanted)?;
        if name.is_empty() || settings.is_empty() {
            return Err(wanted());
        }
        let mut limits = TenantLimits::DEFAULT;
        read_pairs(settings.split(','), |key, value| {
            let number = || {
                let read = value.parse::<u64>();
                read.map_err(|_| format!("`{key}={value}` is no number"))
            };
            match key {
                "weight" => limits.weight = number()?.try_into().unwrap_or(u32::MAX),
                "packets" => limits.packets = Some(number()?),
                "rate" => limits.bytes = Some(bit_rate(value)?),
                "burst" => limits.burst = short_time(value)?,
                _ => {
                    return Err(format!(
                        "there is no `{key}`: there are rate, packets, burst, weight"
                    ));
                }
            }
            Ok(())
        })?;
        limits.check().map_err(|why| why.to_string())?;
        Ok(TenantBy {
            name: name.to_owned(),
            limits,
        })
    }
}

impl TryFrom<&ComposedTenant> for TenantBy {
    type Error = String;

    fn try_from(by: &ComposedTenant) -> Result<TenantBy, String> {
        let usual = TenantLimits::DEFAULT;
        let limits = TenantLimits {
            weight: by.weight.unwrap_or(usual.weight),
            packets: by.packets,
            bytes: by.rate,
            burst: by
                .burst_ms
                .map_or(usual.burst, |ms| u64::from(ms) * 1_000_000),
        };
        limits.check().map_err(|why| why.to_string())?;
        Ok(TenantBy {
            name: by.name.clone(),
            limits,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_as_text_and_from_a_composition() {
        let read: TenantBy = "acme:rate=80Mbit,packets=5,burst=20ms,weight=3"
            .parse()
            .unwrap();
        assert_eq!(read.name, "acme");
        let limits = read.limits;
        assert_eq!((limits.weight, limits.burst), (3, 20_000_000));
        assert_eq!((limits.packets, limits.bytes), (Some(5), Some(10_000_000)));
        let composed = ComposedTenant {
            name: "acme".to_owned(),
            weight: Some(3),
            packets: Some(5),
            rate: Some(10_000_000),
            burst_ms: Some(20),
        };
        assert_eq!(TenantBy::try_from(&composed), Ok(read));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, part) in [
            ("acme", "write `NAME:"),
            ("acme:", "write `NAME:"),
            (":weight=1", "write `NAME:"),
            ("acme:weight", "no value"),
            ("acme:weight=1,weight=2", "twice"),
            ("acme:weight=0", "a weight is 1 to 1000"),
            ("acme:weight=99999999999", "a weight is 1 to 1000"),
            ("acme:packets=many", "no number"),
            ("acme:packets=0", "1 to 1000000000"),
            ("acme:rate=fast", "is not a rate"),
            ("acme:burst=1us", "a burst is `1ms` to `10s`"),
            ("acme:colour=red", "there are rate, packets"),
        ] {
            let why = text.parse::<TenantBy>().unwrap_err();
            assert!(why.contains(part), "{text}: {why}");
        }
    }
}
