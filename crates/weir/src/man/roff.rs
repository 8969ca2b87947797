//! Text for the macros of man(7).

use std::fmt::Write as _;

/// Text as roff prints it as it is: nothing in it is a request or an escape.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut start = true;
    for c in text.chars() {
        // A line that begins with one of these would be a request.
        if start && matches!(c, '.' | '\'') {
            out.push_str("\\&");
        }
        start = c == '\n';
        match c {
            '\\' => out.push_str("\\e"),
            '-' => out.push_str("\\-"),
            '\'' => out.push_str("\\(aq"),
            '`' => out.push_str("\\(ga"),
            '"' => out.push_str("\\(dq"),
            '^' => out.push_str("\\(ha"),
            '~' => out.push_str("\\(ti"),
            c if c.is_ascii() => out.push(c),
            // Pages are ASCII, so that no reader has to guess their encoding.
            c => {
                let _ = write!(out, "\\[u{:04X}]", u32::from(c));
            }
        }
    }
    out
}

/// The same in bold.
pub(super) fn bold(text: &str) -> String {
    format!("\\fB{}\\fR", plain(text))
}

/// A text with names `in back-ticks`, which become bold.
pub(super) fn marked(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    // Without a partner it is a back-tick.
    if parts.len().is_multiple_of(2) {
        return plain(text);
    }
    let mut out = String::new();
    for (i, part) in parts.into_iter().enumerate() {
        if i.is_multiple_of(2) {
            // In the midst of a line nothing is a request.
            let text = plain(part);
            let text = match text.strip_prefix("\\&") {
                Some(rest) if i > 0 => rest,
                _ => &text,
            };
            out.push_str(text);
        } else {
            out.push_str(&bold(part));
        }
    }
    out
}

/// A text behind the options of `--help`: a line that ends with a colon heads a section; indented
/// lines (tables, examples) stay as they are, others are filled.
pub(super) fn sections(text: &str) -> String {
    let mut out = String::new();
    let mut kept = false;
    let mut begun = false;
    for line in text.lines() {
        let heading = line.strip_suffix(':').filter(|title| {
            title.starts_with(|c: char| c.is_ascii_uppercase()) && title.split(' ').count() <= 3
        });
        let indented = line.starts_with(' ');
        if kept && !indented && !line.is_empty() {
            out.push_str(".fi\n");
            kept = false;
            begun = false;
        }
        if let Some(title) = heading {
            let _ = writeln!(out, ".SH {}", section(title));
            begun = true;
        } else if line.is_empty() {
            begun = false;
        } else if indented {
            if !kept {
                out.push_str(if begun { ".nf\n" } else { ".PP\n.nf\n" });
                kept = true;
            }
            out.push_str(&marked(line.strip_prefix("  ").unwrap_or(line)));
            out.push('\n');
        } else {
            if !begun {
                out.push_str(".PP\n");
                begun = true;
            }
            out.push_str(&marked(line));
            out.push('\n');
        }
    }
    if kept {
        out.push_str(".fi\n");
    }
    out
}

/// A section's name, as man-pages(7) has it where it has one.
fn section(title: &str) -> String {
    match title {
        "Exit codes" => "EXIT STATUS".to_owned(),
        title => plain(&title.to_uppercase()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_is_a_request_or_an_escape() {
        assert_eq!(plain(".SH x\n'y"), "\\&.SH x\n\\&\\(aqy");
        assert_eq!(plain("a\\fB-b"), "a\\efB\\-b");
        assert_eq!(plain("1…2"), "1\\[u2026]2");
    }

    #[test]
    fn names_in_back_ticks_are_bold() {
        assert_eq!(marked("as `a-b`'s"), "as \\fBa\\-b\\fR\\(aqs");
        assert_eq!(marked("one ` alone"), "one \\(ga alone");
        assert_eq!(marked("`a`.b"), "\\fBa\\fR.b");
    }

    #[test]
    fn prose_is_filled_and_tables_are_kept() {
        let text =
            "Some prose.\n\nPorts:\n  a   one\n  b   two\nMore\nprose.\n\nExamples:\n  weir x";
        let want = ".PP\nSome prose.\n.SH PORTS\n.nf\na   one\nb   two\n.fi\n.PP\nMore\nprose.\n\
                    .SH EXAMPLES\n.nf\nweir x\n.fi\n";
        assert_eq!(sections(text), want);
    }
}
