//! What lets the other crates run on a simulated flash.

use core::pin::pin;
use core::task::{Context, Poll, Waker};
use embedded_storage_async::nor_flash::{NorFlash as _, ReadNorFlash as _};
use nvmem::device::{Contract, Torn};
use powerfail::{Chip, Device, SpiNor};

/// Bytes of a sector.
pub const SECTOR: usize = 4096;

/// Flash with words of 4 bytes, each of which is written whole or not at all.
pub enum WordNor {}
impl Chip for WordNor {
    const CONTRACT: Contract = Contract {
        name: "word-nor",
        write_size: 4,
        unit: 4,
        torn: Torn::Prefix,
        ..SpiNor::CONTRACT
    };
}

/// All futures here are ready at once.
pub fn now<F: Future>(f: F) -> F::Output {
    match pin!(f).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(v) => v,
        Poll::Pending => unreachable!("a simulated chip never waits"),
    }
}

/// The first `N` sectors of a chip as ekv's pages.
pub struct Pages<'a, 'r, C, const N: usize>(pub &'a mut Device<'r, C>);
impl<C: Chip, const N: usize> ekv::flash::Flash for Pages<'_, '_, C, N> {
    type Error = powerfail::Misused;
    fn page_count(&self) -> usize {
        N
    }
    async fn erase(&mut self, page: ekv::flash::PageID) -> Result<(), Self::Error> {
        let at = (page.index() * SECTOR) as u32;
        self.0.erase(at, at + SECTOR as u32).await
    }
    async fn read(
        &mut self,
        page: ekv::flash::PageID,
        at: usize,
        data: &mut [u8],
    ) -> Result<(), Self::Error> {
        self.0.read((page.index() * SECTOR + at) as u32, data).await
    }
    async fn write(
        &mut self,
        page: ekv::flash::PageID,
        at: usize,
        data: &[u8],
    ) -> Result<(), Self::Error> {
        self.0
            .write((page.index() * SECTOR + at) as u32, data)
            .await
    }
}
