//! Golden images: every byte of the format. A change needs a new format version, and a line in
//! CHANGELOG.md and in docs/SPEC.md.

use crate::hostile::threads as program;

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
    assert!(inspect(&Region::<M>::new(&mut m), &mut |e| all.push(e)).is_ok());
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
    048  594c5052 00000007
    050  cca3597d f06f74fd
    058  00180020 00000008
    060  00000040 00000008
    068  00000004 00000380
    070  00000000 00000102
    078  00000000 358aeaad
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
    048  5052 594c 0007 0000
    050  597d cca3 74fd f06f
    058  0020 0018 0008 0000
    060  0040 0000 0008 0000
    068  0002 0000 0380 0000
    070  0000 0000 0102 0000
    078  0000 0000 7778 b1a9
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
    assert!(inspect(&Region::<InOrder32>::new(&mut words), &mut |e| all.push(e)).is_ok());
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

/// A migration that was cut when the first table had begun its new run, and the second one had not.
fn cut_migration<M: Model>() -> Vec<u8>
where
    M::Unit: Width,
{
    let committed = |image: &[u8], thread| {
        let mut memory = program::words(image);
        let region = Region::<M>::new(&mut memory);
        let read = nv_replay::last_committed_of(&region, thread);
        read.expect("a table").get()
    };
    let all = program::cut_migrations::<M>();
    let cut = all
        .into_iter()
        .find(|i| committed(i, 0) == program::mark::<M>(i));
    cut.expect("the number is the first table's before the mark is cleared")
}

/// The image goes on to the end of the migration.
fn goes_on<M: Model>(image: &[u8])
where
    M::Unit: Width,
{
    let mut memory = program::words(image);
    let all = program::migrate::<M>(Region::new(&mut memory));
    let mut all = all.unwrap_or_else(|r| panic!("{r}"));
    let end = ([1, 1], 1, 0, 1 << 32);
    assert_eq!(program::found(&mut all), Ok(end));
}

#[test]
fn a_cut_migration_of_32_bit_units() {
    let image = cut_migration::<InOrder32>();
    insta::assert_snapshot!(shown::<InOrder32>(&program::words(&image)), @r"
    000  314d4c52 00020002
    008  594c5052 00000007
    010  05e1d577 c56947b3
    018  00180090 00000006
    020  00000040 00000005
    028  00000004 00000800
    030  0000000a 00000102
    038  00000000 6cd50550
    040  314d4c52 00020001
    048  594c5052 00000007
    050  44a0ee9a 597435e6
    058  00180090 00000006
    060  00000040 00000005
    068  00000004 00000800
    070  00000000 00000102
    078  00000000 ef692894
    080  00008001 00000000
    088  00000001 00000002
    090  00010002 00000002
    098  000ac000 00000000
    0a8  000001e8 000001f8
    0b0  000001e9 00098003
    128  08202d78 0386a565
    130  02438c97 0125498e
    1e0  001f0000 00000000
    1f0  000001e8 000001e9
    1f8  00000005 00000000
    278  0246876a 01235ec5
    310  00000000 00000218
    318  00000000 00000230
    320  00000000 00000208
    328  000001e0 000a0000
    330  00000084 000a0005
    338  00000200 000a0000
    340  00000210 000a0000
    348  00000228 000a0000
    358  000001d0 00000000
    360  000001e0 00000000
    368  000001c0 00000000
    398  000001e2 00020000
    3a0  000001c0 00010003
    3d0  00000000 000001e8
    408  10020202 00000000
    448  00000000 00000012
    458  00000000 00000012
    460  00000001 00000000
    468  00000000 0000000a
    470  00000001 00000012
    478  00000001 00000000
    480  00000000 00000012
    488  00000009 00000000
    490  00000000 00000012
    4a0  00000000 0000001a
    4a8  000001e8 00000001
    4b0  00000001 00000000
    4b8  00000000 00000012
    4c0  00000000 00000001
    4c8  00000000 00000331
    ");
    goes_on::<InOrder32>(&image);
}

#[test]
fn a_cut_migration_of_16_bit_units() {
    let image = cut_migration::<InOrder16>();
    insta::assert_snapshot!(shown::<InOrder16>(&program::words(&image)), @r"
    000  4c52 314d 0002 0002
    008  5052 594c 0007 0000
    010  abc5 558a 4e59 edd4
    018  0090 0018 0006 0000
    020  0040 0000 0005 0000
    028  0002 0000 0800 0000
    030  000a 0000 0102 0000
    038  0000 0000 7ce2 513a
    040  4c52 314d 0001 0002
    048  5052 594c 0007 0000
    050  b527 e882 33a9 1b30
    058  0090 0018 0006 0000
    060  0040 0000 0005 0000
    068  0002 0000 0800 0000
    070  0000 0000 0102 0000
    078  0000 0000 e113 af88
    080  0081 0000 0001 0000
    088  0002 0000 0102 0002
    098  0ac0 0000 0000 0000
    0a0  2200 01b8 01c8 416e
    0a8  01b9 0983 0000 0000
    128  21df 0fa7 0aaf 0649
    1d8  1f00 0000 0000 0000
    1e0  2100 01b8 458a 01b9
    1e8  0005 0000 0000 0000
    268  0000 0000 0a0d 0676
    300  0000 01e8 0000 0200
    308  0000 01d8 0000 0000
    310  01b0 0a00 0082 0a05
    318  01d0 0a00 01e0 0a00
    320  01f8 0a00 0000 0000
    328  01a0 0000 01b0 0000
    330  0190 0000 0000 0000
    368  01b2 0200 0190 0104
    388  0000 01b8 0000 0000
    3c0  0202 1002 0000 0000
    408  0000 0000 0000 0012
    418  0000 0000 0000 0012
    420  0001 0000 0000 0000
    428  0000 0000 0000 000a
    430  0001 0000 0000 0012
    438  0001 0000 0000 0000
    440  0000 0000 0000 0012
    448  0009 0000 0000 0000
    450  0000 0000 0000 0012
    460  0000 0000 0000 001a
    468  01b8 0000 0001 0000
    470  0001 0000 0000 0000
    478  0000 0000 0000 0012
    480  0000 0000 0001 0000
    488  0000 0000 0000 0371
    ");
    goes_on::<InOrder16>(&image);
}
