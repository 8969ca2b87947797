//! Reputations of addresses, as `iprep` asks for them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::which::Which;
use crate::compare::Compare;
use crate::error::{Fault, RuleError};
use crate::fingerprint::Fingerprint;
use crate::raw_option::RawOption;

/// Largest score.
const MOST_SCORE: u32 = 127;
/// Largest number of a category.
const MOST_CATEGORY: u8 = 60;

/// Bits of an address that count, most first, and the version of IP.
type Length = (std::cmp::Reverse<u8>, bool);
/// A category and a score.
type Score = (u8, u8);

/// Scores of addresses and networks by category.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reputations {
    /// By short name.
    categories: BTreeMap<String, u8>,
    networks: BTreeMap<Length, BTreeMap<u128, Vec<Score>>>,
    /// Of the files that were read.
    fingerprint: Fingerprint,
}

impl Reputations {
    /// Reads a file of categories: `NUMBER,NAME,DESCRIPTION` per line, numbers up to 60.
    ///
    /// # Errors
    ///
    /// The first line that is wrong.
    pub fn add_categories(&mut self, text: &str) -> Result<(), RuleError> {
        self.fingerprint.add(text.as_bytes());
        for (number, line) in lines(text) {
            let mut parts = line.splitn(3, ',').map(str::trim);
            let (category, name) = (parts.next(), parts.next());
            let read = category.and_then(|text| text.parse().ok());
            match (read, name) {
                (Some(category @ 1..=MOST_CATEGORY), Some(name)) if !name.is_empty() => {
                    self.categories.insert(name.to_owned(), category);
                }
                _ => {
                    let why = format!(
                        "write `NUMBER,NAME,DESCRIPTION`, numbers from 1 to {MOST_CATEGORY}"
                    );
                    return Err(RuleError::of_line(number, line, why));
                }
            }
        }
        Ok(())
    }

    /// Reads a file of scores: `ADDRESS,CATEGORY,SCORE` per line, where an address may be a network and a score
    /// is 0 to 127. Of one address and category the last line counts.
    ///
    /// # Errors
    ///
    /// The first line that is wrong.
    pub fn add_scores(&mut self, text: &str) -> Result<(), RuleError> {
        self.fingerprint.add(text.as_bytes());
        for (number, line) in lines(text) {
            let parts: Vec<&str> = line.split(',').map(str::trim).collect();
            let read = || -> Option<(Length, u128, Score)> {
                let [network, category, score] = parts[..] else {
                    return None;
                };
                let (address, bits) = match network.split_once('/') {
                    Some((address, bits)) => (address, Some(bits.parse::<u8>().ok()?)),
                    None => (network, None),
                };
                let address: IpAddr = address.parse().ok()?;
                let whole = if address.is_ipv4() { 32 } else { 128 };
                let bits = bits.unwrap_or(whole);
                let category = category.parse().ok()?;
                let score: u8 = score.parse().ok()?;
                let fits = bits <= whole
                    && (1..=MOST_CATEGORY).contains(&category)
                    && u32::from(score) <= MOST_SCORE;
                let length = (std::cmp::Reverse(bits), address.is_ipv4());
                fits.then(|| (length, masked(address, bits), (category, score)))
            };
            let Some((length, address, (category, score))) = read() else {
                let why = format!(
                    "write `ADDRESS,CATEGORY,SCORE`, categories from 1 to {MOST_CATEGORY}, scores up to \
                     {MOST_SCORE}"
                );
                return Err(RuleError::of_line(number, line, why));
            };
            let scores = self
                .networks
                .entry(length)
                .or_default()
                .entry(address)
                .or_default();
            scores.retain(|(known, _)| *known != category);
            scores.push((category, score));
        }
        Ok(())
    }

    /// The score of an address in a category: that of the longest network that has one.
    pub fn score(&self, address: IpAddr, category: u8) -> Option<u8> {
        let own = self
            .networks
            .iter()
            .filter(|((_, v4), _)| *v4 == address.is_ipv4());
        own.filter_map(|((std::cmp::Reverse(bits), _), networks)| {
            networks.get(&masked(address, *bits))
        })
        .find_map(|scores| scores.iter().find(|(known, _)| *known == category))
        .map(|&(_, score)| score)
    }

