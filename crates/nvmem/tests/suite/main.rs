//! The integration tests of `nvmem`: types, media, the record, the superblock, wear levelling,
//! tagged words.

mod adapter;
mod asm;
mod asynch;
mod bounded;
mod bounds;
mod crash_level;
mod crash_record;
mod crash_superblock;
mod crash_tagged;
mod derive;
#[path = "../../../powerfail/tests/support/faulty.rs"]
mod faulty;
mod generated;
mod golden;
mod inspect;
mod invariants;
mod level;
mod level_doubt;
mod marker;
mod record;
mod record_chains;
#[path = "../../../powerfail/tests/support/runs.rs"]
mod runs;
mod shared_saver;
mod soundness;
mod superblock;
mod support;
mod tagged;
#[path = "../../../powerfail/tests/support/turns.rs"]
mod turns;
mod values;
mod write_buffer;
