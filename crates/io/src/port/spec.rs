//! How a port is written: `PATH.pcap`, `gen:KEY=VALUE,…`, `null`,
//! `af-packet:IFACE`, `tap:NAME`, `xdp:IFACE`.

use std::fmt;
use std::path::{Path, PathBuf};

use weir_packet::{FramePool, Side};

use super::{CaptureInput, CaptureOutput, GeneratorInput, InputPort, Null, OutputPort, PortError};
use crate::emulate::{EmulatedInput, EmulatedOutput, EmulatedPort, LinkSettings};
use crate::generator::GeneratorSpec;
use crate::live::{LiveOptions, LivePort, LiveSpec};

/// A port as written.
#[derive(Clone, Debug, PartialEq)]
pub enum PortSpec {
    /// A capture file; `-` is standard input or output.
    Capture(PathBuf),
    /// The traffic generator.
    Generator(Box<GeneratorSpec>),
    /// Nothing comes in, and what goes out is counted and forgotten.
    Null,
    /// An interface of this machine.
    Live(LiveSpec),
    /// Another port, at the end of a link that is emulated.
    Emulated(LinkSettings, Box<PortSpec>),
}

/// A port that makes no sense as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    /// The text.
    pub text: String,
    /// The fault, and its remedy.
    pub message: String,
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "port `{}`: {}", self.text, self.message)
    }
}

impl std::error::Error for SpecError {}

/// The kinds of ports.
const KINDS: &str = "PATH.pcap, PATH.pcapng, gen:KEY=VALUE,…, null, af-packet:IFACE, tap:NAME, \
                     xdp:IFACE or emu(KEY=VALUE,…):PORT";

/// Why a text is not taken for the path of a file: a word alone is rather meant
/// for an interface, and `WORD:…` for a kind of port. With a `/` or a `.` any
/// path can be written.
fn no_file(port: &str) -> Option<String> {
    let is_word = |text: &str| {
        let mut letters = text.chars();
        letters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '@'))
    };
    if port == "-" {
        return None;
    }
    if is_word(port) {
        return Some(format!(
            "there is no such kind of port; for an interface write af-packet:{port} or \
             xdp:{port}, for a file ./{port}; the kinds are {KINDS}"
        ));
    }
    let (kind, _) = port.split_once(':')?;
    (!kind.is_empty() && is_word(kind)).then(|| {
        format!(
            "there is no kind of port `{kind}`; the kinds are {KINDS}; for a file write ./{port}"
        )
    })
}

impl PortSpec {
    /// Splits `NAME=PORT` and reads the port. `gen:…` has equal signs of its
    /// own, so a name ends before the first `:` or `/`.
    ///
    /// # Errors
    ///
    /// If the text is no port: what is wrong, and what to do.
    pub fn parse(text: &str) -> Result<(Option<&str>, PortSpec), SpecError> {
        let named = text.split_once('=').filter(|(name, _)| {
            !name.is_empty()
                && name
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
        });
        let (name, port) = match named {
            Some((name, port)) => (Some(name), port),
            None => (None, text),
        };
        let wrong = |message: String| SpecError {
            text: text.to_owned(),
            message,
        };
        let spec = if let Some(rest) = port.strip_prefix("emu(") {
            let (settings, inner) = rest
                .split_once("):")
                .ok_or_else(|| wrong("write emu(KEY=VALUE,…):PORT".to_owned()))?;
            let settings = settings.parse().map_err(wrong)?;
            let inner = match PortSpec::parse(inner)? {
                (None, spec) => spec,
                (Some(_), _) => {
                    return Err(wrong("the name goes before: NAME=emu(…):PORT".to_owned()));
                }
            };
            match inner {
                PortSpec::Emulated(..) | PortSpec::Null => {
                    let message = "a link is emulated in front of an interface, a capture or the \
                                   generator";
                    return Err(wrong(message.to_owned()));
                }
                inner => PortSpec::Emulated(settings, Box::new(inner)),
            }
        } else if port == "null" {
            PortSpec::Null
        } else if let Some(settings) = port.strip_prefix("gen:").or((port == "gen").then_some("")) {
            let spec = GeneratorSpec::parse(settings).map_err(|error| wrong(error.to_string()))?;
            PortSpec::Generator(Box::new(spec))
        } else if let Some(live) = LiveSpec::parse(port) {
            PortSpec::Live(live.map_err(wrong)?)
        } else if port.is_empty() {
            return Err(wrong(format!("write {KINDS}")));
        } else if let Some(hint) = no_file(port) {
            return Err(wrong(hint));
        } else {
            PortSpec::Capture(PathBuf::from(port))
        };
        Ok((name, spec))
    }

