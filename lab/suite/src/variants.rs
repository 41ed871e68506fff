//! Programs in several variants: as one writes them to be fast, and with one thing less that makes
//! them fast. What each of these things saves is the difference.
//!
//! | scenario | what is otherwise |
//! |---|---|
//! | `mq` | nothing: the program of `examples/programs` |
//! | `mq_steps` | a turn of a loop has a step and a record of it: `each` and `step` |
//! | `mq_apart` | the same, and each operation on a queue has a step of its own |
//! | `mq_whole` | a worker's window is logged as a whole, not the one sample that changes |
//! | `mq_swept` | sequence numbers have 6 bits: they come round after 63 steps, not after 8,191 |
//! | `mq_plain` | all of these at once |
//! | `em` | nothing: an actor's buffer has two versions |
//! | `em_logged` | it has one, which is logged |
//! | `objects` | an object of 200 bytes is filled in the step that makes it: nothing is logged |
//! | `objects_logged` | it is filled in the next step |
//!
//! All variants of a program find the same. On a host, and on other machines, there are none.

use relume_suite::{Group, Mapped, Scenario};

macro_rules! scenarios {
    ($($name:ident)+) => {
        /// The scenarios of the image `program-variants`.
        pub const fn group<M: Mapped>() -> Group<M> {
            const {
                Group {
                    name: "program-variants",
                    primitive: "nv-rtos",
                    scenarios: &[$(Scenario::whole(stringify!($name), BYTES, on::$name),)+],
                }
            }
        }

        /// It is measured on one machine.
        #[cfg(not(all(target_os = "none", target_abi = "eabihf")))]
        mod on {
            pub(super) use relume_suite::programs::none::{$(none as $name,)+};
        }
    };
}
scenarios! {
    mq mq_steps mq_apart mq_whole mq_swept mq_plain em em_logged objects objects_logged
}

const BYTES: usize = lab_programs::support::BYTES;

#[cfg(all(target_os = "none", target_abi = "eabihf"))]
mod on {
    use crate::programs::run;
    use lab_programs::protected::mq::{MESSAGES, WINDOW};
    use lab_programs::reference;
    use lab_programs::support::{Core, Fram, Machine, SEQ_BITS, STACK, Stack, Unit, input, mix};
    use nv_rtos::pmem_tx::{PBox, Ptr};
    use nv_rtos::{Error, Room, Thread, Until, now};
    use nvmem::{Persist, Region};
    use relume_suite::{Mapped, Scene};

    /// Runs a variant, which must find what the reference finds.
    fn variant<M: Mapped>(
        scene: &mut Scene<'_, M>,
        boot: fn(Region<'_, Fram>, &Machine<'_>) -> Option<[u32; 4]>,
        wanted: fn() -> [u32; 4],
    ) {
        let region = scene.region_as();
        run(
            scene,
            region,
            |r, m| boot(r, m).filter(|found| *found == wanted()),
            wanted,
        )
    }

    /// Opens a system, makes its threads, runs them to their end, and returns what is found then.
    macro_rules! boot {
        ($threads:literal, $found:ident, $($thread:expr),+) => {
            pub(super) fn boot(nv: Region<'_, Fram>, machine: &Machine<'_>) -> Option<[u32; 4]> {
                let mut room = Room::new();
                let (kernel, threads) = Plan::open_in(&mut room, nv).ok()?;
                let (places, _) = threads.share().ok()?;
                let $found = core::cell::Cell::new([0; 4]);
                let mut stacks = [const { Stack::<STACK>::UNINIT }; $threads];
                let mut port = Core::new(&mut stacks);
                Plan::spawn(kernel, places, &mut port, $($thread),+);
                (machine.starts)();
                port.run_idle(kernel, machine.period, |_| (machine.idle)());
                let all = (0..$threads).all(|t| kernel.ended(t) == Some(Ok(())));
                all.then(|| $found.get())
            }
        };
    }

    // Message queues.

    /// What a worker keeps of a sample.
    #[derive(Persist, Clone, Copy)]
    #[repr(C)]
    struct Kept {
        sample: u32,
        found: u32,
        hash: u32,
    }
    type Window = [Kept; WINDOW];
    const EMPTY: Window = [Kept {
        sample: 0,
        found: 0,
        hash: 0,
    }; WINDOW];
    const LAST: usize = (MESSAGES as usize - 1) % WINDOW;

    /// Where a sample belongs, and what is kept of it.
    #[inline(always)]
    fn kept(last: &Window, i: u32, sample: u32, found: u32) -> (usize, Kept) {
        let at = i as usize % WINDOW;
        let before = if at == 0 { WINDOW - 1 } else { at - 1 };
        let hash = mix(last[before].hash, found);
        let kept = Kept {
            sample,
            found,
            hash,
        };
        (at, kept)
    }

