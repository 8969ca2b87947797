//! A traffic generator: Ethernet frames of many flows, the same for the same settings and seed.
//!
//! Settings are written `key=value,key=value`; numbers may end in `k`, `M` or `G` (10^3, 10^6,
//! 10^9). A list gives each choice a weight: `tcp:80/udp:15/icmp:5`; without `:` the weight is 1.
//!
//! | key | values | default | meaning |
//! |---|---|---|---|
//! | `flows` | 1 to 4294967294 | 1000 | flows open at the same time |
//! | `packets` | number | 1M, or no limit with `duration` | packets in all |
//! | `duration` | `10s`, `500ms`, `2m` … | no limit | length of the traffic in packet time |
//! | `size` | bytes, `min-max`, list, `imix` | 64; 1514 with `life=tcp` | frame length without the check sequence, 60 to 9216; a size too small for the headers is raised to their length. `imix` is `60:7/590:4/1514:1`. With `life=tcp` the maximum: ACKs and ends of responses are shorter |
//! | `rate` | packets per second | 1M | sets the time stamps only; the generator does not wait |
//! | `proto` | `tcp`, `udp`, `icmp`, list, `mix` | udp; tcp with `life=tcp` or `payload=http` | protocol of a flow; `mix` is `tcp:80/udp:15/icmp:5` |
//! | `ip` | `4`, `6`, list, `mix` | 4 | IP version of a flow; `mix` is `4:1/6:1` |
//! | `popularity` | `uniform`, `sequential`, `zipf:S` | uniform | flow of the next packet: random, round robin, or Zipf: the k-th flow has weight 1/k^S (S from 0 to 10) |
//! | `life` | `none`, `tcp` | none | `none`: packets of a fixed set of flows, TCP as bare ACKs. `tcp`: flows open, exchange requests and responses and end, by FIN or (one in ten) RST, and are replaced by new flows; UDP and ICMP flows exchange requests and responses |
//! | `payload` | `zero`, `random`, `text`, `http` | zero | payload content; `http` is HTTP/1.1 in TCP flows, text in others |
//! | `both` | `yes`, `no` | no; yes with `life=tcp` | packets in both directions; clients are inside |
//! | `src`, `dst` | IPv4 prefix | 10.0.0.0/16, 198.18.0.0/16 | clients (inside) and servers (outside); network and broadcast addresses are not used |
//! | `src6`, `dst6` | IPv6 prefix | fd00:1::/64, fd00:2::/64 | the same for IPv6 |
//! | `sport` | port or `min-max` | 1024-65535 | client ports, and ids of ICMP echo |
//! | `dport` | port or `min-max` | 80 for TCP, 443 for UDP | server ports |
//! | `vlan` | 1 to 4094 | none | 802.1Q tag on all frames |
//! | `requests` | number or `min-max`, 1 to 250 | 1-4 | with `life=tcp`: requests per flow |
//! | `response` | bytes or `min-max`, 1 to 16M | 200-20k | with `life=tcp`: length of a response's body; short ones are more frequent |
//! | `seed` | number | 1 | seed of the pseudo-random numbers |
//! | `start` | seconds since 1970 | 1767225600 | time of the first packet |
//!
//! All frames are valid: checksums and lengths are right, sequence and acknowledgement numbers
//! follow one another. Time stamps are virtual: the generator reads no clock.
//!
//! ```
//! use weir_io::generator::{Generator, GeneratorSpec};
//!
//! let spec = GeneratorSpec::parse("flows=10,packets=3,size=128,proto=tcp")?;
//! let mut generator = Generator::new(&spec);
//! let mut buffer = vec![0; generator.max_frame_len()];
//! while let Some(frame) = generator.next(&mut buffer) {
//!     assert_eq!(frame.len, 128);
//! }
//!
//! let error = GeneratorSpec::parse("flows=10,size=tiny").unwrap_err();
//! assert!(error.to_string().contains("`size=tiny` at character 10"));
//! # Ok::<(), weir_io::generator::SpecError>(())
//! ```

mod content;
mod conversation;
mod headers;
mod plain;
mod popularity;
pub(crate) mod random;
mod read;
mod spec;
mod steady;
mod tuples;
mod values;

#[cfg(test)]
pub(crate) mod check;
#[cfg(test)]
mod tests;

pub use spec::{GeneratorSpec, SpecError};

use conversation::Conversations;
use plain::Plain;
use popularity::Picker;
use random::Random;
use spec::Life;
use steady::Steady;

/// A frame that was written into the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generated {
    /// Its length in bytes.
    pub len: usize,
    /// Its virtual time, in nanoseconds since 1970; never earlier than the one before.
    pub time_ns: u64,
    /// The packet goes from server to client, so it comes from outside.
    pub side_outside: bool,
}