    /// Opens it for packets to come in, as ingress port number `number` on
    /// `side`.
    ///
    /// # Errors
    ///
    /// If it can't be opened, and for interfaces.
    pub fn open_input(&self, number: u8, side: Side) -> Result<Box<dyn InputPort>, PortError> {
        Ok(match self {
            PortSpec::Capture(path) => Box::new(CaptureInput::open(path, number, side)?),
            PortSpec::Generator(spec) => Box::new(GeneratorInput::new(spec, number, side)),
            PortSpec::Null => Box::new(Null::default()),
            PortSpec::Live(live) => return Err(both_ways(live)),
            PortSpec::Emulated(settings, inner) => {
                let inner = inner.open_input(number, side)?;
                Box::new(EmulatedInput::new(inner, *settings, number))
            }
        })
    }

    /// The interface that it is, if it is one. Those are opened for both
    /// directions at once, by [`PortSpec::open_live`].
    pub fn live(&self) -> Option<&LiveSpec> {
        match self {
            PortSpec::Live(live) => Some(live),
            PortSpec::Emulated(_, inner) => inner.live(),
            _ => None,
        }
    }

    /// The path of the capture that it is, if it is one, also behind an emulated link.
    pub fn capture(&self) -> Option<&Path> {
        match self {
            PortSpec::Capture(path) => Some(path),
            PortSpec::Emulated(_, inner) => inner.capture(),
            _ => None,
        }
    }

    /// Opens an interface, as [`LiveSpec::open`] does, with the link in front
    /// of it if there is one; `None` where it is none.
    ///
    /// # Errors
    ///
    /// As [`LiveSpec::open`].
    pub fn open_live(
        &self,
        options: LiveOptions,
        pool: &mut FramePool,
    ) -> Option<Result<Box<dyn LivePort>, PortError>> {
        match self {
            PortSpec::Live(live) => Some(live.open(options, pool)),
            PortSpec::Emulated(settings, inner) => Some(inner.open_live(options, pool)?.map(
                |inner| -> Box<dyn LivePort> {
                    Box::new(EmulatedPort::new(inner, *settings, options))
                },
            )),
            _ => None,
        }
    }

    /// Most packets that an emulated link in front of it holds.
    pub fn held(&self) -> u32 {
        match self {
            PortSpec::Emulated(settings, _) => 2 * settings.limit,
            _ => 0,
        }
    }

    /// Opens it for packets to go out; `number` is its place among the outputs.
    ///
    /// # Errors
    ///
    /// If it can't be opened, for interfaces, and for the generator, which
    /// takes nothing.
    pub fn open_output(&self, number: u8) -> Result<Box<dyn OutputPort>, PortError> {
        Ok(match self {
            PortSpec::Capture(path) => Box::new(CaptureOutput::create(path)?),
            PortSpec::Null => Box::new(Null::default()),
            PortSpec::Generator(_) => {
                let message = "the generator makes packets and takes none: write to a capture \
                               file or to null";
                return Err(PortError::new("gen", message));
            }
            PortSpec::Live(live) => return Err(both_ways(live)),
            PortSpec::Emulated(settings, inner) => {
                let inner = inner.open_output(number)?;
                Box::new(EmulatedOutput::new(inner, *settings, number))
            }
        })
    }
}

fn both_ways(live: &LiveSpec) -> PortError {
    let message = "interfaces can't be used here: only a `weir run` on one thread has them";
    PortError::new(&live.to_string(), message)
}

