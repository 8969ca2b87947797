//! `weir nf new`: a function to start from, in a project of its own.

use std::fs;
use std::path::{Path, PathBuf};

use crate::args::NfNew;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

/// The files of a new project. In their text `{{name}}` is the function's
/// name, `{{Name}}` that of its type, `{{name_}}` that of its crate, and
/// `{{weir}}` the checkout. `src/lib.rs` is code that tests compile, so it has
/// the names of [`SAMPLE`] in these places.
const FILES: [(&str, &str); 5] = [
    ("Cargo.toml", include_str!("template/Cargo.toml.in")),
    ("src/lib.rs", include_str!("template/lib.rs")),
    ("src/main.rs", include_str!("template/main.rs.in")),
    ("chain.yaml", include_str!("template/chain.yaml.in")),
    (".gitignore", "/target\n"),
];

/// Name, name of the type, and name of the crate in `template/lib.rs`.
const SAMPLE: [&str; 3] = ["port-knock", "PortKnock", "port_knock"];

pub(crate) fn new(args: &NfNew) -> Outcome {
    let name = &args.name;
    check_name(name)?;
    let folder = args.path.clone().unwrap_or_else(|| PathBuf::from(name));
    let weir = checkout(args.weir.as_deref())?;
    if folder.is_file() || fs::read_dir(&folder).is_ok_and(|mut entries| entries.next().is_some()) {
        let message = format!(
            "{} is there already and not empty; name another folder with --path",
            folder.display()
        );
        return Err(Failure::outside(message));
    }
    for (path, text) in FILES {
        write(&folder.join(path), &fill(text, name, &weir))?;
    }
    // The checkout's lock file lets the project build without the network
    // where weir itself does.
    if let Ok(lock) = fs::read_to_string(weir.join("Cargo.lock")) {
        write(&folder.join("Cargo.lock"), &lock)?;
    }
    let shown = folder.display();
    output::line(&format!(
        "{shown}: a network function called {name}\n\n\
         \x20 cd {shown}\n\
         \x20 cargo test                  # its tests pass as written\n\
         \x20 cargo run -- run chain.yaml --in gen:flows=10,packets=1000\n\n\
         Edit src/lib.rs; docs/writing-an-nf.md of weir explains it.",
    ))?;
    Ok(Exit::Done)
}

fn check_name(name: &str) -> Result<(), Failure> {
    let words = name.split('-');
    let good = name.len() <= 40
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && words.into_iter().all(|word| {
            !word.is_empty()
                && word
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
        });
    if good {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "`{name}` can't be a function's name: use lower-case words joined by `-`, as `port-knock`"
    )))
}

/// The checkout of weir that the project is to build against.
fn checkout(given: Option<&Path>) -> Result<PathBuf, Failure> {
    let folder = given.unwrap_or(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")));
    let found = folder
        .join("crates/nf/Cargo.toml")
        .is_file()
        .then(|| folder.canonicalize().ok());
    found.flatten().ok_or_else(|| {
        Failure::outside(format!(
            "{} is no checkout of weir; give the folder of one with --weir",
            folder.display()
        ))
    })
}

fn fill(text: &str, name: &str, weir: &Path) -> String {
    let camel: String = name
        .split('-')
        .map(|word| {
            let (first, rest) = word.split_at(1.min(word.len()));
            first.to_ascii_uppercase() + rest
        })
        .collect();
    let names = [name.to_owned(), camel, name.replace('-', "_")];
    let marks = ["{{name}}", "{{Name}}", "{{name_}}"];
    let mut filled = text.replace("{{weir}}", &weir.display().to_string());
    for ((mark, sample), name) in marks.iter().zip(SAMPLE).zip(&names) {
        filled = filled.replace(mark, name).replace(sample, name);
    }
    filled
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, text))
        .map_err(|error| Failure::outside(format!("can't write {}: {error}", path.display())))
}
