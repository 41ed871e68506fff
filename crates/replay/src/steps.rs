//! Loops of one step, whose state word is the commit.
//!
//! `each` stores the header of the step and then the state of the next iteration. Where an
//! iteration is one step, the second store can commit the first: the state carries a sequence
//! number, too.
//!
//! ```text
//! headers, downwards      ... | loop | (0)            no record follows while the loop runs
//! payloads, upwards       ... | state: start word (number 7, iteration 3)
//!
//! Replay::step_loop, iteration 3                         cut here: the next open sees
//!  0 once: clear the header after the loop's              iteration 3
//!  1 run the body in a transaction of the pool;           iteration 3; the pool undoes the changes
//!    its messages go to the outbox
//!  2 pool: journal and new values are on the medium       the same
//!  3 outbox head: the messages belong to number 8, or     the same: the head counts with number 8
//!    a head with number 8 is cleared
//!  4 a token stages its words with number 8               the same: they are in doubt
//!  5 upper counter, if it changes; fence                  the same: the start word uses the other one
//!  6 start word (number 8, iteration 4)   <-- commits     iteration 4, all changes, the token's words
//!  7 fence; pool: end the transaction                     the same
//!  8 send the messages, mark them as sent                 the same; they are sent again
//!
//! after the last turn the start word says "done"; the next record follows the loop.
//! ```
//!
//! Recovery knows nothing of this: the last record is the loop's, so the number in its start word
//! is the last committed one (invariant "One number, one transaction"). The pool, the outbox and a
//! token resolve with it, as they do after a turn of `each`.
//!
//! Safe against stale headers: the one after the loop's record could count after a turn whose
//! number comes just before its own. Point 0 clears it before the first turn, and until the loop
//! ends nothing is stored there. So no turn has to check it (invariant "Nothing stale behind").
//! Whether that one store is needed is known once per loop; `each` leaves headers there and
//! compares in each iteration.
//!
//! The body gets no runtime. So it can neither record anything in the loop, nor replace the
//! runtime. A turn that fails is undone and leaves no record, so nothing may run after it: the loop
//! stays in this iteration, and the runtime stops. A step records its error because the program
//! goes on after it, and a replay must take the same way. After a failed turn nothing goes on; a
//! recorded error would take a record in the loop, and stop each later boot.

use crate::access::PoolAccess;
use crate::call::{Named, Step, joins};
use crate::each::{ENDLESS, Loop, LoopGuard};
use crate::error::{Error, Mismatch};
use crate::open::Replay;
use crate::outbox::Outlet;
use crate::signature::{Name, kind, step_loop_args_hash, step_loop_hash};
use crate::table::{CommitWord, State, Table};
use crate::token::{Attempt, Nobody, Partner, Token};
use core::convert::Infallible;
use core::ops::Range;
use nvmem::cross::{Arg, Repeat};
use nvmem::{Model, Persist, planted};
use pmem_tx::{Root, Width};

/// The body of a loop of one step: a function pointer, which gets the number of the iteration. It
/// cannot capture, so it cannot change volatile state: a later boot would not know the change.
pub type TurnBody<R, M, A, K = ()> = for<'p> fn(
    &Step<'_, 'p, M, K>,
    &mut Root<'p, <R as Persist>::At<'p>, <M as Model>::Unit>,
    u32,
    <A as Arg>::In<'p>,
) -> Result<(), pmem_tx::Error>;