    /// A number that other reputations do not have.
    pub(crate) fn fingerprint(&self) -> u64 {
        self.fingerprint.number()
    }
}

/// The first bits of an address, the others zero.
fn masked(address: IpAddr, bits: u8) -> u128 {
    let (value, whole) = match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()), 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    };
    let rest = u32::from(whole - bits);
    value.checked_shr(rest).map_or(0, |value| value << rest)
}

/// Lines that say something, counted from 1.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text
        .lines()
        .enumerate()
        .map(|(number, line)| (number + 1, line.trim()));
    numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// A condition of `iprep`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReputationTest {
    category: String,
    compare: Compare,
    /// The number of the category and the scores.
    scores: Option<Arc<Reputations>>,
    number: u8,
}

impl ReputationTest {
    pub(super) fn holds(&self, address: IpAddr) -> bool {
        let scores = self.scores.as_ref();
        let score = scores.and_then(|scores| scores.score(address, self.number));
        score.is_some_and(|score| self.compare.holds(u32::from(score)))
    }

    /// A number that other scores do not have; `None` where it has no scores.
    pub(crate) fn fingerprint(&self) -> Option<u64> {
        self.scores.as_ref().map(|scores| scores.fingerprint())
    }

    /// Takes the scores that it looks into.
    pub(crate) fn load(&mut self, scores: &Arc<Reputations>) -> Result<(), String> {
        let Some(&number) = scores.categories.get(&self.category) else {
            return Err(match scores.categories.is_empty() {
                true => {
                    "`iprep` needs files of reputations: name them in `reputation-categories` and \
                         `reputation-files`"
                        .to_owned()
                }
                false => format!("there is no category `{}` of reputations", self.category),
            });
        };
        self.number = number;
        self.scores = Some(scores.clone());
        Ok(())
    }
}

/// Reads `iprep:WHICH,CATEGORY,OPERATOR,SCORE`.
pub(crate) fn parse(text: &str, option: &RawOption) -> Result<(Which, ReputationTest), Fault> {
    let written = option.value.of(text);
    let fault = |why: &str| {
        Fault::new(option.value, format!("the value of `iprep`: {why}"))
            .help("write `iprep:src,BadHosts,>,50`; the first is any, src, dst or both")
    };
    let parts: Vec<&str> = written.split(',').map(str::trim).collect();
    let [which, category, operator, score] = parts[..] else {
        return Err(fault("it has four parts"));
    };
    let which = match which {
        "any" => Which::Any,
        "src" => Which::Source,
        "dst" => Which::Destination,
        "both" => Which::Both,
        other => return Err(fault(&format!("`{other}` names no address"))),
    };
    let compare = Compare::of_words(operator, score, MOST_SCORE);
    Ok((
        which,
        ReputationTest {
            category: category.to_owned(),
            compare: compare.map_err(|why| fault(&why))?,
            scores: None,
            number: 0,
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_network_counts() {
        let mut all = Reputations::default();
        all.add_categories("# names\n1,Bad,Bad ones\n2,CnC,\n")
            .unwrap();
        all.add_scores(
            "10.0.0.0/8,1,10\n10.1.2.3,1,100\n10.1.0.0/16,2,50\n::/0,1,5\n0.0.0.0/0,2,1\n",
        )
        .unwrap();
        let score = |address: &str, category| all.score(address.parse().unwrap(), category);
        assert_eq!(score("10.1.2.3", 1), Some(100));
        assert_eq!(score("10.1.2.3", 2), Some(50));
        assert_eq!(score("10.9.0.1", 1), Some(10));
        assert_eq!(score("192.0.2.1", 1), None);
        assert_eq!(score("192.0.2.1", 2), Some(1));
        assert_eq!(score("2001:db8::1", 1), Some(5));
        for wrong in [
            "10.0.0.1,1",
            "10.0.0.1/33,1,1",
            "10.0.0.1,0,1",
            "10.0.0.1,1,128",
            "x,1,1",
        ] {
            let error = all.add_scores(&format!("\n{wrong}\n")).unwrap_err();
            assert_eq!(error.line, 2, "{wrong}");
        }
        assert!(all.add_categories("0,x,\n").is_err() && all.add_categories("61,x,\n").is_err());
    }
}
