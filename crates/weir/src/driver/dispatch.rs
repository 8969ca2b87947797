//! Chooses the chain of a packet, for a file with several chains or with selectors.

use weir_graph::{ChainFile, Selector};
use weir_packet::{
    FragmentKey, Frame, FramePool, Headers, KeyOptions, KeyOutcome, ParseOptions, classify,
};

use super::executor::Executor;

/// Datagrams whose chain is remembered for their later fragments.
const DATAGRAMS: usize = 256;

struct Entry {
    selector: Selector,
    options: ParseOptions,
    key: KeyOptions,
}

/// Sorts packets to chains.
pub(crate) struct Dispatcher {
    entries: Vec<Entry>,
    batches: Vec<Vec<Frame>>,
    /// Chains of the datagrams whose first fragments came last.
    datagrams: Vec<(FragmentKey, usize)>,
    newest: usize,
    trivial: bool,
    /// Packets that no chain takes, and their bytes.
    pub(crate) refused: u64,
    pub(crate) refused_bytes: u64,
}

impl Dispatcher {
    pub(crate) fn new(file: &ChainFile) -> Dispatcher {
        let entries: Vec<Entry> = file
            .chains
            .iter()
            .map(|chain| Entry {
                selector: chain.selector.clone(),
                options: ParseOptions {
                    inner: chain.stage.flows.inner,
                    lenient: true,
                    ..ParseOptions::default()
                },
                key: KeyOptions {
                    chain: chain.stage.number,
                    zone: chain.stage.flows.zone,
                    icmp: chain.stage.flows.icmp,
                },
            })
            .collect();
        Dispatcher {
            batches: entries.iter().map(|_| Vec::new()).collect(),
            datagrams: Vec::with_capacity(DATAGRAMS),
            newest: 0,
            trivial: matches!(entries.as_slice(), [only] if only.selector.takes_all()),
            entries,
            refused: 0,
            refused_bytes: 0,
        }
    }

    /// All packets are one chain's.
    #[cfg(test)]
    pub(crate) fn to_one() -> Dispatcher {
        Dispatcher {
            entries: Vec::new(),
            batches: Vec::new(),
            datagrams: Vec::new(),
            newest: 0,
            trivial: true,
            refused: 0,
            refused_bytes: 0,
        }
    }

    /// Hands packets to the chains that take them; those that none takes go back
    /// to the pool, counted.
    pub(crate) fn hand_out<C: Executor>(&mut self, executor: &mut C, input: &mut Vec<Frame>) {
        if self.trivial {
            return executor.take(0, input);
        }
        self.sort(executor.pool(), input);
        for (chain, batch) in self.batches.iter_mut().enumerate() {
            if !batch.is_empty() {
                executor.take(chain, batch);
            }
        }
    }

    /// Moves the packets of `input` into the batches of the first chains whose
    /// selectors match; packets that none takes go back to the pool, counted.
    fn sort(&mut self, pool: &mut FramePool, input: &mut Vec<Frame>) {
        let memory = pool.memory().clone();
        for frame in input.drain(..) {
            let (meta, bytes) = memory.read(&frame);
            let taken = self.chain_of(bytes, meta.link);
            match taken.and_then(|number| self.batches.get_mut(number)) {
                Some(batch) => batch.push(frame),
                None => {
                    self.refused += 1;
                    self.refused_bytes += u64::from(meta.len);
                    pool.give(frame);
                }
            }
        }
    }

    fn chain_of(&mut self, bytes: &[u8], link: weir_packet::LinkType) -> Option<usize> {
        for number in 0..self.entries.len() {
            let entry = &self.entries[number];
            if entry.selector.takes_all() {
                return Some(number);
            }
            let mut headers = Headers::default();
            let key = match classify(bytes, link, &entry.options, &entry.key, &mut headers) {
                Ok(KeyOutcome::Flow(key, _)) => Some(key),
                Ok(KeyOutcome::LaterFragment(fragment)) => {
                    match self.datagrams.iter().find(|(key, _)| *key == fragment) {
                        Some((_, chain)) if *chain == number => return Some(number),
                        Some(_) => continue,
                        None => None,
                    }
                }
                Ok(KeyOutcome::None) => None,
                Err(_) => continue,
            };
            if entry.selector.matches(bytes, &headers, key.as_ref()) {
                if headers.is_fragment()
                    && let Some(fragment) = FragmentKey::of(bytes, &headers, &entry.key)
                {
                    self.remember(fragment, number);
                }
                return Some(number);
            }
        }
        None
    }

    fn remember(&mut self, fragment: FragmentKey, chain: usize) {
        if self.datagrams.len() < DATAGRAMS {
            self.datagrams.push((fragment, chain));
        } else {
            self.datagrams[self.newest] = (fragment, chain);
        }
        self.newest = (self.newest + 1) % DATAGRAMS;
    }
}
