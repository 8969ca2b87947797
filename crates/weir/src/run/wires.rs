//! The ports of a run with interfaces, and the choice of the one a packet leaves by.
//!
//! The ports of a side are in the order in which packets leave there: those
//! named by `--out`, then interfaces named by `--in`. Port i of one side is tied
//! to port i of the other: a bump has as many wires as ports on a side. Where a
//! side has fewer (a capture of what two interfaces receive) the last one takes
//! the rest.

use weir_graph::{ChainFile, Network};
use weir_io::live::live_layout;
use weir_io::port::PortSpec;
use weir_packet::{MemoryLayout, Side};

use crate::args::Run;
use crate::exit::Failure;

use super::ports::{Ports, RunPort};

/// The ports of a run with interfaces; their numbers are those of `live`, then
/// of `replays`, then of `others`.
pub(super) struct Sorted {
    /// Interfaces, each once.
    pub(super) live: Vec<RunPort>,
    /// Inputs that are no interfaces, such as captures.
    pub(super) replays: Vec<RunPort>,
    /// Other outputs.
    pub(super) others: Vec<RunPort>,
    /// By side: numbers of the ports that packets leave by, in order.
    leaving: [Vec<usize>; 2],
    /// True if the run goes on after the last played packet, because packets also
    /// come in by an interface.
    pub(super) stays: bool,
}

/// A port where packets are counted and forgotten.
fn nowhere(name: &str, side: Side) -> RunPort {
    RunPort {
        name: name.to_owned(),
        side,
        text: "null".to_owned(),
        spec: PortSpec::Null,
    }
}

impl Sorted {
    pub(super) fn of(args: &Run, file: &ChainFile, ports: &Ports) -> Result<Sorted, Failure> {
        let mut sorted = Sorted::by_kind(args, ports)?;
        // To a router's port that is played packets may go all the same.
        if let Network::Router(_) = file.network {
            for port in &sorted.replays {
                if sorted.others.iter().all(|other| other.name != port.name) {
                    sorted.others.push(nowhere(&port.name, port.side));
                }
            }
        }
        Ok(sorted)
    }

    pub(super) fn by_kind(args: &Run, ports: &Ports) -> Result<Sorted, Failure> {
        let mut sorted = Sorted {
            live: Vec::new(),
            replays: Vec::new(),
            others: Vec::new(),
            leaving: [Vec::new(), Vec::new()],
            stays: ports.inputs.iter().any(|port| port.spec.live().is_some()),
        };
        for port in &ports.inputs {
            if port.spec.live().is_some() {
                sorted.add(port)?;
            } else if port.spec != PortSpec::Null {
                sorted.replays.push(port.clone());
            }
        }
        // The output that is there because none was named is none.
        let outputs = || ports.outputs.iter().filter(|_| !args.out.is_empty());
        for port in outputs().filter(|port| port.spec.live().is_some()) {
            sorted.add(port)?;
        }
        for port in outputs() {
            let number = match sorted.number_of(port) {
                Some(number) => number,
                None => {
                    sorted.others.push(port.clone());
                    sorted.last()
                }
            };
            sorted.leave(port.side, number);
        }
        for number in 0..sorted.live.len() {
            sorted.leave(sorted.live[number].side, number);
        }
        // Packets towards a side that has nothing are counted and forgotten.
        for side in [Side::Inside, Side::Outside] {
            if sorted.leaving[side as usize].is_empty() {
                sorted.others.push(nowhere(side.name(), side));
                let number = sorted.last();
                sorted.leave(side, number);
            }
        }
        Ok(sorted)
    }

    /// True for a bump and nothing else: interfaces on both sides.
    pub(super) fn is_two_sided(&self) -> bool {
        let has = |side: Side| self.live.iter().any(|port| port.side == side);
        let plain = self.replays.is_empty() && self.others.is_empty();
        plain && has(Side::Inside) && has(Side::Outside)
    }

    /// The number of the port that was added to `others` last.
    fn last(&self) -> usize {
        self.live.len() + self.replays.len() + self.others.len() - 1
    }

    fn leave(&mut self, side: Side, number: usize) {
        let leaving = &mut self.leaving[side as usize];
        if !leaving.contains(&number) {
            leaving.push(number);
        }
    }

    /// The number of an interface.
    fn number_of(&self, port: &RunPort) -> Option<usize> {
        let interface = port.spec.live()?.interface();
        let is = |other: &RunPort| {
            other
                .spec
                .live()
                .is_some_and(|l| l.interface() == interface)
        };
        self.live.iter().position(is)
    }

