//! Tests that need no privilege; live traffic is in `crates/weir/tests/live.rs`.

use weir_packet::MemoryLayout;

use super::*;
use crate::port::PortSpec;

#[test]
fn ports_are_read_and_written_alike() {
    for text in [
        "af-packet:eth0",
        "tap:weir0",
        "xdp:eth0",
        "xdp:eth0:4",
        "xdp:eth0:4:native",
        "xdp:eth0:generic",
    ] {
        let (name, spec) = PortSpec::parse(text).unwrap();
        assert_eq!(name, None);
        assert_eq!(spec.live().unwrap().to_string(), text);
        assert_eq!(
            spec.live().unwrap().interface().len(),
            if text.contains("weir0") { 5 } else { 4 }
        );
    }
    let (name, spec) = PortSpec::parse("lan=xdp:eth0:generic:2").unwrap();
    assert_eq!(name, Some("lan"));
    assert_eq!(spec.live().unwrap().to_string(), "xdp:eth0:2:generic");
}

#[test]
fn ports_that_make_no_sense_are_refused() {
    for text in [
        "af-packet:",
        "tap:a/b",
        "tap:a name",
        "af-packet:an-interface-name",
        "xdp:eth0:0",
        "xdp:eth0:65",
        "xdp:eth0:1:2",
        "xdp:eth0:native:generic",
        "xdp:eth0:fast",
        "xdp::1",
        "af-packet:..",
    ] {
        let error = PortSpec::parse(text).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
}

#[test]
fn a_missing_interface_is_named() {
    for text in ["af-packet:weir-none", "xdp:weir-none"] {
        let (_, spec) = PortSpec::parse(text).unwrap();
        let mut pool = FramePool::with_layout(MemoryLayout::default());
        let options = LiveOptions {
            number: 0,
            side: weir_packet::Side::Inside,
            busy_poll: false,
            clock: LiveClock::start(),
        };
        let error = spec.live().unwrap().open(options, &mut pool).err().unwrap();
        let error = error.to_string();
        assert!(
            error.contains(text) && error.contains("no interface weir-none"),
            "{error}"
        );
        let files = spec.open_output(0).err().unwrap().to_string();
        assert!(files.contains("can't be used here"), "{files}");
    }
}

#[test]
fn frames_are_the_smallest_that_an_mtu_fits() {
    for (mtu, chunk) in [
        (68, Some(2_048)),
        (1_500, Some(2_048)),
        (1_706, Some(2_048)),
        (1_707, Some(4_096)),
        (xdp::LARGEST_MTU, Some(4_096)),
        (xdp::LARGEST_MTU + 1, None),
        (u32::MAX, None),
    ] {
        assert_eq!(xdp::chunk_for(mtu), chunk, "{mtu}");
    }
    for (queues, slots) in [(1, 4_096), (4, 4_096), (5, 2_048), (64, 256)] {
        assert_eq!(xdp::slots_for(queues), slots, "{queues}");
    }
    assert_eq!(live_layout([]).unwrap(), MemoryLayout::default());
}

#[test]
fn the_clock_is_that_of_the_day_and_does_not_go_back() {
    let clock = LiveClock::start();
    let day = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let mut last = clock.now();
    assert!(last.0.abs_diff(day.as_nanos() as u64) < 1_000_000_000);
    for _ in 0..1_000 {
        let now = clock.now();
        assert!(now >= last);
        last = now;
    }
}

#[test]
fn waiting_spins_first_and_sleeps_then() {
    let (reader, writer) = std::io::pipe().unwrap();
    let fds = [std::os::fd::AsFd::as_fd(&reader)];
    let mut waiter = Waiter::default();
    let most = std::time::Duration::from_millis(20);
    assert!(waiter.spin(), "the first time it spins");
    while waiter.spin() {}
    let began = std::time::Instant::now();
    waiter.sleep(&fds, most).unwrap();
    assert!(began.elapsed() >= most && waiter.asleep() >= most);
    // Data that is there wakes it.
    std::io::Write::write_all(&mut &writer, b"x").unwrap();
    waiter
        .sleep(&fds, std::time::Duration::from_secs(60))
        .unwrap();
    assert!(began.elapsed().as_secs() < 50);
    waiter.busy();
    assert!(waiter.spin());
}
