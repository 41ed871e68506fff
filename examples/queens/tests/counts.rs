//! Compares with the known counts: OEIS A000170 and A002562.

use example_queens::{QUEENS_PER_CHECKPOINT, search};

#[test]
fn as_known() {
    let known = [
        (1, 1, 1),
        (2, 0, 0),
        (3, 0, 0),
        (4, 2, 1),
        (5, 10, 2),
        (6, 4, 1),
        (7, 40, 6),
        (8, 92, 12),
        (9, 352, 46),
        (10, 724, 92),
    ];
    for (size, solutions, different) in known {
        let mut placed = 0;
        let found = search(size, |n| {
            assert_eq!(n, placed + QUEENS_PER_CHECKPOINT);
            placed = n;
        });
        assert_eq!(
            (found.solutions, found.different.len()),
            (solutions, different)
        );
    }
}
