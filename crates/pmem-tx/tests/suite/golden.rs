//! Every byte of the format. A change here is a new format version, a line in CHANGELOG.md and one
//! in docs/SPEC.md.

use core::mem::MaybeUninit;
use nvmem::{InOrder16, InOrder32, Model, Persist, Region, Superblock};
use pmem_tx::{Config, Error, PBox, Pool, Ptr, Width};

#[derive(Persist)]
#[repr(C)]
struct Node<'p, W: Width> {
    v: [u16; 2],
    next: Option<PBox<'p, Node<'p, W>, W>>,
}

#[derive(Persist)]
#[repr(C)]
struct Top<'p, W: Width> {
    mark: [u8; 4],
    list: Option<PBox<'p, Node<'p, W>, W>>,
    cell: Option<Ptr<'p, u32, W>>,
}

const CONFIG: Config = Config {
    journal_entries: 4,
    journal_bytes: 32,
    seq_bits: 8,
};

/// All nonzero bytes behind the superblock of a pool after one committed and one aborted
/// transaction.
fn image<M: Model>() -> String
where
    M::Unit: Width,
{
    let mut words = [MaybeUninit::new(0u64); 40];
    let mut pool =
        Pool::<Top<'static, M::Unit>, M>::open_with(Region::new(&mut words), &CONFIG, |tx| {
            Ok(Top {
                mark: *b"root",
                list: None,
                cell: Some(Ptr::new(tx, 0x1111_1111)?),
            })
        })
        .unwrap();
    pool.tx(|tx, root| {
        let mut f = root.fields(tx);
        f.cell.write(0x2222_2222)?;
        let n = Node {
            v: [0x3333; 2],
            next: None,
        };
        *f.list.get_mut()? = Some(PBox::new(tx, n)?);
        Ok(())
    })
    .unwrap();
    let r = pool.tx(|tx, root| {
        *root.fields(tx).mark.get_mut()? = *b"ROOT";
        Err::<(), _>(tx.abort(1))
    });
    assert_eq!(r, Err(Error::Aborted(1)));
    pool.close();
    let unit = size_of::<M::Unit>();
    let mut out = String::new();
    for (i, w) in words.iter().enumerate().skip(Superblock::BYTES / 8) {
        // SAFETY: no type here has padding, so all is initialised.
        let w = unsafe { w.assume_init() };
        if w != 0 {
            let units: Vec<String> = (0..8 / unit)
                .map(|u| {
                    format!(
                        "{:0n$x}",
                        (w >> (u * unit * 8)) & (u64::MAX >> (64 - unit * 8)),
                        n = unit * 2
                    )
                })
                .collect();
            out += &format!("{:03x}  {}\n", i * 8, units.join(" "));
        }
    }
    out
}

#[test]
fn a_pool_of_32_bit_units() {
    insta::assert_snapshot!(image::<InOrder32>(), @r"
    080  00000001 000000f0
    088  000000f0 00000000
    090  000000f4 00010001
    0a8  746f6f72 00000000
    0c8  00002002 00000000
    0d0  00000000 0000001b
    0d8  00010001 00000000
    0e0  11111111 22222222
    0e8  00000000 00000012
    0f0  746f6f72 00000100
    0f8  000000d8 00000012
    100  33333333 00000000
    108  00000000 00000031
    ");
}

#[test]
fn a_pool_of_16_bit_units() {
    insta::assert_snapshot!(image::<InOrder16>(), @r"
    080  0001 00e8 0000 0000
    088  00e8 0000 00ec 0101
    098  6f72 746f 0000 0000
    0b8  2002 0000 0000 0000
    0c8  0000 0000 0000 001b
    0d0  0101 0000 0000 0000
    0d8  1111 1111 2222 2222
    0e0  0000 0000 0000 0012
    0e8  6f72 746f 00f8 00d0
    0f0  0000 0000 0000 000a
    0f8  3333 3333 0000 0041
    ");
}
