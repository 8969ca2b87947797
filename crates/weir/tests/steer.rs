//! Steering against what one runtime takes for flows.

mod support;

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};

use support::traces;
use weir_io::port::{PortSpec, Received};
use weir_nf::Sources;
use weir_packet::{FramePool, MemoryLayout, Side};
use weir_runtime::{Runtime, RuntimeConfig, Steering};

struct Nothing;

impl Sources for Nothing {
    fn text(&mut self, name: &str) -> Result<String, String> {
        Err(format!("there is no {name}"))
    }
}

fn stage(text: &str) -> weir_nf::host::Stage {
    let input = weir_graph::Input {
        name: "c.yaml",
        text,
        kinds: weir_functions::kinds(),
        overrides: &[],
        seed: 1,
    };
    let file = weir_graph::load(&input, &mut Nothing).unwrap_or_else(|d| panic!("{d:?}"));
    file.chains[0].stage.clone()
}

fn all_files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all_files(&path, into);
        } else {
            into.push(path);
        }
    }
}

/// Steers all packets of a capture and lets one runtime say what its flows
/// are. Gives the numbers of packets and flows.
fn check(path: &Path, stage: &weir_nf::host::Stage, pool: &mut FramePool) -> (usize, usize) {
    let spec = PortSpec::Capture(path.to_owned());
    let Ok(mut input) = spec.open_input(0, Side::Inside) else {
        return (0, 0);
    };
    let mut runtime = Runtime::new(stage, RuntimeConfig::default()).unwrap();
    let mut steering = Steering::new(stage, 7, 3);
    // By number of the packet: its worker. By flow: the worker of all.
    let mut workers = HashMap::new();
    let mut flows: BTreeMap<u64, (u32, u64)> = BTreeMap::new();
    let (mut packets, mut out) = (Vec::new(), Vec::new());
    loop {
        let received = input.receive(pool, &mut packets, 64);
        for frame in &packets {
            let (meta, bytes) = pool.memory().read(frame);
            workers.insert(meta.sequence, steering.worker_of(meta, bytes));
        }
        runtime.process(pool, &mut packets, &mut out);
        for frame in out.drain(..) {
            let meta = *pool.memory().meta(&frame);
            if meta.unit != 0 {
                let worker = workers[&meta.sequence];
                let (first, number) = *flows.entry(meta.unit).or_insert((worker, meta.sequence));
                assert_eq!(
                    first,
                    worker,
                    "{}: packets {number} and {} of one flow",
                    path.display(),
                    meta.sequence
                );
            }
            pool.give(frame);
        }
        if !matches!(received, Ok(Received::More)) {
            break;
        }
    }
    runtime.finish(pool);
    (workers.len(), flows.len())
}

#[test]
fn each_flow_of_all_captures_has_one_worker() {
    let Some(traces) = traces() else { return };
    let mut files = Vec::new();
    all_files(&traces.join("traces"), &mut files);
    let mut pool = FramePool::with_layout(MemoryLayout::default());
    for options in [
        "max: 20000",
        "max: 20000, inner: true",
        "max: 20000, zone: false, malformed: pass",
        "max: 20000, icmp: addresses, timeouts: none, malformed: pass",
    ] {
        let stage = stage(&format!(
            "chain: c\nflows: {{track: always, {options}}}\nnfs: [nop]\n"
        ));
        assert_eq!(Steering::obstacle(&stage), None);
        let (mut packets, mut flows) = (0, 0);
        for path in files.iter().filter(|path| File::open(path).is_ok()) {
            let (more, new) = check(path, &stage, &mut pool);
            packets += more;
            flows += new;
        }
        assert!(packets > 10_000 && flows > 1_000, "{packets} {flows}");
        eprintln!("{options}: {packets} packets, {flows} flows");
        assert_eq!(pool.outstanding(), 0);
    }
}
