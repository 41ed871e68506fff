//! To the flash traits of embedded-storage and back, blocking and async.
#![cfg(feature = "embedded-storage-async")]

use embedded_storage::nor_flash::{NorFlash, NorFlashError, NorFlashErrorKind, ReadNorFlash};
use embedded_storage_async::nor_flash as later;
use nvmem::Record;
use nvmem::adapter::{FromNor, ToAsyncNor, ToNor, ToNorError};
use nvmem::device::{AsyncMedium, Contract, Medium, Misuse, Torn};
use nvmem::ram::{RamFram, RamMram, RamNor};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

fn block_on<R>(f: impl Future<Output = R>) -> R {
    match pin!(f).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(r) => r,
        Poll::Pending => unreachable!("these media do not wait"),
    }
}

/// A blocking medium as an async one.
struct Now<D>(D);

impl<D: Medium> AsyncMedium for Now<D> {
    type Error = D::Error;
    const CONTRACT: Contract = D::CONTRACT;
    fn capacity(&self) -> u32 {
        self.0.capacity()
    }
    async fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), D::Error> {
        self.0.read(at, buf)
    }
    async fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), D::Error> {
        self.0.write(at, bytes)
    }
    async fn erase(&mut self, from: u32, to: u32) -> Result<(), D::Error> {
        self.0.erase(from, to)
    }
}

/// Checks what the traits require of any driver.
fn is_a_nor_flash<F: NorFlash>(mut f: F) {
    let (erase, word) = (F::ERASE_SIZE as u32, F::WRITE_SIZE);
    let mut buf = vec![0; F::ERASE_SIZE];
    f.erase(0, 2 * erase).unwrap();
    f.read(erase, &mut buf).unwrap();
    assert!(buf.iter().all(|b| *b == 0xFF), "erased bytes read 0xFF");
    let new: Vec<u8> = (0..F::ERASE_SIZE - word).map(|i| i as u8).collect();
    f.write(erase, &new).unwrap();
    f.read(erase, &mut buf).unwrap();
    assert_eq!(buf[..new.len()], new);
    assert!(buf[new.len()..].iter().all(|b| *b == 0xFF));
    f.erase(erase, 2 * erase).unwrap();
    f.read(erase, &mut buf).unwrap();
    assert!(buf.iter().all(|b| *b == 0xFF));
    let end = f.capacity() as u32;
    for e in [f.read(end, &mut buf), f.write(end, &new), f.erase(end, 0)] {
        assert_eq!(e.unwrap_err().kind(), NorFlashErrorKind::OutOfBounds);
    }
    if word > 1 {
        let e = f.write(1, &new).unwrap_err();
        assert_eq!(e.kind(), NorFlashErrorKind::NotAligned);
    }
    let e = f.erase(1, erase + 1).unwrap_err();
    assert_eq!(e.kind(), NorFlashErrorKind::NotAligned);
}

/// The same for an async driver.
async fn is_a_later_nor_flash<F: later::NorFlash>(mut f: F) {
    let erase = F::ERASE_SIZE as u32;
    let mut buf = vec![0; F::ERASE_SIZE];
    let new: Vec<u8> = (0..F::ERASE_SIZE).map(|i| i as u8).collect();
    f.erase(0, erase).await.unwrap();
    f.read(0, &mut buf).await.unwrap();
    assert!(buf.iter().all(|b| *b == 0xFF));
    f.write(0, &new).await.unwrap();
    f.read(0, &mut buf).await.unwrap();
    assert_eq!(buf, new);
    let end = f.capacity() as u32;
    let e = f.write(end, &new).await.unwrap_err();
    assert_eq!(e.kind(), NorFlashErrorKind::OutOfBounds);
    let e = f.erase(1, erase).await.unwrap_err();
    assert_eq!(e.kind(), NorFlashErrorKind::NotAligned);
}

#[test]
fn any_medium_is_a_nor_flash() {
    is_a_nor_flash(ToNor::<_, 2048>::new(RamNor::<3, 2048, 4>::new()));
    is_a_nor_flash(ToNor::<_, 512>::new(RamNor::<6, 256, 128, 0x00>::new()));
    is_a_nor_flash(ToNor::<_, 1024>::new(RamFram::<4096>::filled(0)));
    is_a_nor_flash(ToNor::<_, 64>::new(RamMram::<4096>::filled(0)));
}

#[test]
fn any_async_medium_is_an_async_nor_flash() {
    let zeros = RamNor::<6, 256, 128, 0x00>::new();
    block_on(is_a_later_nor_flash(ToAsyncNor::<_, 256>::new(Now(zeros))));
    let fram = RamFram::<4096>::filled(0);
    block_on(is_a_later_nor_flash(ToAsyncNor::<_, 512>::new(Now(fram))));
}

