use weir_packet::{Frame, FrameMeta, FramePool, MemoryLayout, Time};

use super::*;
use crate::live::{LiveClock, LiveOptions, LivePort};
use crate::port::{
    InputPort, MemoryInput, MemoryOutput, MergedInput, OutputPort, PortCounters, PortDrop,
    PortError, PortNotice, Received,
};

#[test]
fn settings_are_read_and_shown() {
    let text = "loss=1%,delay=20ms,jitter=5ms,reorder=2%,late=3ms,duplicate=0.5%,rate=100Mbit,\
                limit=50,seed=7";
    let link: LinkSettings = text.parse().unwrap();
    assert_eq!(
        link,
        LinkSettings {
            loss: 10_000,
            duplicate: 5_000,
            reorder: 20_000,
            late: 3_000_000,
            delay: 20_000_000,
            jitter: 5_000_000,
            rate: 100_000_000,
            limit: 50,
            seed: 7
        }
    );
    assert_eq!(link.to_string().parse(), Ok(link));
    for bad in [
        "",
        "loss",
        "loss=1",
        "loss=101%",
        "loss=-1%",
        "delay=2",
        "delay=11s",
        "speed=1%",
        "seed=x",
        "rate=100",
        "rate=0bit",
        "limit=0",
        "limit=65537",
    ] {
        assert!(bad.parse::<LinkSettings>().is_err(), "{bad}");
    }
}

/// Arrivals and their times, of `count` items a millisecond apart.
fn through(settings: &str, count: u64) -> (Vec<(u64, u64)>, Vec<u64>, LinkCounts) {
    let mut link = Link::new(settings.parse().unwrap(), 1);
    let (mut arrived, mut back) = (Vec::new(), Vec::new());
    for item in 0..count {
        let now = Time(item * 1_000_000);
        while let Some((due, item)) = link.arrived(now) {
            arrived.push((due.0, item));
        }
        back.extend(link.send(now, 1_250, item, |item| Some(*item)));
    }
    while let Some((due, item)) = link.arrived(Time(u64::MAX)) {
        arrived.push((due.0, item));
    }
    (arrived, back, link.counts())
}

#[test]
fn every_item_arrives_is_lost_or_found_no_room() {
    let all = "loss=10%,duplicate=10%,reorder=10%,late=5ms,delay=20ms,jitter=10ms,limit=28,seed=3";
    let (arrived, back, counts) = through(all, 10_000);
    assert_eq!(counts.lost + counts.overflow, back.len() as u64);
    assert_eq!(
        arrived.len() as u64,
        10_000 - back.len() as u64 + counts.duplicated
    );
    for n in [counts.lost, counts.duplicated, counts.reordered] {
        assert!((700..1_300).contains(&n), "{counts:?}");
    }
    assert!(counts.overflow > 100, "{counts:?}");
    assert!(arrived.is_sorted_by_key(|(due, _)| *due));
    assert!(arrived.windows(2).any(|pair| pair[0].1 > pair[1].1));
    assert_eq!((arrived, back, counts), through(all, 10_000), "by the seed");
}

#[test]
fn jitter_alone_keeps_the_order_and_delays_within_its_bounds() {
    let (arrived, _, _) = through("delay=20ms,jitter=5ms,seed=9", 1_000);
    assert!(arrived.is_sorted_by_key(|(_, item)| *item));
    let took: Vec<u64> = arrived
        .iter()
        .map(|(due, item)| due - item * 1_000_000)
        .collect();
    assert!(
        took.iter()
            .all(|took| (15_000_000..=25_000_000).contains(took))
    );
    assert!(took.iter().max() > took.iter().min());
}

#[test]
fn a_rate_spaces_packets_out_and_fills_the_link() {
    // 1,250 octets a millisecond are 10 Mbit/s: at half of that one in two has no room.
    let (arrived, back, counts) = through("rate=5Mbit,limit=10", 1_000);
    assert!(
        arrived
            .windows(2)
            .all(|pair| pair[1].0 - pair[0].0 >= 2_000_000)
    );
    assert_eq!(counts.overflow, back.len() as u64);
    assert!((480..=500).contains(&back.len()), "{}", back.len());
}

#[test]
fn an_input_comes_through_its_link_by_its_own_times() {
    let mut pool = FramePool::with_layout(MemoryLayout::default());
    let packets = (0..500u64).map(|n| {
        (
            FrameMeta::received(Time(n * 1_000_000), 0),
            vec![n as u8; 60],
        )
    });
    let inner = MemoryInput::new(packets);
    let settings = "loss=10%,duplicate=10%,reorder=5%,late=3ms,delay=7ms,seed=5";
    let mut input = EmulatedInput::new(Box::new(inner), settings.parse().unwrap(), 0);
    let mut frames = Vec::new();
    while input.receive(&mut pool, &mut frames, 64).unwrap() == Received::More {}
    let times: Vec<u64> = frames
        .iter()
        .map(|f| pool.memory().meta(f).time.0)
        .collect();
    assert!(times.is_sorted() && times[0] >= 7_000_000);
    let counters = input.counters();
    let (lost, doubled) = (
        counters.drops.get(PortDrop::EmulatedLoss),
        counters.noticed.get(PortNotice::EmulatedDuplicate),
    );
    assert!(lost > 20 && doubled > 20, "{counters:?}");
    assert_eq!(counters.packets, frames.len() as u64);
    assert_eq!(frames.len() as u64, 500 - lost + doubled);
    pool.give_all(&mut frames);
    assert_eq!(pool.outstanding(), 0);
}

