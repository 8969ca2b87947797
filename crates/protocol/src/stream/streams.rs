//! All streams of one process.

use std::collections::BTreeMap;

use weir_packet::Time;

use super::{ProcessStart, Reject, Stream, StreamCount, StreamSettings, ends};
use crate::auth::Key;
use weir_telemetry::Counts;

/// The streams of one process start, by their peers.
///
/// A stream is opened by whoever knows the peer, never by a frame that comes;
/// frames for which there is none are refused and counted here.
#[derive(Debug)]
pub struct Streams {
    local: ProcessStart,
    key: Key,
    streams: BTreeMap<ProcessStart, Stream>,
    /// Counters of closed streams, and of frames of no stream.
    counts: Counts<StreamCount>,
}

impl Streams {
    /// No stream yet.
    pub fn new(local: ProcessStart, key: Key) -> Streams {
        Streams {
            local,
            key,
            streams: BTreeMap::new(),
            counts: Counts::default(),
        }
    }

    /// The stream to `remote`, opened with `settings` where there is none.
    pub fn open(&mut self, remote: ProcessStart, settings: StreamSettings) -> &mut Stream {
        let (local, key) = (self.local, self.key);
        self.streams
            .entry(remote)
            .or_insert_with(|| Stream::new(local, remote, key, settings))
    }

    /// The stream to `remote`.
    pub fn get_mut(&mut self, remote: ProcessStart) -> Option<&mut Stream> {
        self.streams.get_mut(&remote)
    }

    /// Gives a stream up with all that waits in it: the process at its end is
    /// dead or not used any more. It must not be opened again.
    pub fn close(&mut self, remote: ProcessStart) {
        if let Some(stream) = self.streams.remove(&remote) {
            self.counts.merge(stream.counts());
        }
    }

    /// A frame has come; gives the peer whose stream took it.
    ///
    /// # Errors
    ///
    /// See [`Reject`].
    pub fn receive(&mut self, now: Time, bytes: &[u8]) -> Result<ProcessStart, Reject> {
        let found = ends(bytes).and_then(|(source, destination)| {
            if destination != self.local {
                return Err(Reject::OtherDestination);
            }
            self.streams.get_mut(&source).ok_or(Reject::OtherSource)
        });
        match found {
            Ok(stream) => stream.receive(now, bytes).map(|()| stream.remote()),
            Err(reject) => {
                self.counts.add(reject.count());
                Err(reject)
            }
        }
    }

    /// All streams, in order of their peers.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.streams.values_mut()
    }

    /// Where the books of a stream disagree, in words: for tests.
    pub fn audit(&self) -> Option<String> {
        self.streams.values().find_map(Stream::audit)
    }

    /// When a stream has something to do next.
    pub fn next_deadline(&self) -> Option<Time> {
        self.streams
            .values()
            .filter_map(Stream::next_deadline)
            .min()
    }

    /// Counts of events in all streams.
    pub fn counts(&self) -> Counts<StreamCount> {
        let mut sum = self.counts.clone();
        for stream in self.streams.values() {
            sum.merge(stream.counts());
        }
        sum
    }
}
