//! Thresholds: how many matches of a rule are reported.

use std::net::IpAddr;

use crate::error::{Fault, Span};
use crate::raw_option::RawOption;

/// Which matches of a window of time are reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThresholdKind {
    /// The first `count` (`type limit`).
    Limit,
    /// Each `count`-th (`type threshold`).
    Threshold,
    /// The `count`-th alone (`type both`).
    Both,
    /// All behind the first `count` (`detection_filter`).
    DetectionFilter,
}

/// The key by which matches are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Track {
    /// The packet's source (`by_src`).
    Source,
    /// The packet's destination (`by_dst`).
    Destination,
    /// Both, in this order (`by_both`).
    Both,
    /// The rule alone (`by_rule`).
    Rule,
    /// The flow (`by_flow`).
    Flow,
}

/// The `threshold` or `detection_filter` of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threshold {
    /// Which matches are reported.
    pub kind: ThresholdKind,
    /// The key by which they are counted.
    pub track: Track,
    /// At least 1.
    pub count: u32,
    /// Length of a window, which begins with a match; at least 1.
    pub seconds: u32,
}

impl Threshold {
    /// True where a match counts only after others, which may be of other flows.
    pub fn awaits_others(&self) -> bool {
        self.kind != ThresholdKind::Limit
    }
}

impl Track {
    /// `by_src` and the others.
    pub(crate) fn named(word: &str) -> Option<Track> {
        Some(match word {
            "by_src" => Track::Source,
            "by_dst" => Track::Destination,
            "by_both" => Track::Both,
            "by_rule" => Track::Rule,
            "by_flow" => Track::Flow,
            _ => return None,
        })
    }

    /// The addresses in the key of a match between these; a rule's or a flow's has none.
    pub fn addresses(self, source: IpAddr, destination: IpAddr) -> [Option<IpAddr>; 2] {
        match self {
            Track::Source => [Some(source), None],
            Track::Destination => [Some(destination), None],
            Track::Both => [Some(source), Some(destination)],
            Track::Rule | Track::Flow => [None, None],
        }
    }
}

/// Reads `type limit, track by_src, count 1, seconds 60` in any order; a `detection_filter` has no type.
pub(crate) fn parse_option(text: &str, option: &RawOption) -> Result<Threshold, Fault> {
    let is_filter = option.keyword == "detection_filter";
    let mut fields = Fields::default();
    for part in parts(text, option.value) {
        fields.take(text, part, !is_filter)?;
    }
    if is_filter {
        fields.kind = Some(ThresholdKind::DetectionFilter);
    }
    fields.finish(option.name, &option.keyword)
}

/// The parts of a list that commas separate.
pub(crate) fn parts(text: &str, span: Span) -> impl Iterator<Item = Span> + '_ {
    let mut start = span.start;
    span.of(text).split(',').map(move |part| {
        let here = Span::new(start, start + part.len());
        start += part.len() + 1;
        here.trim(text)
    })
}

/// The fields of a threshold as they are read.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    pub(crate) kind: Option<ThresholdKind>,
    track: Option<Track>,
    count: Option<u32>,
    seconds: Option<u32>,
}

const HELP: &str = "write `type limit, track by_src, count 1, seconds 60`; types are limit, threshold and both, \
tracks by_src, by_dst, by_both, by_rule and by_flow; `detection_filter` has no type";

impl Fields {
    /// Reads one field, `NAME VALUE`.
    pub(crate) fn take(&mut self, text: &str, at: Span, has_type: bool) -> Result<(), Fault> {
        let written = at.of(text);
        let fault = |message: String| Fault::new(at, message).help(HELP);
        let (name, value) = written
            .split_once(char::is_whitespace)
            .map(|(name, value)| (name, value.trim()))
            .ok_or_else(|| fault(format!("`{written}` has no value")))?;
        let number = || {
            let number = value.parse().ok().filter(|&number| number > 0);
            number.ok_or_else(|| fault(format!("`{value}` is no number from 1 to {}", u32::MAX)))
        };
        let is_new = match name {
            "type" if has_type => {
                let kind = match value {
                    "limit" => ThresholdKind::Limit,
                    "threshold" => ThresholdKind::Threshold,
                    "both" => ThresholdKind::Both,
                    _ => return Err(fault(format!("unknown type `{value}`"))),
                };
                self.kind.replace(kind).is_none()
            }
            "track" => {
                let track = Track::named(value);
                let track = track.ok_or_else(|| fault(format!("unknown track `{value}`")))?;
                self.track.replace(track).is_none()
            }
            "count" => self.count.replace(number()?).is_none(),
            "seconds" => self.seconds.replace(number()?).is_none(),
            _ => return Err(fault(format!("unknown field `{name}`"))),
        };
        match is_new {
            true => Ok(()),
            false => Err(fault(format!("`{name}` is given twice"))),
        }
    }

    /// All fields must be there.
    pub(crate) fn finish(self, at: Span, keyword: &str) -> Result<Threshold, Fault> {
        let Fields {
            kind,
            track,
            count,
            seconds,
        } = self;
        let missing = match (kind, track, count, seconds) {
            (Some(kind), Some(track), Some(count), Some(seconds)) => {
                return Ok(Threshold {
                    kind,
                    track,
                    count,
                    seconds,
                });
            }
            (None, ..) => "type",
            (_, None, ..) => "track",
            (_, _, None, _) => "count",
            (_, _, _, None) => "seconds",
        };
        Err(Fault::new(at, format!("`{keyword}` has no `{missing}`")).help(HELP))
    }
}
