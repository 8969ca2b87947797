//! Any text as a chain file with all stock functions: it is a chain, or a list
//! of errors whose places exist.

use weir_graph::{Input, Override, Severity, describe, load, render};
use weir_nf::Sources;
use weir_runtime::{Runtime, RuntimeConfig};

/// Most flows and bytes that a chain may ask for and still be run here.
const SMALL: (u32, usize) = (1 << 12, 1 << 20);

/// Gives the input itself for every text that a chain names.
struct Texts<'a>(&'a str);

impl Sources for Texts<'_> {
    fn text(&mut self, name: &str) -> Result<String, String> {
        if name.contains("missing") {
            return Err("it is missing".into());
        }
        Ok(self.0.to_owned())
    }
}

/// The input is the file; behind a NUL come overrides, one a line, and behind
/// another the text of every file that the chain names.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut parts = text.splitn(3, '\0');
    let file = parts.next().unwrap_or("");
    let overrides: Vec<Override> = parts
        .next()
        .unwrap_or("")
        .lines()
        .take(8)
        .filter_map(|line| line.parse().ok())
        .collect();
    let mut sources = Texts(parts.next().unwrap_or(""));
    let input = Input {
        name: "fuzz.yaml",
        text: file,
        kinds: weir_functions::kinds(),
        overrides: &overrides,
        seed: 1,
    };
    match load(&input, &mut sources) {
        Err(list) => {
            assert!(
                list.iter().any(|d| d.severity == Severity::Error),
                "an error says why"
            );
            assert!(!render(&list).is_empty());
            for found in list.iter().filter(|d| d.file == "fuzz.yaml") {
                let lines = 1 + file.bytes().filter(|b| b"\r\n".contains(b)).count();
                assert!(
                    found.line >= 1 && found.line <= lines,
                    "no such line: {found:?}"
                );
            }
        }
        Ok(found) => {
            let _ = render(&found.warnings);
            for chain in &found.chains {
                assert!(!describe(chain).to_string().is_empty());
                let flows = &chain.stage.flows;
                if flows.max <= SMALL.0
                    && flows.buffer_bytes <= SMALL.1
                    && flows.held_fragments < 1_000
                {
                    Runtime::new(&chain.stage, RuntimeConfig::default())
                        .expect("what was checked can be run");
                }
            }
        }
    }
}
