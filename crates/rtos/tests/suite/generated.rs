//! Programs that nobody wrote, and what they have found.

mod found;
