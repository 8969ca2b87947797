//! The fuzz targets without a fuzzer, for the stable toolchain: seeds first,
//! then mutations of them. `bounded SECONDS [SEED [TARGET]]`: the seconds are
//! those of all targets together.
//!
//! It is not guided by coverage, so it finds less than `cargo fuzz` does.

use std::time::{Duration, Instant};

/// A small generator of numbers; a fixed seed repeats a run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n.max(1)
    }
}

fn mutate(random: &mut Random, seeds: &[&[u8]]) -> Vec<u8> {
    let mut bytes = seeds
        .get(random.below(seeds.len()))
        .map_or(Vec::new(), |seed| seed.to_vec());
    for _ in 0..=random.below(6) {
        let at = random.below(bytes.len() + 1);
        match random.below(5) {
            0 => bytes.insert(at, random.below(256) as u8),
            1 => bytes.truncate(at),
            2 => {
                let other = seeds[random.below(seeds.len())];
                let from = random.below(other.len());
                let to = from + random.below((other.len() - from).min(200) + 1);
                bytes.splice(at..at, other[from..to].iter().copied());
            }
            3 if at < bytes.len() => {
                bytes.remove(at);
            }
            _ if at < bytes.len() => {
                bytes[at] = [0, 255, 1, random.below(256) as u8][random.below(4)]
            }
            _ => {}
        }
    }
    bytes
}

fn main() {
    let seconds = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(60);
    let seed = std::env::args()
        .nth(2)
        .and_then(|text| text.parse().ok())
        .unwrap_or(1);
    let only = std::env::args().nth(3);
    let chosen = |name: &str| only.as_deref().is_none_or(|only| only == name);
    let count = weir_fuzz::TARGETS
        .iter()
        .filter(|(name, _)| chosen(name))
        .count() as u32;
    let all = weir_fuzz::seeds::seeds();
    let each = Duration::from_secs(seconds) / count.max(1);
    for (name, run) in weir_fuzz::TARGETS
        .into_iter()
        .filter(|(name, _)| chosen(name))
    {
        let seeds: Vec<&[u8]> = all
            .iter()
            .filter(|(target, _)| *target == name)
            .map(|(_, bytes)| &bytes[..])
            .collect();
        let mut random = Random(seed);
        let (start, mut runs) = (Instant::now(), 0_u64);
        let mut queue = seeds.iter().map(|seed| seed.to_vec());
        while start.elapsed() < each || queue.len() > 0 {
            let input = queue.next().unwrap_or_else(|| mutate(&mut random, &seeds));
            if std::panic::catch_unwind(|| run(&input)).is_err() {
                let file = format!("crash-{name}-{runs}");
                let written = std::fs::write(&file, &input);
                eprintln!("{name}: failed; its input is in {file} ({written:?})");
                std::process::exit(1);
            }
            runs += 1;
        }
        println!(
            "{name}: {runs} inputs in {:.0} s, no failure",
            start.elapsed().as_secs_f64()
        );
    }
}
