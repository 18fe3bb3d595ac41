//! Pages of lists that a command of Redis gives whole.

use serde_json::Value;

/// Records of one page.
const PAGE: usize = 500;

/// The page that begins at a cursor, and the cursor of the next page, 0 at the end. The list is made again for each page,
/// so a list that changes meanwhile may repeat or leave out a record.
pub(super) fn page(all: Vec<Value>, cursor: usize) -> (usize, Vec<Value>) {
    let end = cursor.saturating_add(PAGE);
    let next = if end < all.len() { end } else { 0 };
    (next, all.into_iter().skip(cursor).take(PAGE).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_every_record_once() {
        let all: Vec<Value> = (0..=2 * PAGE).map(Value::from).collect();
        let (mut cursor, mut sizes, mut found) = (0, Vec::new(), Vec::new());
        loop {
            let (next, mut items) = page(all.clone(), cursor);
            sizes.push(items.len());
            found.append(&mut items);
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
        assert_eq!((sizes, found), (vec![PAGE, PAGE, 1], all.clone()));
        assert_eq!(page(all.clone(), all.len()), (0, Vec::new()));
        assert_eq!(page(all, usize::MAX), (0, Vec::new()));
    }
}