    #[inline(always)]
    fn averaged(last: &Window, [i, sample]: [u32; 2]) -> (usize, Kept) {
        let sum: u32 = last.iter().map(|k| k.sample).sum();
        let sum = sum - last[i as usize % WINDOW].sample + sample;
        kept(last, i, sample, sum / (i + 1).min(WINDOW as u32))
    }

    #[inline(always)]
    fn maximal(last: &Window, [i, sample]: [u32; 2]) -> (usize, Kept) {
        let mut samples = last.map(|k| k.sample);
        samples[i as usize % WINDOW] = sample;
        kept(last, i, sample, samples.into_iter().fold(0, u32::max))
    }

    /// Sends all samples: a turn is a step, has one, or has one for each message.
    macro_rules! produce {
        (one, $th:ident) => {
            $th.each_step(0..MESSAGES, (), |sys, _, i, ()| {
                let sample = input(i) >> 16;
                AVERAGES.send(sys, [i, sample])?;
                MAXIMA.send(sys, [i, sample])
            })
        };
        (steps, $th:ident) => {
            $th.each(0..MESSAGES, (), |th, i, ()| {
                th.step(i, |sys, _, i| {
                    let sample = input(i) >> 16;
                    AVERAGES.send(sys, [i, sample])?;
                    MAXIMA.send(sys, [i, sample])
                })?;
                Ok(())
            })
        };
        (apart, $th:ident) => {
            $th.each(0..MESSAGES, (), |th, i, ()| {
                th.step(i, |sys, _, i| AVERAGES.send(sys, [i, input(i) >> 16]))?;
                th.step(i, |sys, _, i| MAXIMA.send(sys, [i, input(i) >> 16]))?;
                Ok(())
            })
        };
    }

    /// Changes one sample of a window: logs that, or the whole window.
    macro_rules! keep {
        (part, $sys:ident, $window:ident, $find:ident, $message:ident) => {{
            let mut last = $window.slot($sys);
            let (at, kept) = $find(last.get(), $message);
            *last.at_mut(at)? = kept;
            Ok(())
        }};
        (whole, $sys:ident, $window:ident, $find:ident, $message:ident) => {{
            let last = $window.get_mut($sys)?;
            let (at, kept) = $find(last, $message);
            last[at] = kept;
            Ok(())
        }};
    }

    /// Receives all samples and keeps them, in the same ways.
    macro_rules! work {
        (one, $writes:ident, $th:ident, $queue:ident, $find:ident) => {
            $th.each_step(0..MESSAGES, (), |sys, window, _, ()| {
                let message = $queue.receive(sys)?;
                keep!($writes, sys, window, $find, message)
            })
        };
        (steps, $writes:ident, $th:ident, $queue:ident, $find:ident) => {
            $th.each(0..MESSAGES, (), |th, _, ()| {
                th.step((), |sys, window, ()| {
                    let message = $queue.receive(sys)?;
                    keep!($writes, sys, window, $find, message)
                })?;
                Ok(())
            })
        };
        (apart, $writes:ident, $th:ident, $queue:ident, $find:ident) => {
            $th.each(0..MESSAGES, (), |th, _, ()| {
                let message = th.step((), |sys, _, ()| $queue.receive(sys))?;
                th.step(message, |sys, window, message| {
                    keep!($writes, sys, window, $find, message)
                })?;
                Ok(())
            })
        };
    }

