//! The points of taps, by name.

use weir_api::v1;
use weir_graph::ChainFile;
use weir_packet::Side;
use weir_runtime::watch::{TapPoint, engine_drops};

/// Ports of a run, as taps name them.
#[derive(Clone, Debug)]
struct PortPlace {
    /// Name in the chain.
    name: String,
    side: Side,
    /// Numbers of the inputs behind it, as bits.
    inputs: u64,
}

impl PortPlace {
    /// The ports that chains name, with the inputs (name and side, by number)
    /// that are behind each.
    fn of(file: &ChainFile, inputs: &[(String, Side)]) -> Vec<PortPlace> {
        let mut places: Vec<PortPlace> = Vec::new();
        for port in file.chains.iter().flat_map(|chain| &chain.ports) {
            if places.iter().any(|place| place.name == port.name) {
                continue;
            }
            let behind = inputs.iter().enumerate().take(64);
            let behind = behind.filter(|(_, (name, _))| *name == port.name);
            places.push(PortPlace {
                name: port.name.clone(),
                side: port.side,
                inputs: behind.fold(0, |bits, (number, _)| bits | 1 << number),
            });
        }
        places
    }
}

/// A point with its name, and its description for readers of the capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPoint {
    /// The point.
    pub point: TapPoint,
    /// Its name, as a user writes it.
    pub name: String,
    /// The packets that pass there, in words.
    pub description: String,
}

impl NamedPoint {
    fn new(point: TapPoint, name: &str, description: String) -> NamedPoint {
        NamedPoint {
            point,
            name: name.to_owned(),
            description,
        }
    }
}

/// A stage that can't be looked into, since it is not trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unseen {
    /// Its name, for people.
    pub stage: String,
    /// Names of its functions.
    pub functions: Vec<String>,
}

impl Unseen {
    /// True where all that there is at this point is what the stage's own
    /// process says.
    pub fn has(&self, point: &TapPoint) -> bool {
        match point {
            TapPoint::In(_) | TapPoint::Out(_) | TapPoint::Drops(None) => false,
            TapPoint::Before(name) | TapPoint::After(name) => self.functions.contains(name),
            TapPoint::Drops(Some(reason)) => {
                let name = reason.split('.').next().unwrap_or(reason);
                self.functions.iter().any(|function| function == name)
            }
        }
    }
}

/// The names that taps of a run may use.
#[derive(Clone, Debug)]
pub struct Places {
    ports: Vec<PortPlace>,
    functions: Vec<String>,
    reasons: Vec<String>,
}

impl Places {
    /// Those of chains whose packets come from these inputs: name and side, by
    /// number.
    pub fn of(file: &ChainFile, inputs: &[(String, Side)]) -> Places {
        Places {
            ports: PortPlace::of(file, inputs),
            functions: functions(file).map(str::to_owned).collect(),
            reasons: reasons(file),
        }
    }

    /// The same of a run that can be asked.
    pub fn of_run(file: &ChainFile, inputs: &[v1::PortInfo]) -> Places {
        let inputs = inputs.iter().map(|port| {
            let outside = port.side == Side::Outside.name();
            let side = if outside { Side::Outside } else { Side::Inside };
            (port.name.clone(), side)
        });
        Places::of(file, &inputs.collect::<Vec<_>>())
    }

    /// The points that a text names.
    pub fn parse(&self, text: &str) -> Result<Vec<NamedPoint>, String> {
        if let Some(reason) = text.strip_prefix("drops:") {
            return Ok(vec![self.drops_for(text, reason)?]);
        }
        let (name, half) = match text.rsplit_once('.') {
            Some((name, half @ ("in" | "out"))) => (name, Some(half)),
            _ => (text, None),
        };
        if name == "drops" && half.is_none() {
            let description = "packets dropped by the chain".to_owned();
            let all = NamedPoint::new(TapPoint::Drops(None), text, description);
            return Ok(vec![all]);
        }
        let halves = self.halves_of_port(name);
        let halves = halves.or_else(|| self.halves_of_function(name));
        let [before, after] = halves.ok_or_else(|| self.unknown(text))?;
        Ok(match half {
            Some("in") => vec![before],
            Some(_) => vec![after],
            None => vec![before, after],
        })
    }

    fn drops_for(&self, text: &str, reason: &str) -> Result<NamedPoint, String> {
        let is_within = |known: &String| {
            let rest = known.strip_prefix(reason);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        if !self.reasons.iter().any(is_within) {
            return Err(format!(
                "point `{text}`: nothing is dropped for `{reason}`; there are {}",
                self.reasons.join(", ")
            ));
        }
        let point = TapPoint::Drops(Some(reason.to_owned()));
        let description = format!("packets dropped for {reason}");
        Ok(NamedPoint::new(point, text, description))
    }

    fn halves_of_port(&self, name: &str) -> Option<[NamedPoint; 2]> {
        let port = self.ports.iter().find(|port| port.name == name)?;
        Some([
            NamedPoint::new(
                TapPoint::In(port.inputs),
                &format!("{name}.in"),
                format!("packets from port {name}, as they come into the chain"),
            ),
            NamedPoint::new(
                TapPoint::Out(Some(port.side)),
                &format!("{name}.out"),
                format!("packets that leave the chain {}", towards(port.side)),
            ),
        ])
    }

    fn halves_of_function(&self, name: &str) -> Option<[NamedPoint; 2]> {
        self.functions.iter().find(|function| *function == name)?;
        Some([
            NamedPoint::new(
                TapPoint::Before(name.to_owned()),
                &format!("{name}.in"),
                format!("packets on their way to {name}"),
            ),
            NamedPoint::new(
                TapPoint::After(name.to_owned()),
                &format!("{name}.out"),
                format!("packets that {name} sends on or makes"),
            ),
        ])
    }

    fn unknown(&self, text: &str) -> String {
        let ports = self.ports.iter().map(|port| port.name.as_str());
        format!(
            "there is no point `{text}`: write a port ({}) or a function ({}), with `.in` or `.out` \
             for one half of it, `drops`, or `drops:REASON`",
            ports.collect::<Vec<_>>().join(", "),
            self.functions.join(", "),
        )
    }
}

fn towards(side: Side) -> &'static str {
    match side {
        Side::Inside => "towards the inside",
        Side::Outside => "towards the outside",
    }
}

fn functions(file: &ChainFile) -> impl Iterator<Item = &str> {
    let nodes = file.chains.iter().flat_map(|chain| &chain.stage.nodes);
    nodes.map(|node| node.name.as_str())
}

/// Every reason for which the chains may drop.
fn reasons(file: &ChainFile) -> Vec<String> {
    let nodes = file.chains.iter().flat_map(|chain| &chain.stage.nodes);
    let of_functions = nodes.flat_map(|node| {
        let kind = node.processor.descriptor();
        let drops = kind.drops.iter().map(|reason| reason.name());
        let named = drops.chain(kind.labels.iter().copied());
        named.map(|reason| format!("{}.{reason}", node.name))
    });
    of_functions.chain(engine_drops()).collect()
}