/// Time stamps at a constant rate. The remainder of the division is carried, so that rounding
/// errors do not add up.
struct Clock {
    now: u64,
    /// Whole nanoseconds between packets.
    step: u64,
    /// Remainder of a second, in nanoseconds, after `rate` steps.
    remainder: u64,
    /// Sum of `remainder` over the packets, modulo `rate`; each overflow adds a nanosecond.
    remainder_sum: u64,
    rate: u64,
}

impl Clock {
    fn new(start: u64, rate: u64) -> Self {
        Self {
            now: start,
            step: 1_000_000_000 / rate,
            remainder: 1_000_000_000 % rate,
            remainder_sum: 0,
            rate,
        }
    }

    /// Number of packets in the first `length` nanoseconds.
    fn packets_within(&self, length: u64) -> u64 {
        let packets = (u128::from(length) * u128::from(self.rate)).div_ceil(1_000_000_000);
        u64::try_from(packets).unwrap_or(u64::MAX)
    }

    /// Returns the current time stamp and advances. [`packets_within`](Self::packets_within) limits
    /// the number of packets so that nothing overflows; wrapping additions save the check.
    #[inline]
    fn tick(&mut self) -> u64 {
        let now = self.now;
        self.now = now.wrapping_add(self.step);
        if self.remainder != 0 {
            self.remainder_sum = self.remainder_sum.wrapping_add(self.remainder);
            if self.remainder_sum >= self.rate {
                self.remainder_sum = self.remainder_sum.wrapping_sub(self.rate);
                self.now = self.now.wrapping_add(1);
            }
        }
        now
    }
}

/// Writers of frames: `Steady` is the fast path for fixed TCP or UDP frames over untagged
/// IPv4, `Plain` serves all other fixed sets of flows, `Conversations` serves `life=tcp`.
enum Source {
    Steady(Box<Steady>),
    Plain(Box<Plain>),
    Conversations(Box<Conversations>),
}

/// Writes the frames that a [`GeneratorSpec`] describes.
pub struct Generator {
    /// Frames still to be written.
    remaining: u64,
    max_frame_len: usize,
    clock: Clock,
    random: Random,
    picker: Picker,
    source: Source,
}

impl Generator {
    /// Prepares what `spec` describes. All memory is taken here: some MB for payloads, 8 bytes per
    /// flow with `popularity=zipf`, 24 bytes per flow with `life=tcp`.
    pub fn new(spec: &GeneratorSpec) -> Self {
        let mut random = Random::new(spec.seed);
        let mut picker = Picker::new(spec.popularity, spec.flows);
        let source = match spec.life {
            Life::Tcp => Source::Conversations(Box::new(Conversations::new(spec))),
            Life::None => {
                let plain = Plain::new(spec);
                match Steady::new(&plain) {
                    Some(mut steady) => {
                        steady.begin(picker.pick(random.next()));
                        Source::Steady(Box::new(steady))
                    }
                    None => Source::Plain(Box::new(plain)),
                }
            }
        };
        let clock = Clock::new(spec.start_ns, spec.rate);
        let end_of_time = u64::MAX - spec.start_ns;
        let length = spec.duration_ns.unwrap_or(end_of_time).min(end_of_time);
        let possible = clock.packets_within(length);
        Self {
            remaining: spec.packets.unwrap_or(u64::MAX).min(possible),
            max_frame_len: spec.max_frame_len(),
            clock,
            random,
            picker,
            source,
        }
    }

    /// The longest frame that [`next`](Self::next) may write, in bytes.
    pub fn max_frame_len(&self) -> usize {
        self.max_frame_len
    }

    /// Writes the next frame at the beginning of `buffer`.
    ///
    /// `None` after the last frame, and (without any effect) if `buffer` is shorter than
    /// [`max_frame_len`](Self::max_frame_len).
    #[inline]
    pub fn next(&mut self, buffer: &mut [u8]) -> Option<Generated> {
        if self.remaining == 0 || buffer.len() < self.max_frame_len {
            return None;
        }
        let (len, side_outside) = match &mut self.source {
            Source::Steady(steady) => {
                let flow = self.picker.pick(self.random.next());
                (steady.write(flow, buffer)?, false)
            }
            _ => self.write(buffer)?,
        };
        self.remaining -= 1;
        Some(Generated {
            len,
            time_ns: self.clock.tick(),
            side_outside,
        })
    }

    /// All but the fast path, in a function of its own so that `next` can be inlined.
    #[inline(never)]
    fn write(&mut self, buffer: &mut [u8]) -> Option<(usize, bool)> {
        match &mut self.source {
            Source::Steady(_) => None,
            Source::Plain(plain) => plain.write(&mut self.picker, &mut self.random, buffer),
            Source::Conversations(conversations) => {
                conversations.write(&mut self.picker, &mut self.random, buffer)
            }
        }
    }
}
