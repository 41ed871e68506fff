//! Any bytes: opening and running gives values or errors, never a panic, a hang or undefined
//! behaviour.

pub mod threads;

use nv_replay::nvmem::superblock::{self, Superblock};
use nv_replay::nvmem::{Buffered32, InOrder16, InOrder32, Model, Region, Unit};
use nv_replay::pmem_tx::{self, Width};
use nv_replay::{Config, Damage, Error, Held, OpenError, Options, Outlet, PBox, Replay, inspect};
use std::mem::MaybeUninit;
use threads::{PORT, Sink, Top};

const BYTES: usize = 1024;

type Rt<'m, M> = Replay<'m, Top<'static, <M as Model>::Unit>, M>;

fn options<'m>(outlet: Option<&'m mut dyn Outlet>) -> Options<'m> {
    Options {
        table: Config {
            bytes: 144,
            outbox_bytes: 8,
            seq_bits: 5,
        },
        pool: Some(pmem_tx::Config {
            journal_entries: 4,
            journal_bytes: 48,
            seq_bits: 16,
        }),
        outlet,
        ..Options::default()
    }
}

fn program<M: Model>(rt: &mut Rt<'_, M>, until: u32) -> Result<(), Error>
where
    M::Unit: Width,
{
    let mut h = rt.step_own::<_, Held<u64, M::Unit>>((), |tx, _, ()| PBox::new(tx, 5))?;
    let b = rt.record(true)?;
    rt.each_with(0..4, (until, &mut h), |rt, i, (until, mut h)| {
        if i == until {
            return Err(Error::Other);
        }
        let x = rt.step((h.lend(), i), |tx, t, (mut h, i)| {
            *h.get_mut(tx)? += u64::from(i);
            t.get_mut(tx)?.n += 1;
            tx.send(&PORT, i as u16)?;
            Ok(*h.get(tx))
        })?;
        rt.each_with(0..2, x, |rt, _, x| {
            rt.step(x, |_, _, x| Ok(x as u8))?;
            Ok(())
        })?;
        let r = rt.step((), |tx, _, ()| Err::<(), _>(tx.abort(3)));
        if r.is_ok() { Err(Error::Other) } else { Ok(()) }
    })?;
    rt.step((h, b), |tx, t, (h, b)| {
        let t = t.get_mut(tx)?;
        (t.child, t.on) = (Some(h), b);
        Ok(())
    })?;
    Ok(())
}

fn open<'m, M: Model>(region: Region<'m, M>, sink: &'m mut Sink) -> Option<Rt<'m, M>>
where
    M::Unit: Width,
{
    let top = Rt::<M>::open(region, options(Some(sink)), |_| Ok(Top::empty()));
    top.ok()
}

/// Inspects, opens, runs, closes and opens an image again.
fn anything<M: Model>(image: &[u8]) -> bool
where
    M::Unit: Width,
{
    let mut memory = threads::words(image);
    let mut sink = Sink::default();
    let region = Region::<M>::new(&mut memory);
    let _ = inspect(&region, &mut |_| {});
    let Some(mut rt) = open::<M>(region, &mut sink) else {
        return false;
    };
    let _ = program(&mut rt, 9);
    let mut sink = Sink::default();
    let again = open::<M>(rt.close(), &mut sink).expect("what was opened opens again");
    let _ = again.audit();
    true
}

/// Images of the program at different points.
fn images<M: Model>() -> Vec<Vec<u8>>
where
    M::Unit: Width,
{
    [0, 1, 3, 9]
        .map(|until| {
            let mut memory = vec![MaybeUninit::new(0u64); BYTES / 8];
            let mut rt =
                Rt::<M>::open(
                    Region::new(&mut memory),
                    options(None),
                    |_| Ok(Top::empty()),
                )
                .unwrap();
            assert_eq!(program(&mut rt, until).is_ok(), until == 9);
            let _ = rt.close();
            threads::bytes(&memory)
        })
        .to_vec()
}

fn threads_attacked<M: Model>()
where
    M::Unit: Width,
{
    let images = [0, 1, 2, 9].map(threads::image::<M>);
    let (step, rounds) = if cfg!(miri) { (999, 2) } else { (3, 3000) };
    attack_images(&images, 2, step, rounds, &mut |image| {
        threads::attack::<M>(&mut threads::words(image), 9)
    });
    // The next version's program, on images of the old one, and of a migration that was cut.
    let mut images = vec![threads::image::<M>(2)];
    let cut = threads::cut_migrations::<M>();
    assert!(cut.len() >= 3, "{}", cut.len());
    images.extend([0, cut.len() / 2, cut.len() - 1].map(|n| cut[n].clone()));
    let (step, rounds) = if cfg!(miri) { (999, 2) } else { (7, 1000) };
    attack_images(&images, 3, step, rounds, &mut |image| {
        threads::attack_migrating::<M>(&mut threads::words(image))
    });
}

#[test]
fn threads_in_order_16() {
    threads_attacked::<InOrder16>()
}
#[test]
fn threads_in_order_32() {
    threads_attacked::<InOrder32>()
}
#[test]
fn threads_buffered_32() {
    threads_attacked::<Buffered32>()
}

/// The fuzzer's image: the last record of the second table is damaged, so its thread goes back by a
/// number, and so is an old entry of its journal. The first open does not read the entry. When the
/// thread has caught up, the next open does, and says so.
#[test]
fn an_old_entry_is_damaged() {
    let mut image = threads::cut_migrations::<InOrder32>().swap_remove(0);
    assert_eq!([image[0x27f], image[0x398]], [1, 0xe2], "another layout");
    image[0x27f] = 0;
    image[0x398] = 0xe1;
    let mut memory = threads::words(&image);
    assert!(threads::attack_migrating::<InOrder32>(&mut memory));
    let again = threads::migrate::<InOrder32>(Region::new(&mut memory)).map_err(|r| r.error);
    let journal = pmem_tx::OpenError::Damaged(pmem_tx::Component::Journal);
    assert_eq!(again.err(), Some(OpenError::Pool(journal)));
}

/// What the next version finds in a sound image.
fn found<M: Model>(image: &[u8]) -> Result<threads::Found, OpenError>
where
    M::Unit: Width,
{
    let mut memory = threads::words(image);
    let mut all = threads::migrate::<M>(Region::new(&mut memory)).map_err(|r| r.error)?;
    Ok(threads::found(&mut all).expect("sound"))
}

/// The image with another superblock, whose checksum is right.
fn with_superblock<M: Model>(image: &[u8], change: impl FnOnce(&mut Superblock)) -> Vec<u8> {
    let mut memory = threads::words(image);
    let mut region = Region::<M>::new(&mut memory);
    let mut sb = threads::superblock_of(&region).expect("sound");
    change(&mut sb);
    superblock::replace(&mut region, &sb);
    threads::bytes(&memory)
}

/// What a region's superblock says of a migration that was cut, wrongly.
fn marks<M: Model>()
where
    M::Unit: Width,
{
    let cut = threads::cut_migrations::<M>();
    // Every image goes on to the same end.
    let end = ([1, 1], 1, 0, 1 << 32);
    for image in &cut {
        assert_eq!(found::<M>(image), Ok(end));
    }
    for image in [&cut[0], &cut[cut.len() / 2], &cut[cut.len() - 1]] {
        // A damaged byte in either copy: the newer one is refused, the older one may be. One whose
        // first unit is wrong is torn, not damaged: the other copy counts.
        let newest = {
            let mut memory = threads::words(image);
            let copies = superblock::copies(&Region::<M>::new(&mut memory));
            let of = |n: usize| copies[n].map(|c| c.sequence);
            usize::from(of(1) > of(0))
        };
        for at in 0..Superblock::BYTES {
            for v in [0, 0xff, image[at] ^ 1, image[at] ^ 0x80] {
                let mut bad = image.clone();
                bad[at] = v;
                if bad == *image {
                    continue;
                }
                let before = bad.clone();
                let mut memory = threads::words(&bad);
                let opened = threads::migrate::<M>(Region::new(&mut memory)).map_err(|r| r.error);
                if at % Superblock::COPY_BYTES < M::Unit::BYTES {
                    let _ = opened.map(|mut all| threads::found(&mut all));
                    continue;
                }
                match opened.map(|mut all| threads::found(&mut all)) {
                    Ok(now) => {
                        assert_ne!(at / Superblock::COPY_BYTES, newest, "{at:#x} = {v:#x}");
                        assert_eq!(now, Ok(end), "{at:#x} = {v:#x}");
                    }
                    Err(e) => {
                        let damaged = OpenError::Damaged(Damage::Superblock);
                        assert!(
                            e == damaged || e == OpenError::Foreign,
                            "{at:#x} = {v:#x}: {e}"
                        );
                        assert_eq!(threads::bytes(&memory), before, "{at:#x} = {v:#x}");
                    }
                }
            }
        }
        // A number that does not follow that of the first thread. With the one before, the old
        // transaction is undone: that is an image that nobody wrote, opened or refused.
        let right = threads::mark::<M>(image);
        for number in (0..=32).chain([0xffff, u32::MAX]) {
            let bad = with_superblock::<M>(image, |sb| sb.params[threads::MIGRATED] = number);
            let mut memory = threads::words(&bad);
            let opened = threads::migrate::<M>(Region::new(&mut memory)).map_err(|r| r.error);
            match number {
                n if n == right => assert!(opened.is_ok(), "{opened:?}", opened = opened.err()),
                n if n == 0 || right.abs_diff(n) == 1 => {
                    let _ = opened.map(|mut all| threads::found(&mut all));
                }
                _ => {
                    let damaged = Some(OpenError::Damaged(Damage::Superblock));
                    assert_eq!(opened.err(), damaged, "{number}");
                    assert_eq!(threads::bytes(&memory), bad, "{number}");
                }
            }
        }
        // Another layout: of other types, of another format, of other tables.
        let old = {
            let mut memory = threads::words(&threads::image::<M>(9));
            let region = Region::<M>::new(&mut memory);
            threads::superblock_of(&region).expect("sound").fingerprint
        };
        let others: [fn(&mut Superblock, u64); 7] = [
            |sb, old| sb.fingerprint = old,
            |sb, _| sb.fingerprint ^= 1,
            |sb, _| sb.version = 5,
            |sb, _| sb.version = 8,
            |sb, _| sb.params[7] += 1,
            |sb, _| sb.params[0] += 8,
            |sb, _| sb.params[3] += 1,
        ];
        for (n, other) in others.into_iter().enumerate() {
            let bad = with_superblock::<M>(image, |sb| other(sb, old));
            let mut memory = threads::words(&bad);
            let opened = threads::attack_migrating::<M>(&mut memory);
            // All but the first three and the sequence bits are refused by what is compared.
            if (1..6).contains(&n) {
                assert!(!opened, "{n}");
                assert_eq!(threads::bytes(&memory), bad, "{n}");
            }
            threads::attack::<M>(&mut memory, 9);
        }
    }
}

#[test]
fn marks_in_order_16() {
    marks::<InOrder16>()
}
#[test]
fn marks_in_order_32() {
    marks::<InOrder32>()
}

/// The head of the outbox counts no message, and some are said to be kept: found by fuzzing. It was
/// opened, and after the next step it was not.
#[test]
fn kept_messages_that_the_head_leaves_out() {
    let mut tried = 0;
    for image in images::<InOrder16>() {
        // The sequence number in the upper half of the first unit behind the superblock.
        for seq in 1..=255 {
            let mut bad = image.clone();
            (bad[128], bad[129], bad[130]) = (0, seq, 1);
            tried += u32::from(!anything::<InOrder16>(&bad));
        }
    }
    assert!(tried > 0, "no image was refused");
}

fn attacked<M: Model>()
where
    M::Unit: Width,
{
    let (step, rounds) = if cfg!(miri) { (499, 2) } else { (1, 4000) };
    attack_images(&images::<M>(), 1, step, rounds, &mut anything::<M>);
}

/// Opens each image with other bytes, one at every `step`-th place and some at random in each of
/// `rounds`, and regions of other lengths. `opens` says whether an image is opened.
fn attack_images(
    images: &[Vec<u8>],
    seed: u64,
    step: usize,
    rounds: usize,
    opens: &mut dyn FnMut(&[u8]) -> bool,
) {
    let (mut opened, mut refused) = (0, 0);
    let mut rng = powerfail::Rng::new(seed);
    let mut attack = |image: &[u8]| match opens(image) {
        true => opened += 1,
        false => refused += 1,
    };
    for image in images {
        for at in (0..image.len()).step_by(step) {
            for v in [0, 1, 0x7f, 0xff, image[at] ^ 1, image[at] ^ 0x80] {
                let mut bad = image.clone();
                bad[at] = v;
                attack(&bad);
            }
        }
        for _ in 0..rounds {
            let mut bad = image.clone();
            for _ in 0..1 + rng.below(6) {
                // Superblocks stay intact: otherwise nearly every image is refused at once.
                let at = 128 + rng.below(image.len() as u64 - 128) as usize;
                bad[at] = rng.next_u32() as u8;
            }
            attack(&bad);
        }
    }
    for len in [0, 8, 64, 128, 136, 400, 1024] {
        attack(&vec![0xff; len]);
        attack(&vec![0; len]);
        let noise: Vec<_> = (0..len).map(|_| rng.next_u32() as u8).collect();
        attack(&noise);
    }
    let least = if cfg!(miri) { 0 } else { 20 };
    assert!(opened > least && refused > least, "{opened} {refused}");
}

#[test]
fn in_order_16() {
    attacked::<InOrder16>()
}
#[test]
fn in_order_32() {
    attacked::<InOrder32>()
}
#[test]
fn buffered_32() {
    attacked::<Buffered32>()
}
