//! The async driver on the chip, and futures dropped at every await point.

use crate::chip::bench::{Delay, Plain, plain};
use embassy_futures::block_on;
use spi_fram::{AsyncSpiFram, Error, Part, Protection};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

const PART: Part = Part::MB85RS64T;
type Chip = Plain<8192>;

/// Polls at most `n` times; `None` if the future was dropped before its end.
fn polls<R>(n: usize, f: impl Future<Output = R>) -> Option<R> {
    let mut f = pin!(f);
    let mut cx = Context::from_waker(Waker::noop());
    (0..n).find_map(|_| match f.as_mut().poll(&mut cx) {
        Poll::Ready(r) => Some(r),
        Poll::Pending => None,
    })
}

fn chip() -> (
    Chip,
    AsyncSpiFram<Chip>,
    Delay<nvmem::ram::RamFram<8192>, nvmem::ram::RamFram<1>>,
) {
    let b = plain(PART);
    let fram = AsyncSpiFram::new(b.clone(), PART);
    (b.clone(), fram, Delay(b))
}

#[test]
fn all_of_it() {
    let (b, fram, mut delay) = chip();
    let mut fram = fram.with_max_burst(5);
    block_on(async {
        fram.init(&mut delay).await.unwrap();
        fram.write(8180, b"twelve bytes").await.unwrap();
        let mut read = [0; 12];
        fram.read(8180, &mut read).await.unwrap();
        assert_eq!(&read, b"twelve bytes");
        fram.sleep().await.unwrap();
        assert_eq!(fram.read(0, &mut read).await, Err(Error::Asleep));
        fram.wake(&mut delay).await.unwrap();
        fram.protect(Protection::UpperQuarter, false).await.unwrap();
        assert_eq!(fram.write(8180, &[0]).await, Err(Error::Protected));
        fram.protect(Protection::Nothing, false).await.unwrap();
        fram.write_disable().await.unwrap();
    });
    assert_eq!(&b.chip.borrow().cells.bytes()[8180..], b"twelve bytes");
    assert_eq!(b.chip.borrow().forbidden, 0);
}

#[test]
fn a_write_that_is_dropped_leaves_a_prefix() {
    let new: Vec<u8> = (1..=9).collect();
    let mut seen = Vec::new();
    for n in 0.. {
        let (b, fram, _) = chip();
        let mut fram = fram.with_max_burst(4);
        let done = polls(n, fram.write(5, &new));
        let stored = {
            let chip = b.chip.borrow();
            let cells = &chip.cells.bytes()[5..];
            cells.iter().take_while(|c| **c != 0xEE).count()
        };
        let whole: Vec<u8> = (0..8192)
            .map(|i| match i {
                5.. if i < 5 + stored => new[i - 5],
                _ => 0xEE,
            })
            .collect();
        assert_eq!(b.chip.borrow().cells.bytes()[..], whole[..], "{n} polls");
        seen.push(stored);
        // The driver still works.
        block_on(fram.write(5, &new)).unwrap();
        assert_eq!(b.chip.borrow().cells.bytes()[5..14], new);
        if done.is_some() {
            break;
        }
    }
    seen.dedup();
    assert_eq!(seen, (0..=9).collect::<Vec<_>>());
}

/// The state of the chip is unknown then: the driver requires `wake`.
#[test]
fn sleep_and_wake_that_are_dropped() {
    for n in 0.. {
        let (b, mut fram, mut delay) = chip();
        let slept = polls(n, fram.sleep()).is_some();
        if n > 0 {
            assert_eq!(block_on(fram.write(0, &[1])), Err(Error::Asleep));
        }
        block_on(fram.wake(&mut delay)).unwrap();
        block_on(fram.write(0, &[1])).unwrap();
        assert_eq!(b.chip.borrow_mut().cell(0), 1, "{n} polls");
        if slept {
            break;
        }
    }
    for n in 0.. {
        let (b, mut fram, mut delay) = chip();
        block_on(fram.sleep()).unwrap();
        let woke = polls(n, fram.wake(&mut delay)).is_some();
        assert_eq!(block_on(fram.write(0, &[1])).is_ok(), woke, "{n} polls");
        block_on(fram.wake(&mut delay)).unwrap();
        block_on(fram.write(0, &[1])).unwrap();
        assert_eq!(b.chip.borrow_mut().cell(0), 1, "{n} polls");
        if woke {
            break;
        }
    }
}
