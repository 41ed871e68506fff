//! The traits of `nvmem` and `embedded-storage`, and the adapter to NOR flash.

use crate::chip::bench::{Fault, plain};
use embedded_storage::Storage;
use embedded_storage::nor_flash::{NorFlash, NorFlashError, NorFlashErrorKind, ReadNorFlash};
use nvmem::adapter::{ToAsyncNor, ToNor};
use nvmem::device::{AsyncMedium, Contract, Medium, Misuse, Torn};
use spi_fram::{AsyncSpiFram, Error, Part, SpiFram};

/// Cells of any number.
pub struct Cells(pub Vec<u8>);

impl Medium for Cells {
    type Error = Misuse;
    const CONTRACT: Contract = nvmem::ram::RamFram::<1>::CONTRACT;
    fn capacity(&self) -> u32 {
        self.0.len() as u32
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Misuse> {
        buf.copy_from_slice(&self.0[at as usize..][..buf.len()]);
        Ok(())
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Misuse> {
        self.0[at as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
    fn erase(&mut self, _: u32, _: u32) -> Result<(), Misuse> {
        Ok(())
    }
}

const PART: Part = Part::FM25L16B;

#[test]
fn it_is_the_byte_device_of_the_failure_model() {
    fn contract<M: Medium>(_: &M) -> Contract {
        M::CONTRACT
    }
    fn later<M: AsyncMedium>(_: &M) -> Contract {
        M::CONTRACT
    }
    let c = contract(&SpiFram::new(plain::<2048>(PART), PART));
    assert_eq!(c, later(&AsyncSpiFram::new(plain::<2048>(PART), PART)));
    assert!(c.is_sound());
    assert_eq!((c.read_size, c.write_size, c.unit), (1, 1, 1));
    assert_eq!((c.torn, c.erase), (Torn::Prefix, None));
    assert_eq!(c.alignment(), 1);
}

#[test]
fn medium() {
    fn run<M: Medium>(mut m: M) -> M::Error {
        assert_eq!(m.capacity(), 2048);
        m.write(2040, b"12345678").unwrap();
        let mut b = [0; 4];
        m.read(2044, &mut b).unwrap();
        assert_eq!(&b, b"5678");
        // An erase does nothing: the bytes keep their values.
        m.erase(0, 2048).unwrap();
        m.flush().unwrap();
        m.read(2044, &mut b).unwrap();
        assert_eq!(&b, b"5678");
        assert!(m.read(2045, &mut b).is_err());
        assert!(m.erase(1, 0).is_err());
        m.erase(0, 2049).unwrap_err()
    }
    let b = plain::<2048>(PART);
    let e = run(SpiFram::new(b.clone(), PART));
    assert_eq!(e, Error::<Fault>::OutOfRange);
    assert_eq!(&b.chip.borrow().cells.bytes()[2040..], b"12345678");
}

#[test]
fn async_medium() {
    async fn run<M: AsyncMedium>(mut m: M) -> M::Error {
        assert_eq!(m.capacity(), 2048);
        m.write(2040, b"12345678").await.unwrap();
        let mut b = [0; 4];
        m.read(2044, &mut b).await.unwrap();
        assert_eq!(&b, b"5678");
        m.erase(0, 2048).await.unwrap();
        m.flush().await.unwrap();
        m.erase(0, 2049).await.unwrap_err()
    }
    let b = plain::<2048>(PART);
    let e = embassy_futures::block_on(run(AsyncSpiFram::new(b.clone(), PART)));
    assert_eq!(e, Error::<Fault>::OutOfRange);
    assert_eq!(&b.chip.borrow().cells.bytes()[2040..], b"12345678");
}

/// A record on the async driver counts boots.
#[test]
fn an_async_record() {
    let b = plain::<2048>(PART);
    b.chip.borrow_mut().cells.bytes_mut().fill(0);
    for boot in 0..3u32 {
        let fram = AsyncSpiFram::new(b.clone(), PART);
        embassy_futures::block_on(async {
            let opened = nvmem::asynch::Record::open(fram, 64..192, 0u32).await;
            let mut boots = opened.unwrap();
            assert_eq!(*boots.get(), boot);
            boots.set(boot + 1).await.unwrap();
        });
    }
    let mut fram = SpiFram::new(b, PART);
    let read = nvmem::Record::<u32, _>::read(&mut fram, 64..192);
    assert_eq!(
        read.unwrap(),
        Some(3),
        "the blocking form reads the same bytes"
    );
}

#[test]
fn storage() {
    fn run<S: Storage<Error: core::fmt::Debug>>(mut s: S) -> S::Error {
        assert_eq!(s.capacity(), 2048);
        s.write(3, &[1, 2, 3]).unwrap();
        let mut b = [0; 3];
        s.read(3, &mut b).unwrap();
        assert_eq!(b, [1, 2, 3]);
        s.write(2046, &b).unwrap_err()
    }
    let b = plain::<2048>(PART);
    assert_eq!(
        run(SpiFram::new(b.clone(), PART)),
        Error::<Fault>::OutOfRange
    );
    // One write is one write enable and one burst.
    assert_eq!(*b.lengths.borrow(), [1, 3 + 3, 3 + 3]);
}

#[test]
fn nor_flash_by_the_adapter() {
    let b = plain::<2048>(PART);
    let mut nor = ToNor::<_, 256>::new(SpiFram::new(b.clone(), PART));
    assert_eq!(ReadNorFlash::capacity(&nor), 2048);
    nor.erase(256, 768).unwrap();
    let mut page = [0; 256];
    nor.read(512, &mut page).unwrap();
    assert_eq!(page, [0xFF; 256]);
    nor.write(700, b"word").unwrap();
    assert_eq!(&b.chip.borrow().cells.bytes()[700..704], b"word");
    assert_eq!(b.chip.borrow_mut().cell(255), 0xEE);
    let e = nor.write(2045, b"word").unwrap_err();
    assert_eq!(e.kind(), NorFlashErrorKind::OutOfBounds);

    let later = AsyncSpiFram::new(plain::<2048>(PART), PART);
    let mut nor = ToAsyncNor::<_, 256>::new(later);
    embassy_futures::block_on(async {
        use embedded_storage_async::nor_flash::{NorFlash, ReadNorFlash};
        nor.erase(0, 256).await.unwrap();
        nor.write(9, &[1]).await.unwrap();
        let mut b = [0; 3];
        nor.read(8, &mut b).await.unwrap();
        assert_eq!(b, [0xFF, 1, 0xFF]);
    });
}
