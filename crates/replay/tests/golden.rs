//! Golden images: every byte of the format. A change needs a new format version, and a line in
//! CHANGELOG.md and in docs/SPEC.md.

use nv_replay::nvmem::{InOrder16, InOrder32, Model, Region};
use nv_replay::pmem_tx::{self, Contexts, Held, Sharing, Width};
use nv_replay::{
    CallKind, Config, Error, Options, PBox, Port, Replay, TableItem, Threads, inspect,
};
use std::mem::MaybeUninit;

const TABLE: Config = Config {
    bytes: 96,
    outbox_bytes: 8,
    seq_bits: 8,
};
static PORT: Port<u16> = Port::new(0x21);

/// A step without a result, one with a result, a failed one, one that consumes a handle, a running
/// loop, a message.
fn memory<M: Model>() -> Vec<MaybeUninit<u64>>
where
    M::Unit: Width,
{
    let mut m = vec![MaybeUninit::new(0u64); 112];
    let options = Options {
        table: TABLE,
        pool: Some(pmem_tx::Config::SMALL),
        version: 0x0102,
        ..Options::default()
    };
    let mut rt = Replay::<u32, M>::open(Region::new(&mut m), options, |_| Ok(0)).unwrap();
    rt.named(1)
        .step_own::<_, ()>((), |_, _, ()| Ok(()))
        .unwrap();
    let h = rt
        .named(2)
        .step_own::<_, (Held<u32, M::Unit>, u16)>(7u8, |tx, _, _| Ok((PBox::new(tx, 1)?, 0x5555)))
        .unwrap();
    let f = rt
        .named(3)
        .step_own::<_, ()>((), |tx, _, ()| Err(tx.abort(0x4444)));
    assert!(f.is_err());
    rt.named(4)
        .step_own::<_, ()>(h.0, |tx, _, h| {
            h.into_inner(tx)?;
            Ok(())
        })
        .unwrap();
    let left = rt.named(6).each_with(0..9, (), |rt, i, ()| {
        rt.named(5).step_own::<_, u8>((), |tx, _, ()| {
            tx.send(&PORT, 0x6666)?;
            Ok(0x77)
        })?;
        if i == 1 { Err(Error::Other) } else { Ok(()) }
    });
    assert_eq!(left.err(), Some(Error::Other));
    let _ = rt.close();
    m
}

/// The nonzero bytes of superblock and table.
fn image<M: Model>() -> String
where
    M::Unit: Width,
{
    let words = memory::<M>();
    shown::<M>(&words[..TABLE.table_bytes::<M>() / 8])
}

/// Nonzero bytes, in units.
fn shown<M: Model>(words: &[MaybeUninit<u64>]) -> String {
    let unit = size_of::<M::Unit>();
    let mut out = String::new();
    for (i, w) in words.iter().enumerate() {
        // SAFETY: initialised by `memory`, and whole units were stored.
        let bytes = unsafe { w.assume_init() }.to_le_bytes();
        if bytes != [0; 8] {
            out += &format!("{:03x} ", i * 8);
            for u in bytes.chunks(unit) {
                out.push(' ');
                u.iter().rev().for_each(|b| out += &format!("{b:02x}"));
            }
            out.push('\n');
        }
    }
    out
}

fn entries<M: Model>() -> Vec<TableItem>
where
    M::Unit: Width,
{
    let mut m = memory::<M>();
    let mut all = Vec::new();
    assert!(inspect(Region::<M>::new(&mut m), &mut |e| all.push(e)).is_ok());
    all
}

