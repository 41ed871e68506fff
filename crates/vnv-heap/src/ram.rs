//! What is resident: the cache in the caller's buffer. Knows no medium, no types, no critical section.
