//! One manual page.

use std::fmt::Write as _;

use clap::{Arg, Command};

use super::roff::{bold, marked, plain, sections};

/// The page of a command; `above` is the name of the page of the command that it belongs to.
pub(super) fn page(command: &Command, name: &str, above: Option<&str>, date: &str) -> String {
    let about = command.get_about().map(ToString::to_string);
    let about = about.unwrap_or_default();
    let mut out = format!(
        ".TH \"{}\" \"1\" \"{}\" \"weir {}\" \"Manual of weir\"\n",
        plain(&name.to_uppercase()),
        date.replace('"', ""),
        env!("CARGO_PKG_VERSION"),
    );
    // Whatever the reader's defaults: left-aligned, no words cut.
    out.push_str(".nh\n.ad l\n");
    let line = about.split_whitespace().collect::<Vec<_>>().join(" ");
    let _ = write!(
        out,
        ".SH NAME\n{} \\- {}\n",
        plain(name),
        plain(line.trim_end_matches('.'))
    );
    synopsis(command, &mut out);
    description(command, &about, &mut out);
    arguments(command, &mut out);
    commands(command, name, &mut out);
    if let Some(text) = command.get_after_help() {
        out.push_str(&sections(&text.to_string()));
    }
    see_also(command, name, above, &mut out);
    out
}

/// How it is called.
fn synopsis(command: &Command, out: &mut String) {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.strip_prefix("Usage:").unwrap_or(&usage);
    out.push_str(".SH SYNOPSIS\n.nf\n");
    for line in usage.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let _ = writeln!(out, "{}", plain(line));
    }
    out.push_str(".fi\n");
}

fn description(command: &Command, about: &str, out: &mut String) {
    let long = command.get_long_about().map(ToString::to_string);
    let text = long.as_deref().unwrap_or(about);
    let end = if text.ends_with('.') { "" } else { "." };
    let _ = write!(out, ".SH DESCRIPTION\n{}{end}\n", paragraphs(text));
}

/// Its words and its options, as `--help` has them.
fn arguments(command: &Command, out: &mut String) {
    let mut shown: Vec<&Arg> = command
        .get_arguments()
        .filter(|arg| !arg.is_hide_set())
        .collect();
    // Words first, and --help and --version last, as in `--help`.
    shown.sort_by_key(|arg| match arg.get_id().as_str() {
        "help" | "version" => 2,
        _ => u8::from(!arg.is_positional()),
    });
    let (words, options): (Vec<&Arg>, Vec<&Arg>) =
        shown.into_iter().partition(|arg| arg.is_positional());
    for (title, args) in [("ARGUMENTS", words), ("OPTIONS", options)] {
        if !args.is_empty() {
            let _ = writeln!(out, ".SH {title}");
        }
        for arg in args {
            argument(arg, out);
        }
    }
}

fn argument(arg: &Arg, out: &mut String) {
    let short = arg.get_short().filter(|_| arg.get_long().is_some());
    let short = short.map(|c| format!("{}, ", bold(&format!("-{c}"))));
    let _ = write!(
        out,
        ".TP\n{}{}\n",
        short.unwrap_or_default(),
        bold(&arg.to_string())
    );
    let help = arg.get_long_help().or_else(|| arg.get_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let _ = writeln!(out, "{}", paragraphs(&help));
    let takes = arg.get_action().takes_values();
    let values: Vec<String> = if takes && !arg.is_hide_possible_values_set() {
        let all = arg.get_possible_values().into_iter();
        let seen = all.filter(|value| !value.is_hide_set());
        seen.map(|value| bold(value.get_name())).collect()
    } else {
        Vec::new()
    };
    if !values.is_empty() {
        let _ = write!(out, ".br\nPossible values: {}.\n", values.join(", "));
    }
    let defaults: Vec<String> = arg
        .get_default_values()
        .iter()
        .map(|value| bold(&value.to_string_lossy()))
        .collect();
    if takes && !defaults.is_empty() && !arg.is_hide_default_value_set() {
        let _ = write!(out, ".br\nDefault: {}.\n", defaults.join(", "));
    }
}

/// The commands below it.
fn commands(command: &Command, name: &str, out: &mut String) {
    let mut below = shown(command).peekable();
    if below.peek().is_some() {
        out.push_str(".SH COMMANDS\n");
    }
    for command in below {
        let page = bold(&format!("{name}-{}", command.get_name()));
        let about = command.get_about().map(ToString::to_string);
        let about = about.unwrap_or_default();
        let _ = write!(out, ".TP\n{page}(1)\n{}\n", marked(&about));
    }
}

/// The pages around it, and where the rest is written.
fn see_also(command: &Command, name: &str, above: Option<&str>, out: &mut String) {
    let below = shown(command).map(|below| format!("{name}-{}", below.get_name()));
    let pages: Vec<String> = above.map(str::to_owned).into_iter().chain(below).collect();
    out.push_str(".SH SEE ALSO\n");
    if !pages.is_empty() {
        let pages: Vec<String> = pages.iter().map(|p| format!("{}(1)", bold(p))).collect();
        let _ = writeln!(out, "{}", pages.join(",\n"));
    }
    let _ = write!(
        out,
        ".PP\nThe manuals: {}, and where weir is a package {}.\n",
        plain(concat!(env!("CARGO_PKG_REPOSITORY"), "/tree/main/docs")),
        plain("/usr/share/doc/weir/docs"),
    );
}

/// Paragraphs with empty lines between them.
fn paragraphs(text: &str) -> String {
    let all: Vec<String> = text.trim().split("\n\n").map(marked).collect();
    all.join("\n.sp\n")
}

/// The commands of a command that people use.
pub(super) fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command
        .get_subcommands()
        .filter(|below| !below.is_hide_set() && below.get_name() != "help")
}
