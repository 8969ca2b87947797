//! Frames round a ring to another process and back, against bare numbers.
//!
//! The two processes keep 512 frames going round in batches of up to 32: one
//! writes into a ring, the other takes out and writes into the ring back. *Bare*
//! is the least that does this: a ring of numbers with cached positions, no
//! check, no owner, no wake-up. *weir* is the port between stages of two
//! processes: frames, whose numbers and owners are checked and written down,
//! and a reader that may sleep. Touched: the other one writes into each
//! frame's metadata (bare: into a word at the same distance).

use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use weir_io::shared::{
    self, Channel, SharedMapping, Waker, Words, attach_memory, packet_memory, spsc,
};
use weir_io::stage::{StageInput as _, StageOutput as _};
use weir_packet::{Frame, FramePool, MemberId, MemoryLayout};

use crate::log::Log;
use crate::stats::Spread;

const PLACES: u32 = 1_024;
const BATCH: usize = 32;
/// Frames that go round.
const ROUND: u32 = 512;
/// Words of a frame.
const STRIDE: usize = 33 * 16;
const LENGTH: Duration = Duration::from_millis(300);
const SAMPLES: usize = 9;
const LAYOUT: MemoryLayout = MemoryLayout {
    small_frames: ROUND,
    small_bytes: 33 * 64,
    large_frames: 1,
    large_bytes: 4_096,
};
/// Bytes of one ring's words.
const RING: usize = spsc::words_for(PLACES) * 4;
/// Numbers of cores: the two, or one for both.
const PLACEMENTS: [(&str, [usize; 2]); 2] = [("two cores", [0, 1]), ("one core", [0, 0])];

/// The least that passes numbers on.
struct Bare {
    words: Words,
    mine: u32,
    theirs: u32,
}

impl Bare {
    fn new(words: Words) -> Bare {
        Bare {
            words,
            mine: 0,
            theirs: 0,
        }
    }

    fn write(&mut self, numbers: &mut Vec<u32>) -> usize {
        if PLACES - self.mine.wrapping_sub(self.theirs) < numbers.len() as u32 {
            self.theirs = self.words[32].load(Ordering::Acquire);
        }
        let room = PLACES - self.mine.wrapping_sub(self.theirs);
        let count = numbers.len().min(room as usize);
        for number in numbers.drain(..count) {
            let place = 96 + (self.mine % PLACES) as usize;
            self.words[place].store(number, Ordering::Relaxed);
            self.mine = self.mine.wrapping_add(1);
        }
        self.words[0].store(self.mine, Ordering::Release);
        count
    }

    fn read(&mut self, numbers: &mut Vec<u32>) -> usize {
        if self.theirs == self.mine {
            self.theirs = self.words[0].load(Ordering::Acquire);
        }
        let count = (self.theirs.wrapping_sub(self.mine) as usize).min(BATCH);
        for _ in 0..count {
            let place = 96 + (self.mine % PLACES) as usize;
            numbers.push(self.words[place].load(Ordering::Relaxed));
            self.mine = self.mine.wrapping_add(1);
        }
        self.words[32].store(self.mine, Ordering::Release);
        count
    }
}

/// Memory that both processes map.
struct Files {
    rings: SharedMapping,
    frames: SharedMapping,
    /// Plain memory for the bare ring's numbers.
    plain: SharedMapping,
}

impl Files {
    fn ring(&self, number: usize) -> Result<Words, String> {
        let words = self.rings.words(number * RING, RING / 4);
        words.map_err(|error| error.to_string())
    }

    fn stop(&self) -> Result<Words, String> {
        let words = self.rings.words(4 * RING, 1);
        words.map_err(|error| error.to_string())
    }

    fn plain(&self) -> Result<Words, String> {
        let words = self.plain.words(0, STRIDE * ROUND as usize);
        words.map_err(|error| error.to_string())
    }
}

