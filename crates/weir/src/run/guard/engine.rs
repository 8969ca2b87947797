//! The guardian, seen from its engine.

use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::failures::Failures;
use crate::args::Run;
use crate::exit::Failure;

/// Messages of an engine: before it opens its ports, and once they are open.
pub(super) const OPEN: &[u8; 1] = b"o";
const RUNNING: &[u8; 1] = b"r";
/// Octets of the guardian's answer: five numbers.
const GO: usize = 5 * 8;

/// Gives the ports to an engine.
pub(super) fn write_go(stream: &mut UnixStream, before: Failures) -> io::Result<()> {
    let numbers = [
        before.count,
        before.packets,
        before.bytes,
        before.down.as_millis() as u64,
        before.since.as_millis() as u64,
    ];
    stream.write_all(numbers.map(u64::to_le_bytes).as_flattened())
}

fn read_go(stream: &mut UnixStream) -> io::Result<Failures> {
    let mut octets = [0; GO];
    stream.read_exact(&mut octets)?;
    let (numbers, _) = octets.as_chunks::<8>();
    let number = |at: usize| numbers.get(at).map_or(0, |n| u64::from_le_bytes(*n));
    Ok(Failures {
        count: number(0),
        packets: number(1),
        bytes: number(2),
        down: Duration::from_millis(number(3)),
        since: Duration::from_millis(number(4)),
    })
}

/// The guardian of this engine.
#[derive(Debug)]
pub(crate) struct Guardian {
    stream: UnixStream,
    pub(crate) before: Failures,
}

impl Guardian {
    /// Asks the guardian for the ports, and waits until it has let go of them;
    /// `None` where there is none.
    pub(crate) fn ask(args: &Run) -> Result<Option<Guardian>, Failure> {
        if !args.guarded {
            return Ok(None);
        }
        let failed = |error: io::Error| {
            Failure::outside(format!(
                "--guarded is for weir itself: standard input is no guardian ({error})"
            ))
        };
        let input = io::stdin().as_fd().try_clone_to_owned().map_err(failed)?;
        let mut stream = UnixStream::from(input);
        stream.write_all(OPEN).map_err(failed)?;
        let before = read_go(&mut stream).map_err(failed)?;
        Ok(Some(Guardian { stream, before }))
    }

    /// Tells it that the ports are open.
    pub(crate) fn running(&mut self) -> Result<(), Failure> {
        self.stream
            .write_all(RUNNING)
            .map_err(|error| Failure::outside(format!("the guardian is gone: {error}")))
    }

    /// The end of the run when it can be read from: the guardian is gone, or
    /// wants the engine to end.
    pub(crate) fn into_stream(self) -> UnixStream {
        self.stream
    }
}