impl<'m, R: Persist, M: Model, E: Outlet, P: PoolAccess<R, M>> Replay<'m, R, M, E, P>
where
    M::Unit: Width,
{
    /// Runs a step for each number of the range. One store ends an iteration and commits its step,
    /// so it costs one store less than [`Replay::each`] with a step in its body, and no record.
    ///
    /// The arguments enter every iteration: plain values, `held.lend()`, and tuples of them. After
    /// a power cut the loop continues in the iteration that was cut. If the body fails, its changes
    /// are undone, the loop stays in this iteration and the runtime stops until the next open.
    /// Nothing is recorded: the next boot tries again. To go on, handle the error inside the body,
    /// where [`nested`](pmem_tx::Tx::nested) undoes a part of its changes, but not messages. A full
    /// outbox cannot be handled there: it ends the loop.
    ///
    /// **Power loss**: an iteration happened with all its changes, or it did not begin. **Cost**:
    /// one store for an iteration, two more once in 32,768 iterations (once in 128 on 16-bit
    /// units), and the cost of the body; two to four stores to open the loop. **Errors**: that of
    /// the body and [`Error::OutboxFull`], after which the runtime has stopped;
    /// [`Error::TableFull`]; [`Error::LoopTooLong`]; [`Error::WrongPool`] for a handle of another
    /// opening; [`Error::Diverged`] if the program does not match its records;
    /// [`Error::LoopInterrupted`] if the runtime has stopped. **Panics**: never. A body that
    /// unwinds is undone and stops the runtime.
    ///
    /// ```
    /// use nv_replay::{Error, Replay};
    ///
    /// fn program(rt: &mut Replay<'_, [u32; 10]>) -> Result<(), Error> {
    ///     rt.each_step(0..10, 3, |tx, table, i, factor| {
    ///         *table.slot(tx).at_mut(i as usize)? = i * factor; // once for each i, whatever happens
    ///         Ok(())
    ///     })
    /// }
    /// # use nv_replay::{nvmem::{InOrder32, Region}, Options};
    /// # let mut fram = vec![std::mem::MaybeUninit::new(0); 512];
    /// # let region = Region::<InOrder32>::new(&mut fram);
    /// # let mut rt = Replay::open(region, Options::default(), |_| Ok([0; 10])).unwrap();
    /// # program(&mut rt).unwrap();
    /// # assert_eq!(rt.view(|tx, table| table.get(tx)[9]).unwrap(), Some(27));
    /// ```
    #[track_caller]
    #[inline(always)]
    pub fn each_step<A: Repeat>(
        &mut self,
        range: Range<u32>,
        args: A,
        body: TurnBody<R, M, A>,
    ) -> Result<(), Error> {
        self.twins
            .note(step_loop_hash::<A>(kind::EACH_STEP, Name::NONE));
        self.steps(Name::NONE, range, args, body)
    }

    /// Runs a step without end: the super-loop whose turn is one step. The iteration number wraps,
    /// after 2^23 iterations on 16-bit units. Returns only with an error.
    ///
    /// **Power loss**, **Cost** and **Errors**: those of [`Replay::each_step`].
    #[track_caller]
    #[inline(always)]
    pub fn forever_step<A: Repeat>(
        &mut self,
        args: A,
        body: TurnBody<R, M, A>,
    ) -> Result<Infallible, Error> {
        self.twins
            .note(step_loop_hash::<A>(kind::ENDLESS_STEP, Name::NONE));
        self.endless_steps(Name::NONE, args, body)
    }

    /// Like [`Replay::each_step`], with a token, which takes part in the commit of each iteration.
    /// See [`Replay::step_with`].
    ///
    /// **Power loss**: as for [`Replay::each_step`]; what the token has staged in an iteration
    /// belongs to it. **Cost** and **Errors**: those of [`Replay::each_step`] and of
    /// [`Token::join`].
    #[track_caller]
    #[inline(always)]
    pub fn each_step_with<K: Token<M>, A: Repeat>(
        &mut self,
        token: &K,
        range: Range<u32>,
        args: A,
        body: TurnBody<R, M, A, K>,
    ) -> Result<(), Error> {
        self.twins.note(step_loop_hash::<A>(
            kind::TOKEN | kind::EACH_STEP,
            Name::NONE,
        ));
        self.steps_with(Name::NONE, token, range, args, body)
    }

    /// Like [`Replay::forever_step`], with a token. See [`Replay::each_step_with`]. **Errors**: as
    /// there.
    #[track_caller]
    #[inline(always)]
    pub fn forever_step_with<K: Token<M>, A: Repeat>(
        &mut self,
        token: &K,
        args: A,
        body: TurnBody<R, M, A, K>,
    ) -> Result<Infallible, Error> {
        self.twins.note(step_loop_hash::<A>(
            kind::TOKEN | kind::ENDLESS_STEP,
            Name::NONE,
        ));
        self.endless_steps_with(Name::NONE, token, args, body)
    }

    #[inline(always)]
    fn steps<A: Repeat>(
        &mut self,
        name: Name,
        range: Range<u32>,
        args: A,
        body: TurnBody<R, M, A>,
    ) -> Result<(), Error> {
        if range.is_empty() {
            return self.check_running();
        }
        let call = step_loop_hash::<A>(kind::EACH_STEP, name);
        self.step_loop(call, range, args, Nobody, body)
    }

    #[inline(always)]
    fn endless_steps<A: Repeat>(
        &mut self,
        name: Name,
        args: A,
        body: TurnBody<R, M, A>,
    ) -> Result<Infallible, Error> {
        let call = step_loop_hash::<A>(kind::ENDLESS_STEP, name);
        self.step_loop(call, ALWAYS, args, Nobody, body)?;
        // The record says that an endless loop has ended: it belongs to another loop.
        Err(self.untyped().diverged(Mismatch::Kind))
    }

    #[inline(always)]
    fn steps_with<K: Token<M>, A: Repeat>(
        &mut self,
        name: Name,
        token: &K,
        range: Range<u32>,
        args: A,
        body: TurnBody<R, M, A, K>,
    ) -> Result<(), Error> {
        if range.is_empty() {
            return self.check_running();
        }
        let call = step_loop_hash::<A>(kind::TOKEN | kind::EACH_STEP, name);
        self.step_loop(call, range, args, Attempt::new(token, self.owner())?, body)
    }

    #[inline(always)]
    fn endless_steps_with<K: Token<M>, A: Repeat>(
        &mut self,
        name: Name,
        token: &K,
        args: A,
        body: TurnBody<R, M, A, K>,
    ) -> Result<Infallible, Error> {
        let call = step_loop_hash::<A>(kind::TOKEN | kind::ENDLESS_STEP, name);
        self.step_loop(call, ALWAYS, args, Attempt::new(token, self.owner())?, body)?;
        // The record says that an endless loop has ended: it belongs to another loop.
        Err(self.untyped().diverged(Mismatch::Kind))
    }
}

