//! Line breaks of manual pages.

/// Paragraphs broken at 80 columns; lines that are indented or short lists
/// keep their breaks.
pub(super) fn wrapped(text: &str) -> String {
    let mut page = String::new();
    for paragraph in text.trim().split("\n\n") {
        if paragraph
            .lines()
            .any(|line| line.starts_with([' ', '-', '|']))
        {
            page.push_str(paragraph);
        } else {
            let mut column = 0;
            for word in paragraph.split_whitespace() {
                if column > 0 && column + 1 + word.chars().count() > 80 {
                    page.push('\n');
                    column = 0;
                } else if column > 0 {
                    page.push(' ');
                    column += 1;
                }
                page.push_str(word);
                column += word.chars().count();
            }
        }
        page.push_str("\n\n");
    }
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}
