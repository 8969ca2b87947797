//! `--flowlets`: units are given to runtimes anew at each flowlet.

use std::str::FromStr;

use weir_graph::{ComposedFlowlets, bit_rate, short_time};
use weir_protocol::flowlets::{FlowletSettings, Packing};

use super::pairs::read_pairs;

/// The keys, for errors.
const KEYS: &str = "`gap`, `size`, `capacity`, `target`, `packing`, `alpha`, `copies` and `adapts`";

/// Settings of flowlets, as text: `gap=500us,capacity=1Gbit`; nothing for the defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowletsBy(pub(crate) FlowletSettings);

impl FromStr for FlowletsBy {
    type Err = String;

    fn from_str(text: &str) -> Result<FlowletsBy, String> {
        let mut settings = FlowletSettings::DEFAULT;
        let parts = text.split(',').filter(|_| !text.is_empty());
        read_pairs(parts, |key, value| set(&mut settings, key, value))?;
        settings.check().map_err(|why| why.to_string())?;
        Ok(FlowletsBy(settings))
    }
}

impl TryFrom<&ComposedFlowlets> for FlowletsBy {
    type Error = String;

    fn try_from(by: &ComposedFlowlets) -> Result<FlowletsBy, String> {
        let usual = FlowletSettings::DEFAULT;
        let settings = FlowletSettings {
            gap: by.gap.unwrap_or(usual.gap),
            size: by.size.unwrap_or(usual.size),
            alpha: by.alpha.unwrap_or(usual.alpha),
            copies: by.copies.unwrap_or(usual.copies),
            capacity: by.capacity.unwrap_or(usual.capacity),
            target: by.target.unwrap_or(usual.target),
            packing: match by.packing {
                Some(name) => packing(name)?,
                None => usual.packing,
            },
            adapts: by.adapts.unwrap_or(usual.adapts),
            ..usual
        };
        settings.check().map_err(|why| why.to_string())?;
        Ok(FlowletsBy(settings))
    }
}

fn packing(name: &str) -> Result<Packing, String> {
    let mut all = Packing::ALL.iter();
    let found = all.find(|(known, _)| *known == name);
    found.map(|(_, packing)| *packing).ok_or_else(|| {
        let names: Vec<&str> = Packing::ALL.iter().map(|(name, _)| *name).collect();
        format!(
            "there is no packing `{name}`: there are {}",
            names.join(", ")
        )
    })
}

fn set(settings: &mut FlowletSettings, key: &str, value: &str) -> Result<(), String> {
    let told = |why: String| format!("`{key}`: {why}");
    let number = || {
        let number = value.parse::<u32>();
        number.map_err(|_| format!("`{key}={value}`: expected a number"))
    };
    match key {
        "gap" => settings.gap = short_time(value).map_err(told)?,
        "size" => settings.size = number()?,
        "capacity" => settings.capacity = bit_rate(value).map_err(told)?,
        "target" => settings.target = number()?,
        "packing" => settings.packing = packing(value)?,
        "alpha" => settings.alpha = number()?,
        "copies" => settings.copies = u8::try_from(number()?).unwrap_or(u8::MAX),
        "adapts" => {
            let adapts = value.parse();
            settings.adapts =
                adapts.map_err(|_| format!("`{key}={value}`: expected `true` or `false`"))?;
        }
        _ => return Err(format!("there is no setting `{key}`: there are {KEYS}")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_and_nonsense_is_told() {
        let FlowletsBy(usual) = "".parse().unwrap();
        assert_eq!(usual, FlowletSettings::DEFAULT);
        let FlowletsBy(read) = "gap=2ms,size=3000,capacity=10Mbit,packing=best-fit,copies=0"
            .parse()
            .unwrap();
        assert_eq!((read.gap, read.size, read.copies), (2_000_000, 3_000, 0));
        assert_eq!((read.capacity, read.packing), (1_250_000, Packing::BestFit));
        for (text, said) in [
            ("gap", "has no value"),
            ("gap=0us", "no time at all"),
            ("gap=5m", "is not a short time"),
            ("size=many", "expected a number"),
            ("size=0", "`size` is 0"),
            ("copies=10", "`copies` is too large: write 9 at most"),
            ("copies=300", "`copies` is too large"),
            (
                "packing=tight",
                "there is no packing `tight`: there are greedy",
            ),
            ("capacity=1GB", "is not a rate"),
            ("gap=1ms,gap=1ms", "given twice"),
            ("adapts=maybe", "expected `true` or `false`"),
            ("speed=9", "there is no setting `speed`"),
        ] {
            let why = text.parse::<FlowletsBy>().unwrap_err();
            assert!(why.contains(said), "{text}: {why}");
        }
    }

    #[test]
    fn a_composition_says_the_same() {
        let by = ComposedFlowlets {
            gap: Some(1_000_000),
            packing: Some("hash"),
            ..ComposedFlowlets::default()
        };
        let FlowletsBy(read) = (&by).try_into().unwrap();
        assert_eq!("gap=1ms,packing=hash".parse(), Ok(FlowletsBy(read)));
    }
}