/// The range of an endless loop.
const ALWAYS: Range<u32> = 0..ENDLESS;

impl<'m, R: Persist, M: Model, E: Outlet, P: PoolAccess<R, M>> Replay<'m, R, M, E, P>
where
    M::Unit: Width,
{
    /// Runs the loop with this call hash. `partner` takes part in the commits.
    #[inline(always)]
    fn step_loop<A: Repeat, T: Partner<M>>(
        &mut self,
        call: u32,
        range: Range<u32>,
        args: A,
        partner: T,
        body: TurnBody<R, M, A, T::Token>,
    ) -> Result<(), Error> {
        // SAFETY: invariant "Roots are types only": the untyped runtime calls it with this root.
        // Each `Root` is an offset, and references to all types are passed in the same way.
        let body = unsafe {
            core::mem::transmute::<TurnBody<R, M, A, T::Token>, TurnBody<P::AnyRoot, M, A, T::Token>>(
                body,
            )
        };
        self.untyped().run_turns(call, range, args, partner, body)
    }

    // To the loop a root is an offset and the body a function pointer, so a program contains this
    // once for all threads whose arguments and token have the same types. A copy for each would
    // take 600 bytes more, and 20 instructions less in a turn. Arguments enter each turn
    // (`Repeat`): as arguments of `each_with` they would be loans, and the body has no call to lend
    // them to.
    /// The same for roots of all types: a program has it once for all its threads.
    #[inline]
    fn run_turns<A: Repeat, T: Partner<M>>(
        &mut self,
        call: u32,
        range: Range<u32>,
        args: A,
        partner: T,
        body: TurnBody<R, M, A, T::Token>,
    ) -> Result<(), Error> {
        let Range { start, end } = range;
        // A handle that a later record gives away comes back without a session. It does not enter.
        let session = self.pool.session();
        let mine = args.of_session(session) || planted!("nv-replay/turn-takes-any-handle");
        if !mine && !self.replaying() {
            return self.check_running().and(Err(Error::WrongPool));
        }
        let id = Table::<M>::id(call, step_loop_args_hash(&args, start, end));
        let mut l = Loop::new(id, end.wrapping_sub(start));
        self.untyped().enter_step_loop(&mut l)?;
        if !l.running {
            return Ok(());
        }
        let inside = LoopGuard {
            rt: self,
            reason: Error::LoopInterrupted,
        };
        if !mine {
            return Err(Error::WrongPool);
        }
        let rt = &mut *inside.rt;
        // SAFETY: invariant "Sole owner": used with this runtime's context only.
        let root = unsafe { rt.pool.context().root_place()? };
        rt.pool.context().start()?;
        let mut turns = Turns::of::<M>(&l);
        loop {
            let (table, queue) = (&rt.table, &rt.queue);
            let mut context = rt.pool.context();
            // SAFETY: invariant "Sole owner": used in turns of this loop only. Their body is a
            // function, so it keeps nothing, and no turn returns anything.
            let tx = unsafe { context.token() };
            let step = Step {
                tx: &tx,
                table,
                queue,
                token: partner.token(),
            };
            // The inner loop runs turns as long as nothing follows a turn but the next one; the
            // outer loop does the rest. With one loop, or with the condition in another place, the
            // compiler makes each turn 8 instructions longer.
            let committed = loop {
                let i = start.wrapping_add(turns.iteration);
                partner.begin();
                let done = context.run_with(&tx, root, |root| {
                    // SAFETY: invariant "Sole owner": no handle is given away, and the transaction
                    // of the last turn has ended (`Repeat`).
                    body(&step, root, i, unsafe { args.enter() })
                });
                if let Err(e) = done {
                    queue.body_failed(e);
                }
                if !T::JOINS {
                    break None;
                }
                let stop = (&mut rt.no_room_error, &mut rt.cursor);
                let word = |seq| turns.next_word(table, seq);
                let join = joins(|c| partner.join(c));
                let r = Self::commit_by(context.reborrow(), table, queue, stop, join, word);
                if r.is_err() || turns.done || P::MIRRORED || !E::sends_nothing() {
                    break Some(r);
                }
                context.start_next();
            };
            let r = match committed {
                None => rt.untyped().commit_turn(&mut turns),
                Some(r) => r.and_then(|seq| rt.show_committed(seq)),
            };
            if r.is_err() && planted!("nv-replay/failed-turn-goes-on") {
                core::mem::forget(inside);
                return r;
            }
            r?;
            if turns.done {
                break;
            }
            // A turn that fails is the last one, so there is no error in the queue.
            rt.queue.clear_messages::<E>();
            rt.pool.context().start_next();
        }
        core::mem::forget(inside);
        Ok(())
    }

    /// Enters the loop, and clears the header after its record.
    #[inline(never)]
    fn enter_step_loop(&mut self, l: &mut Loop) -> Result<(), Error> {
        self.enter_loop(l)?;
        if !l.running {
            return Ok(());
        }
        // The body gets no runtime, so no inner loop can run.
        self.innermost_loop = l.outer;
        if self.replaying() && !planted!("nv-replay/step-loop-passes-records") {
            return Err(self.diverged(Mismatch::RecordsRemain));
        }
        let table = &self.table;
        let stale = l.at >= l.payload && table.load(l.at) != 0;
        if stale && !planted!("nv-replay/step-loop-header-not-cleared") {
            // Durable before the first turn counts: its start word has a fence before it.
            table.store(l.at, 0);
        }
        self.queue.clear::<E>();
        Ok(())
    }

    /// Commits the turn that runs: points 2 to 8 of the order above.
    ///
    /// **Errors**: that of the body, which is undone.
    #[inline(never)]
    fn commit_turn(&mut self, turns: &mut Turns) -> Result<(), Error> {
        if planted!("nv-replay/turn-before-its-changes") {
            let word = turns
                .clone()
                .next_word(&self.table, self.pool.context().next_seq());
            self.table.store_start(word);
        }
        if planted!("nv-replay/turn-sends-early") {
            let seq = self.pool.context().next_seq();
            self.queue.stage::<E>(&self.table, seq);
            let _ = self.show_committed(seq);
        }
        let open = self.pool.context().resume(|| self.queue.judge())?;
        let ready = open.prepare();
        let seq = ready.seq();
        let word = turns.next_word(&self.table, seq);
        if planted!("nv-replay/turn-before-its-messages") {
            self.table.store_start(word);
        }
        if self.queue.action().is_some() || !planted!("nv-replay/turn-keeps-uncommitted") {
            self.queue.stage::<E>(&self.table, seq);
        }
        self.table.store_start(word);
        ready.committed();
        self.show_committed(seq)
    }
}

