//! Each program on each medium, at depth 2, and deeper in long campaigns. Behind a buffer, where a
//! cut leaves the most states, about a third of the programs is cut twice in each run.

use super::programs::*;
use crate::turns::turn_of;
use nv_replay::nvmem::Model;
use nv_replay::pmem_tx::Width;
use powerfail::{Mapped, explore};

const BYTES: usize = 2048;

/// Two cuts; behind a buffer by turns, but for the program in which a planted bug takes both.
fn depth(buffered: bool, program: &str) -> u32 {
    if buffered && program != "outputs_withdrawn" {
        turn_of(program, 3)
    } else {
        2
    }
}

macro_rules! every {
    ($($name:ident on $first:ident: $program:ident, $check:ident, $world:expr;)*) => {$(
        mod $name {
            use super::*;
            fn run<M: Model>()
            where
                M::Unit: Width,
            {
                let depth = depth(M::BUFFERED, stringify!($name));
                let s = explore(Mapped::<M>::new(BYTES), |nv, world: &W<'_>| {
                    life::<M>(nv, world, &Setup::small(16), $program::<M>, $check::<M>)
                })
                .world($world)
                .depth(depth)
                .run();
                println!("{}: {s}", M::NAME);
                assert!(s.partial || s.boots > 20);
            }
            on_each_medium!(run: $first);
        }
    )*};
}
every! {
    results on in_order_32: steps, steps_done, WorldState::default();
    pinned_inputs on buffered_32: inputs, inputs_done, WorldState::default();
    objects on buffered_32: handles, handles_done, WorldState::default();
    nested_loops on buffered_32: loops, loops_done, WorldState::default();
    objects_in_loops on in_order_32: loop_handles, loop_handles_done, WorldState::default();
    outputs on buffered_32: sends, sends_done, WorldState::default();
    loops_of_one_step on buffered_32: step_loops, step_loops_done, WorldState::default();
    turns_that_send on buffered_32: turns_send, turns_sent, WorldState::default();
    turns_withdrawn on in_order_32: turns_send, turns_sent, WorldState { reads: 1, ..WorldState::default() };
    iterations_withdrawn on in_order_32: iterations, iterations_done, WorldState { reads: 1, ..WorldState::default() };
    records_withdrawn on in_order_32: records, iterations_done, WorldState { reads: 1, ..WorldState::default() };
    // The first execution sends, the one after a cut does not.
    outputs_withdrawn on buffered_32: sends, sends_done, WorldState { reads: 1, ..WorldState::default() };
}