    macro_rules! mq {
        ($($name:ident: $seq_bits:expr, $loops:ident, $writes:ident;)+) => {$(
            mod $name {
                use super::*;

                nv_rtos::system! {
                    /// As `mq` has it.
                    pub(super) Plan on Fram;
                    table { bytes: 96, outbox_bytes: 0, seq_bits: $seq_bits }
                    pool { journal_entries: 4, journal_bytes: 128, seq_bits: $seq_bits }
                    objects {
                        AVERAGES: Queue<[u32; 2], 8>;
                        MAXIMA: Queue<[u32; 2], 8>;
                        FOUND: Queue<[u32; 3], 2>;
                    }
                    threads {
                        producer(u8 = 0): 1;
                        average(Window = EMPTY): 2;
                        maximum(Window = EMPTY): 2;
                        report([u32; 4] = [0; 4]): 3;
                    }
                }

                fn producer(th: &mut Thread<Plan, u8>) -> Result<(), Error> {
                    produce!($loops, th)
                }

                fn average(th: &mut Thread<Plan, Window>) -> Result<(), Error> {
                    work!($loops, $writes, th, AVERAGES, averaged)?;
                    tell(th, 0)
                }

                fn maximum(th: &mut Thread<Plan, Window>) -> Result<(), Error> {
                    work!($loops, $writes, th, MAXIMA, maximal)?;
                    tell(th, 2)
                }

                fn tell(th: &mut Thread<Plan, Window>, of: u32) -> Result<(), Error> {
                    th.step(of, |sys, window, of| {
                        let Kept { found, hash, .. } = window.get(sys)[LAST];
                        FOUND.send(sys, [of, found, hash])
                    })?;
                    Ok(())
                }

                fn report(th: &mut Thread<Plan, [u32; 4]>) -> Result<[u32; 4], Error> {
                    th.each_step(0..2, (), |sys, found, _, ()| {
                        let [at, last, hash] = FOUND.receive(sys)?;
                        let mut found = found.slot(sys);
                        *found.at_mut(at as usize)? = last;
                        *found.at_mut(at as usize + 1)? = hash;
                        Ok(())
                    })?;
                    Ok(th.step((), |sys, found, ()| Ok(*found.get(sys)))?)
                }

                boot!(4, found, producer, average, maximum, |th| {
                    found.set(report(th)?);
                    Ok(())
                });
            }

            pub(super) fn $name<M: Mapped>(scene: &mut Scene<'_, M>) {
                variant(scene, $name::boot, reference::mq)
            }
        )+};
    }

    /// Bits of sequence numbers that come round early.
    const FEW: u8 = 6;

    mq! {
        mq: SEQ_BITS, one, part;
        mq_steps: SEQ_BITS, steps, part;
        mq_apart: SEQ_BITS, apart, part;
        mq_whole: SEQ_BITS, one, whole;
        mq_swept: FEW, one, part;
        mq_plain: FEW, apart, whole;
    }

    // An event group, and two actors with a buffer each.

    const ROUNDS: u32 = 100;
    const WORDS: usize = 50;
    type Words = [u32; WORDS];
    /// In two versions.
    type Versions = Option<Ptr<'static, Words, Unit>>;

    /// The buffer before the first round.
    macro_rules! make {
        (versions, $sys:ident, $buffer:ident) => {{
            *$buffer.get_mut($sys)? = Some(Ptr::new($sys, [0; WORDS])?);
            Ok(())
        }};
        (logged, $sys:ident, $buffer:ident) => {{
            *$buffer.get_mut($sys)? = [0; WORDS];
            Ok(())
        }};
    }
    /// What is in it.
    macro_rules! words {
        (versions, $sys:ident, $buffer:ident) => {
            $buffer.get($sys).as_ref().map(|b| b.get($sys))
        };
        (logged, $sys:ident, $buffer:ident) => {
            Some($buffer.get($sys))
        };
    }
    /// Writes all of it.
    macro_rules! write {
        (versions, $sys:ident, $buffer:ident, $words:ident) => {
            $buffer.slot($sys).write($words)
        };
        (logged, $sys:ident, $buffer:ident, $words:ident) => {{
            *$buffer.get_mut($sys)? = $words;
            Ok(())
        }};
    }

    fn head(words: Option<&Words>) -> [u32; 2] {
        words.map_or([0; 2], |w| [w[0], w[1]])
    }

    macro_rules! em {
        ($($name:ident: $writes:ident, $buffer:ty = $first:expr;)+) => {$(
            mod $name {
                use super::*;

                type Buffer = $buffer;

                nv_rtos::system! {
                    /// As `em` has it.
                    pub(super) Plan on Fram;
                    table { bytes: 64, outbox_bytes: 0, seq_bits: SEQ_BITS }
                    pool { journal_entries: 4, journal_bytes: 208, seq_bits: SEQ_BITS }
                    objects {
                        FLAGS: Events;
                    }
                    threads {
                        monitor(u8 = 0): 1;
                        first(Buffer = $first): 2;
                        second(Buffer = $first): 2;
                    }
                }

                fn monitor(th: &mut Thread<Plan, u8>) -> Result<(), Error> {
                    th.each_step(0..ROUNDS, (), |sys, _, _, ()| FLAGS.set(sys, 1 | 2))
                }

                fn actor(th: &mut Thread<Plan, Buffer>, flag: u8) -> Result<[u32; 2], Error> {
                    th.step((), |sys, buffer, ()| make!($writes, sys, buffer))?;
                    th.each_step(0..ROUNDS, flag, |sys, buffer, i, flag| {
                        FLAGS.wait(sys, flag, Until::All)?;
                        let time = now(sys) as u32;
                        let [before, hash] = head(words!($writes, sys, buffer));
                        if time < before {
                            return Err(sys.abort(1));
                        }
                        let sample = input(i) ^ u32::from(flag);
                        let mut words = [sample; WORDS];
                        words[0] = time;
                        words[1] = mix(hash, sample);
                        write!($writes, sys, buffer, words)
                    })?;
                    Ok(th.step((), |sys, buffer, ()| {
                        let words = words!($writes, sys, buffer);
                        let content = words.map_or(&[][..], |w| &w[2..]);
                        let sum = content.iter().fold(0, |sum: u32, w| sum.wrapping_add(*w));
                        Ok([head(words)[1], sum])
                    })?)
                }

                boot!(
                    3,
                    found,
                    monitor,
                    |th| {
                        let [a, b] = actor(th, 1)?;
                        let [_, _, c, d] = found.get();
                        found.set([a, b, c, d]);
                        Ok(())
                    },
                    |th| {
                        let [c, d] = actor(th, 2)?;
                        let [a, b, _, _] = found.get();
                        found.set([a, b, c, d]);
                        Ok(())
                    }
                );
            }

            pub(super) fn $name<M: Mapped>(scene: &mut Scene<'_, M>) {
                variant(scene, $name::boot, reference::em)
            }
        )+};
    }