/// The position in a running loop of one step. One comparison finds the turns that change more than
/// the low bits of the counter.
#[derive(Clone)]
struct Turns {
    /// The iteration of the turn that runs.
    iteration: u32,
    /// The next iteration whose counter carries, or the end of the loop, whichever comes first.
    unusual: u32,
    /// The number of iterations, or `ENDLESS`.
    count: u32,
    /// The offset of the loop's state.
    at: usize,
    /// The loop has ended.
    done: bool,
}

impl Turns {
    /// A loop that was entered and runs.
    #[inline(always)]
    fn of<M: Model>(l: &Loop) -> Self {
        let (iteration, count) = (l.iteration, l.count);
        Turns {
            iteration,
            unusual: unusual::<M>(iteration, count),
            count,
            at: l.payload - Table::<M>::STATE,
            done: false,
        }
    }

    /// Goes on to the next iteration, or to the end. Returns the start word that commits the turn
    /// with this number. Stores its upper counter.
    #[inline(always)]
    fn next_word<M: Model>(&mut self, table: &Table<'_, M>, seq: u32) -> CommitWord {
        self.iteration = self.iteration.wrapping_add(1);
        if self.iteration == self.unusual {
            if Table::<M>::carries(self.iteration) {
                self.carry(table);
            } else {
                self.done = true;
            }
        }
        let done = self.done && !planted!("nv-replay/loop-end-not-marked");
        Table::<M>::state_word(self.at, State::start_bits(seq, done), self.iteration)
    }