fn pin(core: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    // On a machine with one core both share it anyway.
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

fn touch(words: &[AtomicU32], number: u32) {
    let word = &words[number as usize * STRIDE];
    word.store(
        word.load(Ordering::Relaxed).wrapping_add(1),
        Ordering::Relaxed,
    );
}

/// The other process.
pub(crate) fn peer(form: &str) -> Result<(), String> {
    let fail = |error: std::io::Error| error.to_string();
    shared::end_with_parent().map_err(fail)?;
    let socket = std::io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .map_err(fail)?;
    let mut channel = Channel::new(UnixStream::from(socket), 64);
    let message = channel.receive(true).map_err(fail)?.ok_or("no word")?;
    let touched = message.kind & 1 == 1;
    pin(usize::from(message.kind >> 1));
    let mut fd = || channel.take_fd().ok_or("a descriptor is missing");
    let (rings, frames, plain) = (fd()?, fd()?, fd()?);
    let files = Files {
        rings: SharedMapping::attach(rings).map_err(fail)?,
        plain: SharedMapping::attach(plain).map_err(fail)?,
        frames: SharedMapping::attach(frames.try_clone().map_err(fail)?).map_err(fail)?,
    };
    let stop = files.stop()?;
    let over = || stop[0].load(Ordering::Relaxed) != 0;
    if form == "bare" {
        let words = files.plain()?;
        let (mut from, mut to) = (Bare::new(files.ring(0)?), Bare::new(files.ring(1)?));
        let mut numbers = Vec::with_capacity(2 * BATCH);
        while !over() {
            if numbers.is_empty() && from.read(&mut numbers) == 0 {
                std::thread::yield_now();
            }
            if touched {
                numbers.iter().for_each(|number| touch(&words, *number));
            }
            to.write(&mut numbers);
        }
        return Ok(());
    }
    let member = MemberId::new(1).ok_or("no member")?;
    let memory = attach_memory(frames, LAYOUT, member).map_err(fail)?;
    let waker = Waker::new().map_err(fail)?;
    let nonsense = |error: spsc::Nonsense| error.to_string();
    let mut from = shared::input(files.ring(2)?, &memory, MemberId::MAIN).map_err(nonsense)?;
    let mut to = shared::output(files.ring(3)?, &memory, waker).map_err(nonsense)?;
    let mut batch: Vec<Frame> = Vec::with_capacity(2 * BATCH);
    while !over() {
        if batch.is_empty() && from.take(&mut batch, BATCH) == 0 {
            std::thread::yield_now();
        }
        if touched {
            for frame in &mut batch {
                memory.meta_mut(frame).clock += 1;
            }
        }
        to.give(&mut batch);
    }
    Ok(())
}

/// Frames per second that come back.
fn measure(form: &str, touched: bool, cores: [usize; 2]) -> Result<f64, String> {
    let fail = |error: std::io::Error| error.to_string();
    let made = packet_memory(LAYOUT).map_err(fail)?;
    let files = Files {
        rings: SharedMapping::create("bench-rings", 4 * RING + 64).map_err(fail)?,
        plain: SharedMapping::create("bench-plain", STRIDE * 4 * ROUND as usize).map_err(fail)?,
        frames: made.file().clone(),
    };
    let (ours, theirs) = UnixStream::pair().map_err(fail)?;
    let mut channel = Channel::new(ours, 64);
    let kind = u8::from(touched) | (cores[1] as u8) << 1;
    let fds = [
        files.rings.as_fd(),
        files.frames.as_fd(),
        files.plain.as_fd(),
    ];
    channel.send(kind, b"", &fds, true).map_err(fail)?;
    let mut child = Command::new("/proc/self/exe")
        .args(["ring-peer", form])
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .spawn()
        .map_err(fail)?;
    pin(cores[0]);
    let mut pool = FramePool::new(Arc::clone(&made.memory)).ok_or("no frames")?;
    let member = MemberId::new(1).ok_or("no member")?;
    let waker = Waker::new().map_err(fail)?;
    let nonsense = |error: spsc::Nonsense| error.to_string();
    let mut to = shared::output(files.ring(2)?, &made.memory, waker).map_err(nonsense)?;
    let mut from = shared::input(files.ring(3)?, &made.memory, member).map_err(nonsense)?;
    let (mut bare_to, mut bare_from) = (Bare::new(files.ring(0)?), Bare::new(files.ring(1)?));
    let mut numbers: Vec<u32> = (0..ROUND).collect();
    let mut frames: Vec<Frame> = (0..ROUND).map_while(|_| pool.take(1).ok()).collect();
    let mut count = 0u64;
    let (mut back, mut waiting) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
    let (mut start, mut warm) = (Instant::now(), true);
    loop {
        let mut came = 0;
        // A few batches between two looks at the clock.
        for _ in 0..64 {
            let more = if form == "bare" {
                bare_to.write(&mut numbers);
                bare_from.read(&mut waiting);
                let more = waiting.len();
                numbers.append(&mut waiting);
                more
            } else {
                to.give(&mut frames);
                from.take(&mut back, BATCH);
                let more = back.len();
                frames.append(&mut back);
                more
            };
            if more == 0 {
                std::thread::yield_now();
            }
            came += more as u64;
        }
        count += came;
        let passed = start.elapsed();
        if warm && count > 0 && passed > LENGTH / 3 {
            (warm, count, start) = (false, 0, Instant::now());
        } else if !warm && passed > LENGTH {
            files.stop()?[0].store(1, Ordering::Relaxed);
            child.wait().map_err(fail)?;
            return Ok(count as f64 / passed.as_secs_f64());
        } else if warm && passed > Duration::from_secs(30) {
            return Err("nothing comes back".to_owned());
        }
    }
}

/// Measures both, in turn.
pub(crate) fn table() -> Result<(), String> {
    let mut log = Log::create("ring.jsonl")?;
    println!("frames per second, millions: least, median, most of {SAMPLES}");
    for (placement, cores) in PLACEMENTS {
        for touched in [false, true] {
            let (mut bare, mut weir, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..SAMPLES {
                let pair = [
                    measure("bare", touched, cores)?,
                    measure("weir", touched, cores)?,
                ];
                bare.push(pair[0]);
                weir.push(pair[1]);
                ratios.push(pair[1] / pair[0]);
                log.line(&json!({
                    "placement": placement,
                    "touched": touched,
                    "bare_per_s": pair[0],
                    "weir_per_s": pair[1],
                }))?;
            }
            let (bare, weir) = (Spread::of(&bare), Spread::of(&weir));
            let ratio = Spread::of(&ratios).median;
            let of = |s: Spread| [s.least, s.median, s.most].map(|n| format!("{:.1}", n / 1e6));
            println!(
                "{placement}, {}: bare {}, weir {}: {:.0} %",
                if touched { "touched" } else { "descriptors" },
                of(bare).join(" "),
                of(weir).join(" "),
                ratio * 100.0
            );
        }
    }
    log.finish()
}