#[test]
fn a_table_of_32_bit_units() {
    insta::assert_snapshot!(image::<InOrder32>(), @r"
    000  314d4c52 00010000
    008  594c5052 00000000
    038  00000000 ce351b20
    040  314d4c52 00020001
    048  594c5052 00000005
    050  3d8df765 263bd570
    058  00180060 00000008
    060  00000040 00000008
    068  00000004 00000380
    078  00000000 9ad341b4
    080  00000001 00000000
    088  00000001 00000000
    090  00210002 00006666
    098  00ff0000 00000102
    0a8  00000138 00005555
    0b0  00004444 00000139
    0b8  00070001 00000000
    0c0  00000000 00000077
    0f0  0823e73e 0587b59c
    0f8  0443161b 03a219dd
    100  02255ad2 01205757
    ");
}

#[test]
fn a_table_of_16_bit_units() {
    insta::assert_snapshot!(image::<InOrder16>(), @r"
    000  4c52 314d 0000 0001
    008  5052 594c 0000 0000
    038  0000 0000 1b20 ce35
    040  4c52 314d 0001 0002
    048  5052 594c 0005 0000
    050  f765 3d8d d570 263b
    058  0060 0018 0008 0000
    060  0040 0000 0008 0000
    068  0002 0000 0380 0000
    078  0000 0000 dc61 1ef0
    080  0001 0000 0001 0000
    088  0000 0000 2102 6666
    098  ff00 0102 0000 0000
    0a0  22df 0118 5555 a100
    0a8  4444 41c2 0119 0701
    0b0  0000 0000 2100 0077
    0f0  0000 0000 22e7 176a
    0f8  12d4 0e19 0a85 0557
    ");
}

#[test]
fn it_tells_what_it_holds_without_the_program() {
    for (all, unit) in [(entries::<InOrder16>(), 2), (entries::<InOrder32>(), 4)] {
        let records: Vec<_> = all
            .iter()
            .filter_map(|e| match e {
                TableItem::Record { kind, bytes, .. } => Some((*kind, *bytes)),
                _ => None,
            })
            .collect();
        let up = |n: u32| n.next_multiple_of(unit);
        assert_eq!(
            records,
            [
                (CallKind::Done, 0),
                (CallKind::Done, up(unit + 2)),
                (CallKind::Aborted, unit),
                (CallKind::TookHandles, unit),
                (CallKind::Loop, 3 * unit),
                (CallKind::Done, unit),
            ]
        );
        assert!(all.contains(&TableItem::Iteration {
            depth: 1,
            iteration: 1
        }));
        assert_eq!(
            all.last(),
            Some(&TableItem::End {
                version: 0x0102,
                committed: 8
            })
        );
    }
}

/// Two threads: one has put a number into the shared root and has consumed a handle, the other has
/// a handle.
fn threads<M: Model>() -> (Vec<MaybeUninit<u64>>, usize)
where
    M::Unit: Width,
{
    type Two = Sharing<(u32,), Contexts<(u32, u16)>>;
    let table = Config { bytes: 32, ..TABLE };
    let mut m = vec![MaybeUninit::new(0u64); 112];
    let region = Region::new(&mut m);
    let pool = Some(pmem_tx::Config::SMALL);
    let all = Threads::<Two, M>::open(region, table, pool, |_| Ok(((1,), (2, 3))));
    let mut all = all.unwrap_or_else(|r| panic!("{r}"));
    let ((one, two), (mut key,)) = all.share().unwrap();
    let options = Options {
        version: 0x0102,
        ..Options::default()
    };
    let mut one = one.open(options).unwrap();
    let mut two = two.open(Options::default()).unwrap();
    let h = two
        .named(1)
        .step_own::<_, Held<u32, M::Unit>>((), |tx, _, ()| PBox::new(tx, 0x7777))
        .unwrap();
    drop(h);
    let h = one
        .named(2)
        .step_own::<_, Held<u32, M::Unit>>((), |tx, _, ()| PBox::new(tx, 0x8888))
        .unwrap();
    one.named(3)
        .step((&mut key, h), |tx, mine, (mut shared, h)| {
            *shared.get_mut(tx)? = h.into_inner(tx)?;
            *mine.get_mut(tx)? = 4;
            tx.send(&PORT, 0x6666)
        })
        .map_err(Error::from)
        .unwrap();
    let _ = all.close();
    let tables = 2 * (table.table_bytes::<M>() - 128);
    (m, 128 + tables)
}

/// The nonzero bytes of superblock and tables.
fn image_of_threads<M: Model>() -> String
where
    M::Unit: Width,
{
    let (words, len) = threads::<M>();
    shown::<M>(&words[..len / 8])
}

#[test]
fn tables_of_32_bit_units() {
    insta::assert_snapshot!(image_of_threads::<InOrder32>(), @r"
    000  314d4c52 00010000
    008  594c5052 00000000
    038  00000000 ce351b20
    040  314d4c52 00020001
    048  594c5052 00000006
    050  cca3597d f06f74fd
    058  00180020 00000008
    060  00000040 00000008
    068  00000004 00000380
    070  00000000 00000102
    078  00000000 083b0671
    080  00008001 00000000
    090  00210002 00006666
    098  00ff0000 00000102
    0a8  000001d8 000001d9
    0c0  02432eee 0122bca0
    100  00ff0000 00000000
    110  000001d0 00000000
    128  00000000 0123b3d5
    ");
}

#[test]
fn tables_of_16_bit_units() {
    insta::assert_snapshot!(image_of_threads::<InOrder16>(), @r"
    000  4c52 314d 0000 0001
    008  5052 594c 0000 0000
    038  0000 0000 1b20 ce35
    040  4c52 314d 0001 0002
    048  5052 594c 0006 0000
    050  597d cca3 74fd f06f
    058  0020 0018 0008 0000
    060  0040 0000 0008 0000
    068  0002 0000 0380 0000
    070  0000 0000 0102 0000
    078  0000 0000 9ba4 8c18
    080  0081 0000 0000 0000
    088  0000 0000 2102 6666
    098  ff00 0102 0000 0000
    0a0  2100 0190 4149 0191
    0b8  0000 0000 0a67 06bc
    0f8  ff00 0000 0000 0000
    100  2100 0188 0000 0000
    118  0000 0000 0000 06b3
    ");
}

#[test]
fn they_tell_what_they_hold_without_the_threads() {
    let (mut words, _) = threads::<InOrder32>();
    let mut all = Vec::new();
    assert!(inspect(Region::<InOrder32>::new(&mut words), &mut |e| all.push(e)).is_ok());
    let kinds: Vec<_> = all
        .iter()
        .map(|e| match e {
            TableItem::Thread { thread } => format!("thread {thread}"),
            TableItem::Record { kind, .. } => format!("{kind:?}"),
            TableItem::End { version, committed } => format!("end {version:#x} {committed}"),
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "thread 0",
            "Done",
            "TookHandles",
            "end 0x102 2",
            "thread 1",
            "Done",
            "end 0x0 1"
        ]
    );
}
