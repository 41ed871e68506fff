//! Generated programs: a record, wear-levelled flash and tagged words, of which any operation of
//! the medium fails while the program goes on.
//!
//! | file | what it has |
//! |---|---|
//! | `record` | sets, opens, migrations and formats of a [`Record`](nvmem::Record), in both forms |
//! | `level` | writes, opens and formats of a [`WearLevelled`](nvmem::level::WearLevelled) flash |
//! | `words` | transactions of several owners on [`tagged`](nvmem::tagged) words and cells |
//! | `media` | faults, and kinds of flash |
//! | `found` | what the campaigns have found: each as its shortest script |
//!
//! Each of the first three files has its scripts, a judge that knows nothing of formats, and what
//! executes a script against both.

mod found;
mod level;
mod media;
mod record;
mod words;
