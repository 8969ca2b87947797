//! Several inputs as one, in the order of time.

use weir_packet::{Frame, FramePool, Side, Time};

use super::{InputPort, PortError, Received};

/// Packets fetched ahead of each input: one, so that the inputs can't hold all
/// frames of the pool between them.
const AHEAD: usize = 1;

struct Source {
    port: Box<dyn InputPort>,
    /// Packets fetched, the next one last.
    fetched: Vec<Frame>,
    ended: bool,
}

/// Several inputs, merged by time; of equal times the input named first goes
/// first.
///
/// One call gives packets of one side of the chain only: a packet from the
/// other side may be the answer to one before it, and an engine that takes both
/// at once would look up the answer's flow before a NAT has named it.
pub struct MergedInput {
    sources: Vec<Source>,
}

impl std::fmt::Debug for MergedInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MergedInput")
            .field("sources", &self.sources.len())
            .finish()
    }
}

impl MergedInput {
    /// Merges these inputs.
    pub fn new(ports: Vec<Box<dyn InputPort>>) -> MergedInput {
        let source = |port| Source {
            port,
            fetched: Vec::with_capacity(AHEAD),
            ended: false,
        };
        MergedInput {
            sources: ports.into_iter().map(source).collect(),
        }
    }

    /// The inputs, in their order.
    pub fn ports(&self) -> impl Iterator<Item = &dyn InputPort> {
        self.sources.iter().map(|source| &*source.port)
    }

    /// Reads no more: what was read comes, and then the end.
    pub fn end(&mut self) {
        for source in &mut self.sources {
            source.ended = !source.port.end();
        }
    }

    /// True where no input is read any more: at most one packet of each is left to come, and
    /// then the end.
    pub fn is_over(&self) -> bool {
        self.sources.iter().all(|source| source.ended)
    }

    /// As [`InputPort::receive`].
    ///
    /// # Errors
    ///
    /// That of the first input that can't go on.
    pub fn receive(
        &mut self,
        pool: &mut FramePool,
        into: &mut Vec<Frame>,
        max: usize,
    ) -> Result<Received, PortError> {
        if let [source] = self.sources.as_mut_slice() {
            if source.ended {
                return Ok(Received::End);
            }
            return source.port.receive(pool, into, max);
        }
        let mut side = None;
        while into.len() < max {
            let mut next: Option<(Time, Side, usize)> = None;
            for (number, source) in self.sources.iter_mut().enumerate() {
                if source.fetched.is_empty() && !source.ended {
                    let received = source.port.receive(pool, &mut source.fetched, AHEAD)?;
                    source.ended = received == Received::End;
                    source.fetched.reverse();
                    if source.fetched.is_empty() && !source.ended {
                        // Nothing now: what comes may be earlier than the rest.
                        return Ok(Received::More);
                    }
                }
                if let Some(frame) = source.fetched.last() {
                    let meta = pool.memory().meta(frame);
                    if next.is_none_or(|(earliest, ..)| meta.time < earliest) {
                        next = Some((meta.time, meta.side, number));
                    }
                }
            }
            let Some((_, from, number)) = next else {
                return Ok(Received::End);
            };
            if *side.get_or_insert(from) != from {
                break;
            }
            into.extend(self.sources[number].fetched.pop());
        }
        Ok(Received::More)
    }
}
