//! The integration tests of `powerfail`: correct and faulty programs, and what campaigns say of
//! them.

mod branches;
mod campaigns;
mod chips;
mod items;
mod life;
mod mapped;
mod planted;
mod preempt;
mod process;
mod schedules;
mod shards;
mod two_threads;