#[test]
fn a_driver_states_the_contract() {
    type There = FromNor<ToNor<RamNor<3, 2048, 4>, 2048>>;
    let c = <There as Medium>::CONTRACT;
    assert_eq!((c.read_size, c.write_size, c.torn), (1, 4, Torn::Unstable));
    let e = c.erase.unwrap();
    assert_eq!((e.size, e.erased, e.write_once), (2048, 0xFF, true));
    assert!(c.is_sound());
    assert_eq!(c.alignment(), 2048);
    // A driver of a part whose erased bytes read zero.
    type Zeros = FromNor<ToNor<RamNor<3, 2048, 4>, 2048>, 0x00>;
    assert_eq!(<Zeros as Medium>::CONTRACT.erase.unwrap().erased, 0);
}

#[test]
fn a_record_on_a_driver() {
    // Medium to driver and back: a part that erases to zeros, behind a driver.
    let part = RamNor::<6, 256, 8, 0x00>::new();
    let mut driver = ToNor::<_, 256>::new(part);
    for boot in 0..20u32 {
        let mut r = Record::open(FromNor::new(&mut driver), 0..1536, 0u32).unwrap();
        assert_eq!(*r.get(), boot);
        r.set(boot + 1).unwrap();
    }
    assert!(driver.into_inner().wear().iter().all(|w| *w > 3));
}

/// A driver whose words may be overwritten.
struct Multiwrite(ToNor<RamNor<3, 1024, 4, 0xFF, false>, 1024>);

impl embedded_storage::nor_flash::ErrorType for Multiwrite {
    type Error = ToNorError<Misuse>;
}
impl ReadNorFlash for Multiwrite {
    const READ_SIZE: usize = 1;
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Self::Error> {
        self.0.read(at, buf)
    }
    fn capacity(&self) -> usize {
        3072
    }
}
impl NorFlash for Multiwrite {
    const WRITE_SIZE: usize = 4;
    const ERASE_SIZE: usize = 1024;
    fn erase(&mut self, from: u32, to: u32) -> Result<(), Self::Error> {
        self.0.erase(from, to)
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Self::Error> {
        self.0.write(at, bytes)
    }
}
impl embedded_storage::nor_flash::MultiwriteNorFlash for Multiwrite {}

#[test]
fn a_record_on_a_driver_whose_words_may_be_overwritten() {
    let mut medium = FromNor::multiwrite(Multiwrite(ToNor::new(RamNor::new())));
    for boot in 0..100u32 {
        let mut r = Record::open(&mut medium, 0..3072, 0u32).unwrap();
        assert_eq!(*r.get(), boot);
        r.set(boot + 1).unwrap();
    }
    let wear = *medium.into_inner().0.into_inner().wear();
    assert!(wear.iter().sum::<u32>() < 10, "{wear:?}");
}

#[test]
fn an_async_driver_is_an_async_medium() {
    let part = RamNor::<3, 256, 4>::new();
    let mut d = FromNor::new(ToAsyncNor::<_, 256>::new(Now(part)));
    block_on(async {
        let d: &mut FromNor<_> = &mut d;
        AsyncMedium::erase(d, 0, 256).await.unwrap();
        AsyncMedium::write(d, 4, &[1, 2, 3, 4]).await.unwrap();
        let mut buf = [0; 8];
        AsyncMedium::read(d, 0, &mut buf).await.unwrap();
        assert_eq!(buf, [0xFF, 0xFF, 0xFF, 0xFF, 1, 2, 3, 4]);
        assert_eq!(AsyncMedium::capacity(d), 768);
        let e = AsyncMedium::write(d, 4, &[1, 2, 3, 4]).await.unwrap_err();
        assert_eq!(e, ToNorError::Medium(Misuse::NotErased));
    });
}

#[test]
fn misuse_is_an_error_value() {
    let mut d = RamNor::<2, 64, 8>::new().endurance(2);
    assert_eq!(d.write(4, &[0; 8]), Err(Misuse::Misaligned));
    assert_eq!(d.write(0, &[0; 9]), Err(Misuse::Misaligned));
    assert_eq!(d.write(128, &[0; 8]), Err(Misuse::OutOfRange));
    assert_eq!(d.read(120, &mut [0; 9]), Err(Misuse::OutOfRange));
    assert_eq!(d.erase(8, 64), Err(Misuse::Misaligned));
    assert_eq!(d.erase(64, 0), Err(Misuse::OutOfRange));
    d.write(8, &[0xFF; 8]).unwrap();
    // Even if the value is the stored one.
    assert_eq!(d.write(8, &[0xFF; 8]), Err(Misuse::NotErased));
    d.erase(0, 64).unwrap();
    d.write(8, &[1; 8]).unwrap();
    d.erase(0, 128).unwrap();
    assert_eq!(d.wear(), &[2, 1]);
    assert_eq!(d.erase(0, 64), Err(Misuse::WornOut));
}
