//! How much of a stack was used.

/// The bytes at the low end of a stack that are still 0. Stacks grow down.
pub(crate) fn untouched(bytes: &[u8]) -> usize {
    let used = bytes.iter().position(|b| *b != 0);
    used.unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::untouched;

    #[test]
    fn the_deepest_byte_counts() {
        let mut stack = [0; 64];
        assert_eq!(untouched(&stack), 64);
        stack[63] = 1;
        stack[20] = 7;
        stack[40] = 0;
        assert_eq!(untouched(&stack), 20);
        stack[0] = 1;
        assert_eq!(untouched(&stack), 0);
        assert_eq!(untouched(&[]), 0);
    }
}
