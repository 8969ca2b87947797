//! `weir nf new` writes a project that builds and passes its tests as written,
//! and the guide shows the code of that very project.

// The function of a new project, with its tests.
// It is a crate there, so its items are public.
#[allow(unreachable_pub)]
#[path = "../src/nf/template/lib.rs"]
mod port_knock;
#[path = "support/process.rs"]
mod process;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use process::{signal, wait_for};
use weir_packet::{FrameMeta, FramePool, MemoryLayout, Side, Time};
use weir_runtime::harness::{Craft, Harness};
use weir_runtime::{Runtime, RuntimeConfig};

fn weir(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(arguments)
        .output()
        .expect("weir runs")
}

fn fresh(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_project_builds_and_passes_its_tests() {
    let folder = fresh("port-knock");
    let made = weir(&[
        "nf",
        "new",
        "port-knock",
        "--path",
        &folder.display().to_string(),
    ]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let cargo = |arguments: &[&str]| {
        Command::new(env!("CARGO"))
            .args(arguments)
            .current_dir(&folder)
            // What the workspace needed is here already; the rest must not be
            // fetched behind a test's back.
            .env("CARGO_NET_OFFLINE", "true")
            .env(
                "CARGO_TARGET_DIR",
                Path::new(env!("CARGO_TARGET_TMPDIR")).join("nf-new-target"),
            )
            .env("CARGO_PROFILE_DEV_DEBUG", "false")
            .output()
            .expect("cargo runs")
    };
    let tested = cargo(&["test"]);
    let said = text(&tested.stdout);
    assert!(tested.status.success(), "{said}\n{}", text(&tested.stderr));
    assert!(said.contains("4 passed; 0 failed"), "{said}");
    let run = cargo(&[
        "run",
        "-q",
        "--",
        "run",
        "chain.yaml",
        "--audit",
        "--in",
        "gen:flows=10,packets=1000",
        "--output",
        "json",
    ]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    let summary: serde_json::Value = serde_json::from_slice(&run.stdout).expect("a summary");
    assert_eq!(summary["drops"]["port-knock.unanswered"], 950);
}

/// A project whose function's state has had two versions: the programs with either.
fn two_releases(folder: &Path) -> [PathBuf; 2] {
    let path = folder.display().to_string();
    let made = weir(&["nf", "new", "knock-again", "--path", &path]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let built = |name: &str| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nf-new-target");
        let cargo = Command::new(env!("CARGO"))
            .arg("build")
            .current_dir(folder)
            .env("CARGO_NET_OFFLINE", "true")
            .env("CARGO_TARGET_DIR", &target)
            .env("CARGO_PROFILE_DEV_DEBUG", "false")
            .output()
            .expect("cargo runs");
        assert!(cargo.status.success(), "{}", text(&cargo.stderr));
        let program = folder.join(name);
        std::fs::copy(target.join("debug/knock-again"), &program).unwrap();
        program
    };
    let first = built("first");
    let source = folder.join("src/lib.rs");
    let mut code = std::fs::read_to_string(&source).unwrap();
    for (before, after) in [
        (
            "    answered: u32,\n}",
            "    answered: u32,\n    /// 1 where an earlier release began it.\n    upgraded: u64,\n}",
        ),
        (
            "    const VERSION: u16 = 1;",
            "    const VERSION: u16 = 2;\n    const OLDEST: u16 = 1;",
        ),
        (
            "    fn close(&self",
            "    fn upgrade(&self, version: u16, old: &[u8]) -> Option<Waiting> {\n        \
             let old: [u8; 8] = old.try_into().ok().filter(|_| version == 1)?;\n        \
             let [a, b, c, d, e, f, g, h] = old;\n        \
             Some(Waiting {\n            unanswered: u32::from_le_bytes([a, b, c, d]),\n            \
             answered: u32::from_le_bytes([e, f, g, h]),\n            upgraded: 1,\n        })\n    }\n\n    \
             fn close(&self",
        ),
        (
            ".text(\"reason\"",
            ".number(\"upgraded\", flow.state.upgraded)\n                .text(\"reason\"",
        ),
    ] {
        assert!(code.contains(before), "{before}");
        code = code.replace(before, after);
    }
    std::fs::write(&source, code).unwrap();
    [first, built("second")]
}

/// A process that ends with the test, however that ends.
struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A release that has the state in another version takes the flows of the one before, and none that
/// does not read it.
#[test]
fn states_go_from_one_version_to_the_next() {
    const FLOWS: usize = 60;
    let folder = fresh("knock-again");
    let [first, second] = two_releases(&folder);
    let composition = format!(
        "composition: knock\nchain: chain.yaml\nswitch: alpha\nreplication: each-burst\n\
         heartbeat: 2s\nports: {{in: 'gen:flows={FLOWS},packets=100000000000'}}\n\
         hosts:\n  - {{name: alpha}}\n  - {{name: beta, runtimes: 2}}\n  - {{name: gamma, runtimes: 1}}\n"
    );
    let file = folder.join("cluster.yaml");
    std::fs::write(&file, composition).unwrap();
    let (socket, events) = (folder.join("it.sock"), folder.join("events.json"));
    let cluster = Command::new(&first)
        .args(["up", "--quiet", "--control"])
        .args([&socket, Path::new("--events"), &events, &file])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn();
    let mut cluster = Killed(cluster.expect("it starts"));
    let ask = |words: &[&str]| {
        let more = ["-i", socket.to_str().unwrap()];
        let ran = weir(&[words, &more].concat());
        (ran.status.code(), text(&ran.stdout), text(&ran.stderr))
    };
    wait_for("all flows", || {
        let (_, said, _) = ask(&["flows", "--output", "json"]);
        let listed: serde_json::Value = serde_json::from_str(&said).ok()?;
        (listed["active"].as_u64()? == FLOWS as u64).then_some(())
    });
    let to = ["upgrade", "--to", second.to_str().unwrap()];
    let (code, _, why) = ask(&to);
    assert_eq!(code, Some(1), "{why}");
    assert!(
        why.contains("`knock-again` goes from version 1 to 2"),
        "{why}"
    );
    let forward = ["--no-way-back", "--timeout", "120"];
    let (code, said, why) = ask(&[&to[..], &forward].concat());
    assert_eq!(code, Some(0), "{said}{why}");
    let (code, _, why) = ask(&["upgrade", "--rollback"]);
    assert_eq!(code, Some(1), "{why}");
    assert!(why.contains("has version 2"), "{why}");
    signal(cluster.0.id(), rustix::process::Signal::TERM);
    assert!(cluster.0.wait().unwrap().success());
    let events = std::fs::read_to_string(&events).unwrap();
    let ended: Vec<&str> = (events.lines())
        .filter(|line| line.contains("\"unanswered\":"))
        .collect();
    assert_eq!(ended.len(), FLOWS);
    for line in ended {
        assert!(line.contains("\"unanswered\":5,\"upgraded\":1,"), "{line}");
    }
}

mod packet_api {
    use weir_packet::Packet;
    use weir_packet::checksum::Change;
    use weir_packet::ipv4::Ipv4ViewMut;

    /// Marks HTTP requests with a DSCP of 10, and keeps the checksum right.
    fn mark(packet: &mut Packet<'_>) -> Option<()> {
        let headers = *packet.headers();
        let (_, server) = headers.ports(packet.bytes())?;
        if !headers.is_tcp() || server != 80 || !packet.payload().starts_with(b"GET ") {
            return None;
        }
        let mut ip = Ipv4ViewMut::of(packet.bytes_mut(), &headers)?;
        let (old, new) = (ip.tos(), 10 << 2 | ip.tos() & 3);
        ip.set_tos(new);
        // The first two octets of the header are one word of the checksum.
        let change = Change::new().word(0x4500 | u16::from(old), 0x4500 | u16::from(new));
        ip.set_checksum(change.apply(ip.checksum()));
        Some(())
    }

    #[test]
    fn the_guides_example_marks_requests() {
        use weir_packet::{FrameMeta, LinkType, checksum};
        use weir_runtime::harness::Craft;

        let ask = Craft::tcp("10.0.0.1:4000", "192.0.2.1:80").payload(b"GET / HTTP/1.1\r\n\r\n");
        let mut bytes = ask.build();
        let options = weir_packet::ParseOptions::default();
        let mut headers = weir_packet::parse(&bytes, LinkType::Ethernet, &options).unwrap();
        let mut meta = FrameMeta::default();
        meta.len = bytes.len() as _;
        super::packet_api::mark(&mut Packet::new(&mut meta, &mut bytes, &mut headers)).unwrap();
        assert_eq!(bytes[15], 10 << 2);
        assert_eq!(
            checksum::check_ipv4(&bytes, &headers),
            checksum::Verdict::Good
        );
    }
}

/// What `--audit` says of the new project's function.
fn lies(settings: port_knock::Settings) -> Vec<String> {
    let builder = Harness::builder().with::<port_knock::PortKnock>(settings);
    let stage = builder.expect("sound settings").stage();
    let config = RuntimeConfig {
        event_bytes: 1 << 20,
        audit: true,
        ..RuntimeConfig::default()
    };
    let mut runtime = Runtime::new(&stage, config).expect("it can be run");
    let mut pool = FramePool::with_layout(MemoryLayout::default());
    let (client, server) = ("10.0.0.1:4000", "192.0.2.1:53");
    let asks = Craft::udp(client, server).payload(b"?").build();
    let answers = Craft::udp(server, client).payload(b"!").build();
    let never = Craft::udp("10.0.0.2:4000", server).payload(b"?").build();
    let (mut input, mut output) = (Vec::new(), Vec::new());
    for (number, bytes) in [&never, &asks, &answers, &asks, &never, &never, &never]
        .into_iter()
        .enumerate()
    {
        let mut meta = FrameMeta::received(Time(1_000 * number as u64), 0);
        meta.sequence = number as u64 + 1;
        meta.side = match bytes == &answers {
            true => Side::Outside,
            false => Side::Inside,
        };
        input.extend(pool.copy(bytes, meta));
        runtime.process(&mut pool, &mut input, &mut output);
        pool.give_all(&mut output);
    }
    runtime.finish(&mut pool);
    assert_eq!(runtime.report().functions[0].packets, 7);
    runtime.lies().iter().map(ToString::to_string).collect()
}

#[test]
fn the_descriptor_of_the_new_function_says_all_that_it_does() {
    assert_eq!(
        lies(port_knock::Settings { limit: 2 }),
        Vec::<String>::new()
    );
}

#[test]
fn nothing_is_overwritten_and_names_are_checked() {
    let folder = fresh("taken");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("mine.txt"), "mine").expect("a file");
    let refused = weir(&[
        "nf",
        "new",
        "taken",
        "--path",
        &folder.display().to_string(),
    ]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("not empty"));
    assert_eq!(std::fs::read_dir(&folder).expect("the folder").count(), 1);
    for name in ["", "Port", "a--b", "-a", "a_b", "1a"] {
        let refused = weir(&["nf", "new", "--", name]);
        assert_eq!(refused.status.code(), Some(2), "{name}");
    }
    let nowhere = weir(&[
        "nf",
        "new",
        "fine",
        "--path",
        "/dev/null/x",
        "--weir",
        "/dev/null",
    ]);
    assert!(text(&nowhere.stderr).contains("--weir"));
}

mod settings_that_change {
    use weir_nf::prelude::*;

    #[derive(Clone, Debug, Default, PartialEq, serde::Deserialize, schemars::JsonSchema)]
    struct Settings {
        ports: Vec<u16>,
    }

    struct Counted {
        ports: Vec<u16>,
    }

    impl NetworkFunction for Counted {
        type Settings = Settings;
        type State = ();
        type Stats = ();
        type FlowState = ();

        const DESCRIPTOR: Descriptor = Descriptor::new("counted", "counts flows to some ports");

        fn new(settings: Settings, _: &mut SetUp<'_>) -> Result<Counted, SettingsError> {
            let Settings { ports } = settings;
            Ok(Counted { ports })
        }

        fn replaces(&self, before: &Self) -> Result<(), SettingsError> {
            match self.ports == before.ports {
                true => Ok(()),
                false => Err(SettingsError::new("ports", "flows count by them")),
            }
        }
    }

    #[test]
    fn the_guides_example_refuses_other_ports_alone() {
        use weir_nf::host::bind;

        let of = |ports: &[u16]| {
            let ports = ports.to_vec();
            bind(Counted { ports })
        };
        let (one, same, other) = (of(&[80]), of(&[80]), of(&[443]));
        assert!(same.replaces(&*one).is_ok());
        let refused = other.replaces(&*one).unwrap_err();
        assert_eq!(refused.path, "ports");
    }
}

#[test]
fn the_guide_shows_the_code_of_the_template() {
    // The code of modules is one level further in.
    let here = include_str!("nf_new.rs").replace("\n    ", "\n");
    let sources = [include_str!("../src/nf/template/lib.rs"), &here];
    let guide = include_str!("../../../docs/writing-an-nf.md");
    let mut blocks = 0;
    for block in guide.split("```rust\n").skip(1) {
        let code = block.split("```").next().unwrap_or("");
        assert!(
            sources.iter().any(|text| text.contains(code.trim_end())),
            "not in the template, nor in this test:\n{code}"
        );
        blocks += 1;
    }
    assert!(blocks >= 6, "the guide has lost its code");
}