    em! {
        em: versions, Versions = None;
        em_logged: logged, Words = [0; WORDS];
    }

    // One thread, and one object at a time.

    /// The running object, and a hash of all.
    #[derive(Persist)]
    #[repr(C)]
    struct Objects<'p> {
        object: Option<PBox<'p, Words, Unit>>,
        hash: u32,
    }

    /// What is in the object of a round.
    #[inline(always)]
    fn content(round: u32) -> Words {
        let first = input(round);
        core::array::from_fn(|i| first ^ i as u32)
    }

    fn objects_wanted() -> [u32; 4] {
        let hash = (0..ROUNDS).fold(0, |hash, i| content(i).into_iter().fold(hash, mix));
        [hash, 0, 0, 0]
    }

    /// What an object holds when it is made, and what is done in the next step.
    macro_rules! made {
        (fresh, $round:ident) => {
            content($round)
        };
        (later, $round:ident) => {
            [0; WORDS]
        };
    }
    macro_rules! filled {
        (fresh, $sys:ident, $root:ident, $round:ident) => {};
        (later, $sys:ident, $root:ident, $round:ident) => {
            let object = $root.fields($sys).object.into_follow();
            *object.ok_or($sys.abort(1))?.into_mut()? = content($round);
        };
    }

    macro_rules! objects {
        ($($name:ident: $when:ident;)+) => {$(
            mod $name {
                use super::*;

                nv_rtos::system! {
                    /// One thread.
                    pub(super) Plan on Fram;
                    table { bytes: 96, outbox_bytes: 0, seq_bits: SEQ_BITS }
                    pool { journal_entries: 6, journal_bytes: 256, seq_bits: SEQ_BITS }
                    objects {}
                    threads {
                        makes(Objects<'static> = Objects { object: None, hash: 0 }): 1;
                    }
                }

                fn makes(th: &mut Thread<Plan, Objects<'static>>) -> Result<[u32; 4], Error> {
                    th.each(0..ROUNDS, (), |th, round, ()| {
                        th.step(round, |sys, root, round| {
                            let _ = round;
                            let object = PBox::new(sys, made!($when, round))?;
                            *root.fields(sys).object.get_mut()? = Some(object);
                            Ok(())
                        })?;
                        th.step(round, |sys, root, round| {
                            let _ = round;
                            filled!($when, sys, root, round);
                            let mut root = root.fields(sys);
                            let object = root.object.follow().ok_or(sys.abort(1))?;
                            let before = *root.hash.get();
                            let hash = object.get().iter().fold(before, |h, w| mix(h, *w));
                            root.hash.set(hash)?;
                            Ok(())
                        })?;
                        th.step((), |sys, root, ()| {
                            let object = root.fields(sys).object.get_mut()?.take();
                            object.ok_or(sys.abort(1))?.free(sys)
                        })?;
                        Ok(())
                    })?;
                    Ok(th.step((), |sys, root, ()| Ok([root.get(sys).hash, 0, 0, 0]))?)
                }

                boot!(1, found, |th| {
                    found.set(makes(th)?);
                    Ok(())
                });
            }

            pub(super) fn $name<M: Mapped>(scene: &mut Scene<'_, M>) {
                variant(scene, $name::boot, objects_wanted)
            }
        )+};
    }

    objects! {
        objects: fresh;
        objects_logged: later;
    }
}