/// Checks that no file is both read and written, or written twice (writing
/// would empty what is still to be read), by whatever names, hard links
/// included; and that standard input and output (`-`) have one use each.
///
/// # Errors
///
/// The first port that collides.
pub fn check_apart<'a>(
    inputs: impl IntoIterator<Item = &'a PortSpec>,
    outputs: impl IntoIterator<Item = &'a PortSpec>,
) -> Result<(), PortError> {
    let file = |spec: &'a PortSpec| spec.capture().map(Place::of);
    let mut read: Vec<Place> = Vec::new();
    for place in inputs.into_iter().filter_map(file) {
        if place == Place::Standard && read.contains(&place) {
            return Err(PortError::new("-", "standard input can be read only once"));
        }
        read.push(place);
    }
    let mut written: Vec<Place> = Vec::new();
    for place in outputs.into_iter().filter_map(file) {
        let problem = match &place {
            Place::Standard if written.contains(&place) => {
                "standard output is used twice: write to a file"
            }
            Place::Standard => "",
            Place::File { .. } if read.contains(&place) => {
                "this file is an input of the same run, which writing would empty: write to \
                 another file"
            }
            Place::File { .. } if written.contains(&place) => {
                "two outputs are the same file: write to another file"
            }
            Place::File { .. } => "",
        };
        if !problem.is_empty() {
            return Err(PortError::new(&place.to_string(), problem));
        }
        written.push(place);
    }
    Ok(())
}

/// Where bytes are, whatever the name.
#[derive(Debug)]
enum Place {
    Standard,
    File {
        path: PathBuf,
        /// Device and number of a file that is there.
        node: Option<(u64, u64)>,
    },
}

impl Place {
    fn of(path: &Path) -> Place {
        if path.as_os_str() == "-" {
            return Place::Standard;
        }
        Place::File {
            path: real(path),
            node: node(path),
        }
    }
}

impl PartialEq for Place {
    fn eq(&self, other: &Place) -> bool {
        match (self, other) {
            (Place::Standard, Place::Standard) => true,
            (Place::File { path: a, node: x }, Place::File { path: b, node: y }) => {
                a == b || x.is_some() && x == y
            }
            _ => false,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Standard => f.write_str("-"),
            Place::File { path, .. } => path.display().fmt(f),
        }
    }
}

#[cfg(unix)]
fn node(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    let there = std::fs::metadata(path).ok()?;
    Some((there.dev(), there.ino()))
}

#[cfg(not(unix))]
fn node(_: &Path) -> Option<(u64, u64)> {
    None
}

/// The path without links; of a file that is not there yet, that of its folder
/// with its name.
fn real(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    match (folder.canonicalize(), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_ports_are_told_apart() {
        let (name, spec) = PortSpec::parse("lan=a=b.pcap").unwrap();
        assert_eq!(
            (name, spec),
            (Some("lan"), PortSpec::Capture("a=b.pcap".into()))
        );
        let (name, spec) = PortSpec::parse("gen:flows=10,packets=5").unwrap();
        assert!(name.is_none() && matches!(spec, PortSpec::Generator(_)));
        let (name, spec) = PortSpec::parse("./a=b.pcap").unwrap();
        assert_eq!((name, spec), (None, PortSpec::Capture("./a=b.pcap".into())));
        assert_eq!(
            PortSpec::parse("wan=null").unwrap(),
            (Some("wan"), PortSpec::Null)
        );
        assert!(PortSpec::parse("").is_err());
        for (text, hint) in [
            (
                "eth0",
                "write af-packet:eth0 or xdp:eth0, for a file ./eth0",
            ),
            ("wan=eth0", "af-packet:eth0"),
            ("dpdk:x", "no kind of port `dpdk`; the kinds are PATH.pcap"),
            ("afpacket:eth0", "no kind of port `afpacket`"),
        ] {
            let error = PortSpec::parse(text).unwrap_err().to_string();
            assert!(error.contains(hint), "{error}");
        }
        for text in ["-", "./eth0", "/tmp/x", "capture.pcap", "a.b:c"] {
            let (_, spec) = PortSpec::parse(text).unwrap();
            assert_eq!(spec, PortSpec::Capture(text.into()));
        }
        assert!(
            PortSpec::parse("gen:flows=none")
                .unwrap_err()
                .to_string()
                .contains("flows")
        );
    }
}
