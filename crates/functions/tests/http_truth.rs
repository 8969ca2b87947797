//! The requests that `http` reports against those that tshark finds, trace by
//! trace, and again after every trace was cut into other segments.

mod support;

use std::collections::BTreeMap;
use std::path::Path;

use weir_functions::http::{Http, Settings};
use weir_io::capture::{OwnedRecord, ResegmentOptions, resegment};
use weir_runtime::harness::Harness;

/// How often a request (method, URI) was seen.
type Requests = BTreeMap<(String, String), u32>;

/// What tshark found: requests over TCP.
fn truth(file: &Path) -> Requests {
    let mut requests = Requests::new();
    // Rows without a TCP stream are SSDP over UDP.
    let Ok(text) = std::fs::read(file) else {
        return requests;
    };
    let text = String::from_utf8_lossy(&text);
    for row in text.lines().skip(1) {
        let columns: Vec<&str> = row.split('\t').collect();
        let [_, stream, _, _, _, _, _, _, methods, _, uris, ..] = columns[..] else {
            panic!("{}: {row:?}", file.display());
        };
        if stream.is_empty() {
            continue;
        }
        let methods: Vec<&str> = methods.split('|').collect();
        let uris: Vec<&str> = if methods.len() == 1 {
            vec![uris]
        } else {
            uris.split('|').collect()
        };
        assert_eq!(methods.len(), uris.len(), "{}: {row:?}", file.display());
        for (method, uri) in methods.iter().zip(uris) {
            *requests
                .entry((method.to_string(), uri.to_owned()))
                .or_default() += 1;
        }
    }
    requests
}

/// What `http` reports.
fn reported(packets: &[OwnedRecord]) -> Requests {
    let mut harness = Harness::builder()
        .with::<Http>(Settings::default())
        .unwrap()
        .flows(support::inner_flows())
        .build();
    let mut requests = Requests::new();
    for event in support::run(&mut harness, packets) {
        assert_eq!(event["event_type"], "http");
        let http = &event["http"];
        if let (Some(method), Some(url)) = (http["http_method"].as_str(), http["url"].as_str()) {
            *requests
                .entry((method.to_owned(), url.to_owned()))
                .or_default() += 1;
        }
    }
    requests
}

/// Requests of `a` that are missing in `b`, in words.
fn missing(a: &Requests, b: &Requests) -> Vec<String> {
    a.iter()
        .filter_map(|(request, &n)| {
            let found = b.get(request).copied().unwrap_or(0);
            (found < n).then(|| {
                let uri: String = request.1.chars().take(100).collect();
                format!("{} × {} {uri}", n - found, request.0)
            })
        })
        .collect()
}

/// Judges all traces after `prepare`; gives (agreeing, judged, disagreeing).
fn judge(
    prepare: impl Fn(Vec<OwnedRecord>) -> Vec<OwnedRecord>,
    only_http: bool,
) -> Option<(usize, usize, Vec<String>)> {
    let traces = support::traces()?;
    let summary = std::fs::read_to_string(traces.join("truth/summary.tsv")).unwrap();
    let (mut agree, mut judged, mut wrong) = (0, 0, Vec::new());
    for row in summary.lines().skip(1) {
        let name = row.split('\t').next().unwrap();
        let capture = traces.join("traces").join(name);
        if !capture.exists() {
            // Straight to standard error: the harness keeps what a passed test prints.
            let _ = std::io::Write::write_all(
                &mut std::io::stderr(),
                format!("SKIPPED: {name} is not there\n").as_bytes(),
            );
            continue;
        }
        let list = traces
            .join("truth/http")
            .join(format!("{}.tsv", name.replacen('/', "_", 1)));
        let expected = truth(&list);
        if only_http && expected.is_empty() {
            continue;
        }
        judged += 1;
        let found = reported(&prepare(support::load(&capture)));
        if found == expected {
            agree += 1;
            continue;
        }
        println!(
            "{name}: {} expected, {} found",
            expected.values().sum::<u32>(),
            found.values().sum::<u32>()
        );
        for line in missing(&expected, &found).iter().take(12) {
            println!("  missing: {line}");
        }
        for line in missing(&found, &expected).iter().take(12) {
            println!("  extra: {line}");
        }
        wrong.push(name.to_owned());
    }
    Some((agree, judged, wrong))
}

fn check(result: Option<(usize, usize, Vec<String>)>) {
    let Some((agree, judged, wrong)) = result else {
        return;
    };
    println!("{agree} of {judged} traces agree; not: {wrong:?}");
    assert!(judged > 100, "too few traces: {judged}");
    assert!(
        agree * 100 >= judged * 97,
        "{agree} of {judged} traces agree; not: {wrong:?}"
    );
}

#[test]
fn requests_are_those_that_tshark_finds() {
    check(judge(|packets| packets, false));
}

/// Judged over the traces that have requests only: the others can't fail in
/// a new way by being cut.
#[test]
fn requests_are_the_same_in_other_segments() {
    for seed in [1, 2] {
        check(judge(
            |packets| resegment(&packets, &ResegmentOptions::default(), seed),
            true,
        ));
    }
}
