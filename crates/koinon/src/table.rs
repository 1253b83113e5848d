//! Tables for people: columns as wide as they need to be, the last one as it comes.

/// Lays rows out; the first one is the head. Every row has as many cells as the head.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(&format!("{cell:width$}   "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_need_to_be() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows = [row(["NAME", "N", "WHY"]), row(["a", "10", ""]), row(["long-name", "1", "so it is"])];
        assert_eq!(table(&rows), "NAME        N    WHY\na           10\nlong-name   1    so it is\n");
        assert_eq!(table(&[]), "");
    }
}
