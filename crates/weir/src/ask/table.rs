//! Tables for people.

/// Lines of a table, its head first. Numbers are to the right.
pub(super) type Table = Vec<Vec<String>>;

pub(super) fn row<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).into()
}

pub(super) fn text(table: &Table) -> String {
    let columns = table.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let cells = table.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    // A column of numbers begins with one.
    let is_number = |column: usize| {
        let cell = table.get(1).and_then(|row| row.get(column));
        cell.is_some_and(|cell| cell.starts_with(|c: char| c.is_ascii_digit()))
    };
    let mut text = String::new();
    for row in table {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(column, (cell, width))| match is_number(column) {
            true => format!("{cell:>width$}"),
            false => format!("{cell:<width$}"),
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let table = vec![
            row(["HOST", "UNITS", "AGENT"]),
            row(["alpha", "5", "-"]),
            row(["b", "1,234", "127.0.0.2:9"]),
        ];
        let lines = "HOST   UNITS  AGENT\nalpha      5  -\nb      1,234  127.0.0.2:9\n";
        assert_eq!(text(&table), lines);
    }
}