#[test]
fn an_input_that_is_ended_gives_what_is_on_its_way_and_reads_no_more() {
    let mut pool = FramePool::with_layout(MemoryLayout::default());
    let packets = (0..500u64).map(|n| (FrameMeta::received(Time(n * 1_000_000), 0), vec![0; 60]));
    let inner = MemoryInput::new(packets);
    let settings = "delay=20ms".parse().unwrap();
    let input = EmulatedInput::new(Box::new(inner), settings, 0);
    let mut merged = MergedInput::new(vec![Box::new(input)]);
    let mut frames = Vec::new();
    merged.receive(&mut pool, &mut frames, 10).unwrap();
    assert_eq!(frames.len(), 10);
    merged.end();
    while merged.receive(&mut pool, &mut frames, 64).unwrap() == Received::More {}
    // Only the packets that it had read ahead.
    assert!((30..200).contains(&frames.len()), "{}", frames.len());
    assert_eq!(pool.outstanding(), frames.len());
    pool.give_all(&mut frames);
}

#[test]
fn an_output_goes_through_its_link_by_the_packets_times() {
    let mut pool = FramePool::with_layout(MemoryLayout::default());
    let inner = MemoryOutput::default();
    let settings = "loss=10%,duplicate=10%,delay=7ms,seed=5".parse().unwrap();
    let mut output = EmulatedOutput::new(Box::new(inner), settings, 0);
    for n in 0..500u64 {
        let meta = FrameMeta::received(Time(n * 1_000_000), 0);
        let mut frames = vec![pool.copy(&[n as u8; 60], meta).unwrap()];
        output.send(&mut pool, &mut frames).unwrap();
        assert!(pool.outstanding() < 20, "what has arrived is out");
    }
    output.finish(&mut pool).unwrap();
    assert_eq!(pool.outstanding(), 0);
    let counters = output.counters();
    assert_eq!(counters.packets + counters.dropped(), 500, "{counters:?}");
    assert!(
        counters.dropped() > 20 && counters.noticed.sum() > 20,
        "{counters:?}"
    );
}

/// An interface that takes what it is sent, and has something to do now.
#[derive(Default)]
struct Interface(MemoryOutput);

impl InputPort for Interface {
    fn receive(
        &mut self,
        _: &mut FramePool,
        _: &mut Vec<Frame>,
        _: usize,
    ) -> Result<Received, PortError> {
        Ok(Received::More)
    }
    fn counters(&self) -> PortCounters {
        PortCounters::default()
    }
}

impl OutputPort for Interface {
    fn send(&mut self, pool: &mut FramePool, frames: &mut Vec<Frame>) -> Result<(), PortError> {
        self.0.send(pool, frames)
    }
    fn finish(&mut self, pool: &mut FramePool) -> Result<(), PortError> {
        self.0.finish(pool)
    }
    fn counters(&self) -> PortCounters {
        self.0.counters()
    }
}

impl LivePort for Interface {
    fn mode(&self) -> &str {
        ""
    }
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
    fn descriptors<'a>(&'a self, _: &mut Vec<std::os::fd::BorrowedFd<'a>>) {}
    fn next_due(&self) -> Option<Time> {
        Some(Time(1))
    }
    fn check(&mut self) -> Result<(), PortError> {
        Ok(())
    }
    fn close(&mut self, _: &mut FramePool) {}
}

#[test]
fn copies_that_go_out_of_an_interface_are_not_counted() {
    let mut pool = FramePool::with_layout(MemoryLayout::default());
    for (settings, packets, left) in [
        ("duplicate=100%", 10, 0),
        ("duplicate=100%,delay=9s", 0, 10),
    ] {
        let options = LiveOptions {
            number: 0,
            side: weir_packet::Side::Inside,
            busy_poll: false,
            clock: LiveClock::start(),
        };
        let inner = Box::new(Interface::default());
        let mut port = EmulatedPort::new(inner, settings.parse().unwrap(), options);
        let meta = FrameMeta::received(Time(0), 0);
        let mut frames = (0..10)
            .map(|_| pool.copy(&[1; 60], meta).unwrap())
            .collect();
        port.send(&mut pool, &mut frames).unwrap();
        assert_eq!(port.next_due(), Some(Time(1)), "the interface's own");
        port.close(&mut pool);
        assert_eq!(pool.outstanding(), 0);
        let counters = OutputPort::counters(&port);
        assert_eq!(counters.noticed, [(PortNotice::EmulatedDuplicate, 10)]);
        let counted = (counters.packets, counters.bytes, counters.dropped());
        assert_eq!(counted, (packets, 60 * packets, left), "{settings}");
    }
}
