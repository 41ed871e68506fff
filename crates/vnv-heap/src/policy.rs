//! Which dirty object to clean and which resident one to evict.