    /// Adds an interface. It may be named as input and output of one port.
    fn add(&mut self, port: &RunPort) -> Result<(), Failure> {
        let Some(number) = self.number_of(port) else {
            self.live.push(port.clone());
            return Ok(());
        };
        let other = &self.live[number];
        if other.name == port.name && other.spec == port.spec {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "ports `{}` and `{}` are one interface: it has one side and one kind",
            other.text, port.text
        )))
    }

    /// For each port that packets come in by, the ports that they leave by
    /// towards each side.
    ///
    /// # Errors
    ///
    /// Both sides have interfaces, but not as many: some would have no other
    /// end.
    pub(super) fn wires(&self) -> Result<Vec<[usize; 2]>, Failure> {
        let live = |side: Side| {
            let leaving = self.leaving[side as usize].iter();
            leaving.copied().filter(|number| *number < self.live.len())
        };
        let [inside, outside] = [Side::Inside, Side::Outside].map(|side| live(side).count());
        if inside != outside && inside > 0 && outside > 0 {
            return Err(Failure::usage(format!(
                "{inside} inside and {outside} outside: a bump ties the first interface of one side \
                 to the first of the other, and so on; name as many on both sides"
            )));
        }
        let mut wires = vec![[0; 2]; self.live.len() + self.replays.len()];
        let ends = |wire: usize| {
            [Side::Inside, Side::Outside].map(|towards| {
                let there = &self.leaving[towards as usize];
                let at = there.get(wire).or(there.last());
                at.copied().unwrap_or_default()
            })
        };
        for side in [Side::Inside, Side::Outside] {
            for (wire, number) in live(side).enumerate() {
                wires[number] = ends(wire);
                // A packet that is turned goes back where it came from.
                wires[number][side as usize] = number;
            }
            let played = self.replays.iter().enumerate();
            for (wire, (number, _)) in played.filter(|(_, port)| port.side == side).enumerate() {
                wires[self.live.len() + number] = ends(wire);
            }
        }
        Ok(wires)
    }

    /// The ports that packets come in by, in the order of their numbers.
    pub(super) fn coming(&self) -> impl Iterator<Item = &RunPort> {
        self.live.iter().chain(&self.replays)
    }

    /// By which port a packet leaves to the name of each of [`Sorted::coming`]:
    /// an interface by itself.
    pub(super) fn exits(&self) -> Vec<usize> {
        let before = self.live.len() + self.replays.len();
        let exit = |name: &str| self.others.iter().position(|other| other.name == name);
        let played = self.replays.iter().zip(self.live.len()..);
        let played = played.map(|(port, number)| exit(&port.name).map_or(number, |at| before + at));
        (0..self.live.len()).chain(played).collect()
    }

    /// The packet memory that these ports need, without that of packets under
    /// way among threads.
    pub(super) fn memory(&self) -> Result<MemoryLayout, Failure> {
        let mut layout = live_layout(self.live.iter().filter_map(|port| port.spec.live()))
            .map_err(|error| Failure::outside(error.to_string()))?;
        layout.small_frames += self.coming().map(|port| port.spec.held()).sum::<u32>();
        Ok(layout)
    }

    /// The ports as the summary shows them.
    pub(super) fn all(&self) -> Ports {
        let outputs = self.live.iter().chain(&self.others);
        Ports {
            inputs: self.coming().cloned().collect(),
            outputs: outputs.cloned().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    /// The ports by number, and the wires, of a command line.
    fn wires(ports: &[&str]) -> Result<(Vec<String>, Vec<[usize; 2]>), Failure> {
        #[derive(clap::Parser)]
        struct Cli {
            #[command(flatten)]
            run: Run,
        }
        let cli = Cli::parse_from([&["weir", "chain.yaml"], ports].concat());
        let declared = [("inside", Side::Inside), ("outside", Side::Outside)];
        let read = |texts: &[String], side: Side| {
            let port = |text: &String| {
                let (name, spec) = PortSpec::parse(text).unwrap();
                let (name, side) = declared
                    .into_iter()
                    .find(|(known, of)| name.map_or(*of == side, |name| name == *known))
                    .unwrap();
                RunPort {
                    name: name.to_owned(),
                    side,
                    text: text.clone(),
                    spec,
                }
            };
            texts.iter().map(port).collect::<Vec<_>>()
        };
        let all = Ports {
            inputs: read(&cli.run.input, Side::Inside),
            outputs: read(&cli.run.out, Side::Outside),
        };
        let sorted = Sorted::by_kind(&cli.run, &all)?;
        let wires = sorted.wires()?;
        let texts = sorted.live.iter().chain(&sorted.replays);
        let texts = texts.chain(&sorted.others);
        Ok((texts.map(|port| port.text.clone()).collect(), wires))
    }

    #[test]
    fn ports_are_tied_in_the_order_of_their_names() {
        let (ports, tied) =
            wires(&["--in=tap:a", "--in=tap:b", "--out=tap:c", "--out=tap:d"]).unwrap();
        assert_eq!(ports, ["tap:a", "tap:b", "tap:c", "tap:d"]);
        assert_eq!(tied, [[0, 2], [1, 3], [0, 2], [1, 3]]);
    }

    #[test]
    fn a_copy_takes_what_several_interfaces_receive() {
        let (ports, tied) = wires(&["--in=tap:a", "--in=tap:b", "--out=all.pcap"]).unwrap();
        assert_eq!(ports, ["tap:a", "tap:b", "all.pcap"]);
        assert_eq!(tied, [[0, 2], [1, 2]]);
        let (ports, tied) = wires(&["--in=tap:a"]).unwrap();
        assert_eq!(ports, ["tap:a", "null"]);
        assert_eq!(tied, [[0, 1]]);
    }

    #[test]
    fn what_is_played_leaves_by_the_interfaces_of_the_other_side() {
        let (ports, tied) = wires(&["--in=a.pcap", "--in=b.pcap", "--out=tap:c"]).unwrap();
        assert_eq!(ports, ["tap:c", "a.pcap", "b.pcap", "null"]);
        assert_eq!(tied, [[3, 0], [3, 0], [3, 0]]);
    }

    #[test]
    fn a_side_with_more_interfaces_than_the_other_is_refused() {
        let uneven = wires(&["--in=tap:a", "--in=tap:b", "--out=tap:c"]).unwrap_err();
        assert!(
            uneven.message.contains("2 inside and 1 outside"),
            "{}",
            uneven.message
        );
    }
}