    #[cold]
    #[inline(never)]
    fn carry<M: Model>(&mut self, table: &Table<'_, M>) {
        self.iteration &= Table::<M>::COUNTER;
        self.done = self.iteration == self.count && self.count != ENDLESS;
        self.unusual = unusual::<M>(self.iteration, self.count);
        if !planted!("nv-replay/turn-carries-nothing") {
            table.store_upper(self.at, self.iteration);
        }
    }
}

/// The next iteration after this one whose counter carries, or `count`, whichever comes first.
#[inline(always)]
fn unusual<M: Model>(iteration: u32, count: u32) -> u32 {
    // One less each: the count of an endless loop is 0, which carries, so its end is far away from
    // each iteration, and from 0, too.
    let end = count.wrapping_sub(iteration).wrapping_sub(1);
    let mut next = end.min(Table::<M>::until_carry(iteration) - 1);
    if count == ENDLESS && planted!("nv-replay/endless-turns-carry-nothing") {
        next = end;
    }
    iteration.wrapping_add(next).wrapping_add(1)
}

impl<R: Persist, M: Model, E: Outlet, P: PoolAccess<R, M>> Named<'_, '_, R, M, E, P>
where
    M::Unit: Width,
{
    /// [`Replay::each_step`] with this name. **Errors**: as there.
    #[inline(always)]
    pub fn each_step<A: Repeat>(
        self,
        range: Range<u32>,
        args: A,
        body: TurnBody<R, M, A>,
    ) -> Result<(), Error> {
        self.rt.steps(self.name, range, args, body)
    }

    /// [`Replay::forever_step`] with this name. **Errors**: as there.
    #[inline(always)]
    pub fn forever_step<A: Repeat>(
        self,
        args: A,
        body: TurnBody<R, M, A>,
    ) -> Result<Infallible, Error> {
        self.rt.endless_steps(self.name, args, body)
    }

    /// [`Replay::each_step_with`] with this name. **Errors**: as there.
    #[inline(always)]
    pub fn each_step_with<K: Token<M>, A: Repeat>(
        self,
        token: &K,
        range: Range<u32>,
        args: A,
        body: TurnBody<R, M, A, K>,
    ) -> Result<(), Error> {
        self.rt.steps_with(self.name, token, range, args, body)
    }

    /// [`Replay::forever_step_with`] with this name. **Errors**: as there.
    #[inline(always)]
    pub fn forever_step_with<K: Token<M>, A: Repeat>(
        self,
        token: &K,
        args: A,
        body: TurnBody<R, M, A, K>,
    ) -> Result<Infallible, Error> {
        self.rt.endless_steps_with(self.name, token, args, body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Geometry;
    use nvmem::{InOrder16, InOrder32, Region};

    /// Turns go on as iterations of any loop do.
    fn as_a_loop<M: Model>() {
        let mut m = [const { core::mem::MaybeUninit::new(0) }; 1 << 8];
        let geo = Geometry::new::<M>(&[96, 0, 0, 8, 0, 0, 0, 0]).unwrap();
        let table = Table::<M>::new(Region::new(&mut m), geo);
        let carry = Table::<M>::until_carry(0);
        let ends = [
            1,
            2,
            7,
            carry - 1,
            carry,
            carry + 1,
            3 * carry,
            Table::<M>::COUNTER,
        ];
        for count in ends.into_iter().chain([ENDLESS]) {
            let last = count.wrapping_sub(1) & Table::<M>::COUNTER;
            for first in [
                0,
                carry - 3,
                carry - 1,
                carry,
                last.saturating_sub(carry + 2),
                last,
            ] {
                if first > last {
                    continue;
                }
                let mut l = Loop::new(0, count);
                (l.iteration, l.payload) = (first, 256);
                l.write(&table, l.payload - Table::<M>::STATE, 1);
                let mut turns = Turns::of::<M>(&l);
                for seq in 0..2 * carry.min(200) + 4 {
                    let at = l.payload - Table::<M>::STATE;
                    let CommitWord { at: to, word } = turns.next_word(&table, seq);
                    l.pass::<M>();
                    assert_eq!((to, turns.done), (at, !l.running), "{first} {count}");
                    assert_eq!(turns.iteration, l.iteration, "{first} {count}");
                    table.store(at, word);
                    let stored = table.state(at);
                    l.write_next(&table, seq);
                    assert_eq!(stored, table.state(at), "{first} {count}");
                    if !l.running {
                        break;
                    }
                }
            }
        }
    }

    #[test]
    fn turns_are_iterations() {
        as_a_loop::<InOrder16>();
        as_a_loop::<InOrder32>();
    }
}
