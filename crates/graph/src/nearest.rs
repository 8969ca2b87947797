//! "Did you mean": the known word that is nearest to an unknown one.

/// The only candidate that begins with the word, or else the one with the fewest
/// edits, if they are few for its length.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    // Longer words are not names; comparing them would only cost time.
    if word.is_empty() || word.len() > 64 {
        return None;
    }
    let candidates: Vec<&str> = candidates.into_iter().collect();
    // A word that was cut short, where only one goes on like that.
    let mut longer = candidates.iter().filter(|c| c.starts_with(word));
    if let (Some(only), None) = (longer.next(), longer.next()) {
        return Some(only);
    }
    candidates
        .into_iter()
        .map(|candidate| (edits(word, candidate), candidate))
        .filter(|(edits, candidate)| {
            *edits <= 1.max(candidate.chars().count() / 3) && *edits < candidate.chars().count()
        })
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions, replacements and swaps of neighbours that make one
/// word of the other (optimal string alignment); case and `_` for `-` are free.
fn edits(a: &str, b: &str) -> usize {
    let fold = |word: &str| -> Vec<char> {
        word.chars()
            .flat_map(char::to_lowercase)
            .map(|c| if c == '_' { '-' } else { c })
            .collect()
    };
    let (a, b) = (fold(a), fold(b));
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut best = (above[j] + usize::from(x != y))
                .min(above[j + 1] + 1)
                .min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = core::mem::replace(&mut above, row);
    }
    above.last().copied().unwrap_or(0)
}

/// "did you mean `x`?" or else all candidates.
pub(crate) fn suggestion(word: &str, what: &str, candidates: &[&str]) -> Option<String> {
    match nearest(word, candidates.iter().copied()) {
        Some(near) => Some(format!("did you mean `{near}`?")),
        None if candidates.is_empty() => None,
        None => Some(format!("{what}: {}", listed(candidates))),
    }
}

/// Names in backticks, with commas.
pub(crate) fn listed(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_meant_and_nothing_else() {
        let names = ["firewall", "nat44", "monitor"];
        assert_eq!(nearest("firewal", names), Some("firewall"));
        assert_eq!(nearest("FIREWALL", names), Some("firewall"));
        assert_eq!(nearest("fierwall", names), Some("firewall"));
        assert_eq!(nearest("nat", names), Some("nat44"));
        assert_eq!(nearest("nat4", names), Some("nat44"));
        assert_eq!(nearest("balancer", names), None);
        assert_eq!(nearest("", names), None);
        assert_eq!(edits("ab", "ba"), 1);
        assert_eq!(edits("kitten", "sitting"), 3);
    }
}
