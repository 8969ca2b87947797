//! `weir man`: manual pages, made of the same definitions as `--help`, so that they tell of no
//! option that there is not.
//!
//! Own code and no crate: what stands behind the options in `--help` are tables and examples, which
//! a generator of pages would fill as prose.

mod page;
mod roff;

use std::fs;

use clap::{Command, CommandFactory as _};

use crate::args::{Args, Man};
use crate::exit::{Exit, Failure, Outcome};

/// Writes a page for the program and each of its commands.
pub(crate) fn man(args: &Man) -> Outcome {
    let folder = &args.folder;
    fs::create_dir_all(folder)
        .map_err(|error| Failure::outside(format!("can't make {}: {error}", folder.display())))?;
    for (name, text) in pages(args.date.as_deref().unwrap_or("")) {
        let path = folder.join(format!("{name}.1"));
        fs::write(&path, text).map_err(|error| {
            Failure::outside(format!("can't write {}: {error}", path.display()))
        })?;
    }
    Ok(Exit::Done)
}

/// All pages with their names, as `weir-nf-show`.
fn pages(date: &str) -> Vec<(String, String)> {
    let mut root = Args::command();
    root.build();
    let mut pages = Vec::new();
    add(&root, None, date, &mut pages);
    pages
}

/// The pages of a command and those below it.
fn add(command: &Command, above: Option<&str>, date: &str, pages: &mut Vec<(String, String)>) {
    let name = match above {
        Some(above) => format!("{above}-{}", command.get_name()),
        None => command.get_name().to_owned(),
    };
    pages.push((name.clone(), page::page(command, &name, above, date)));
    for below in page::shown(command) {
        add(below, Some(&name), date, pages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page of this name.
    fn page(name: &str) -> String {
        let all = pages("2026-11-28");
        let found = all.into_iter().find(|(page, _)| page == name);
        found.unwrap_or_else(|| panic!("no page {name}")).1
    }

    #[test]
    fn each_command_has_a_page_and_hidden_ones_have_none() {
        let names: Vec<String> = pages("").into_iter().map(|(name, _)| name).collect();
        for name in ["weir", "weir-run", "weir-nf", "weir-nf-show", "weir-man"] {
            assert!(names.iter().any(|n| n == name), "{name}: {names:?}");
        }
        let hidden = |name: &String| name.contains("engine-process") || name.ends_with("-help");
        assert!(!names.iter().any(hidden), "{names:?}");
    }

    /// Every option that `--help` shows is in the page, and none that it hides.
    #[test]
    fn a_page_has_the_options_of_the_help() {
        let run = page("weir-run");
        let mut root = Args::command();
        root.build();
        let command = root.find_subcommand("run").unwrap();
        let mut seen = 0;
        for arg in command.get_arguments() {
            let Some(long) = arg.get_long() else { continue };
            let word = format!("\\-\\-{}", long.replace('-', "\\-"));
            assert_eq!(run.contains(&word), !arg.is_hide_set(), "--{long}");
            seen += 1;
        }
        assert!(seen > 20, "{seen}");
    }

    #[test]
    fn examples_and_tables_keep_their_lines() {
        let run = page("weir-run");
        let (_, examples) = run.split_once(".SH EXAMPLES\n.nf\n").unwrap();
        assert!(examples.starts_with("weir run examples/monitor.yaml \\-\\-in capture.pcap\n"));
        assert!(page("weir").contains(".SH EXIT STATUS\n.nf\n"));
    }

    #[test]
    fn the_first_line_bears_date_and_version() {
        let head = format!(
            ".TH \"WEIR\\-NF\\-SHOW\" \"1\" \"2026-11-28\" \"weir {}\" \"Manual of weir\"\n",
            env!("CARGO_PKG_VERSION")
        );
        assert!(page("weir-nf-show").starts_with(&head), "{head}");
    }
}
