//! Settings that are written as `KEY=VALUE`, joined by commas.

/// Gives each key and its value to `set`.
///
/// # Errors
///
/// A part has no value, a key comes twice, or `set` refuses it; for people.
pub(super) fn read_pairs<'a>(
    parts: impl Iterator<Item = &'a str>,
    mut set: impl FnMut(&str, &str) -> Result<(), String>,
) -> Result<(), String> {
    let mut before = Vec::new();
    for part in parts {
        let (key, value) = part
            .split_once('=')
            .ok_or_else(|| format!("`{part}` has no value: write `{part}=VALUE`"))?;
        if before.contains(&key) {
            return Err(format!("`{key}` is given twice"));
        }
        before.push(key);
        set(key, value)?;
    }
    Ok(())
}
