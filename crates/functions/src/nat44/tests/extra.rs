
#[test]
fn minutes_of_silence_free_the_port_and_are_logged() {
    let mut harness = Harness::of::<Nat44>(settings());
    assert!(out(&mut harness, Craft::udp, "10.0.0.1:5000", "192.0.2.1:53").is_some());
    harness.events();
    harness.pass_ms(299_000);
    assert_eq!(harness.report().flows.leased, 1, "five minutes are not over");
    assert!(harness.events().is_empty());
    harness.pass_ms(2_000);
    assert_eq!(harness.report().flows.leased, 0);
    let events = harness.events();
    assert!(
        events.len() == 1 && events[0].contains("\"delete\""),
        "{events:?}"
    );
    harness.finish();
}
