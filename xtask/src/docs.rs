//! Documents: links in them lead somewhere, and what exists is told of.

use crate::Finding;

/// Relative links of a Markdown text, with their lines.
pub(crate) fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        let mut rest = line;
        while let Some((_, after)) = rest.split_once("](") {
            let target = after.split(')').next().unwrap_or("");
            rest = after;
            let target = target.split('#').next().unwrap_or("");
            if !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:") {
                found.push((number + 1, target.to_owned()));
            }
        }
    }
    found
}

/// Links of the document at `path` that lead nowhere.
pub(crate) fn check(path: &str, text: &str, exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    links(text)
        .into_iter()
        .filter(|(_, target)| !exists(&join(folder, target)))
        .map(|(line, target)| Finding {
            path: path.to_owned(),
            line,
            text: format!("the link to {target} leads nowhere"),
        })
        .collect()
}

/// A finding for each of `names` that `text` does not have as a word.
pub(crate) fn mentions(path: &str, text: &str, what: &str, names: &[String]) -> Vec<Finding> {
    let word = |name: &str| {
        text.match_indices(name).any(|(at, _)| {
            let edge = |c: Option<char>| !c.is_some_and(|c| c.is_alphanumeric() || c == '-');
            edge(text[..at].chars().next_back()) && edge(text[at + name.len()..].chars().next())
        })
    };
    names
        .iter()
        .filter(|name| !word(name))
        .map(|name| Finding {
            path: path.to_owned(),
            line: 1,
            text: format!("says nothing of {what} {name}"),
        })
        .collect()
}

fn join(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_bites() {
        let text = "see [a](a.md#x), [b](../b.md)\n```\n[c](c.md)\n```\n[d](https://d.example/) [e](#e) [f](f/)";
        let found = check("docs/x.md", text, |path| path == "docs/a.md");
        let found: Vec<_> = found.iter().map(|f| (f.line, f.text.as_str())).collect();
        assert_eq!(
            found,
            [
                (1, "the link to ../b.md leads nowhere"),
                (5, "the link to f/ leads nowhere")
            ]
        );
        assert_eq!(
            check("docs/x.md", "[b](../b.md)", |path| path == "b.md"),
            []
        );
    }

    #[test]
    fn what_is_not_told_of_is_reported() {
        let names = ["nat".to_owned(), "http".to_owned()];
        let found = mentions("README.md", "nat44, `http`", "example", &names);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].text, "says nothing of example nat");
    }
}
