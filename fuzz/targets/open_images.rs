//! Any bytes as checkpoints, as images and as a log, on media with and without erase. A restored
//! image was checked; a refused one leaves memory unchanged.

#![no_main]

use checkpoint::{Archive, Error, HeapTracker, Landmarks, Log, Memory, Store};
use libfuzzer_sys::fuzz_target;
use nvmem::Medium;
use nvmem::ram::{RamFram, RamNor};
use relume_fuzz::{edit, overwrite, seeds};
use std::fmt::Debug;

const PLACES: usize = 3;
type Nor = RamNor<3, 256, 8>;
type Fram = RamFram<768>;

struct Used;
impl checkpoint::Blocks for Used {
    fn in_use(&self, block: u32) -> bool {
        block == 1
    }
}

#[derive(Clone, PartialEq, Debug)]
struct State([u8; 9], [u8; 40], [u8; 12]);

impl State {
    fn filled(n: u8) -> Self {
        let mut heap = [0; 40];
        heap[..4].fill(n);
        State([n; 9], heap, [n; 12])
    }
    fn memory(&mut self) -> Memory<'_> {
        Memory::new(&mut self.0, &mut self.1, &mut self.2).stack_from(3)
    }
}

type Checkpoints<D> = Archive<D, HeapTracker<'static, Used>, Landmarks, PLACES>;

fn open<D: Medium<Error: Debug>>(medium: D) -> Checkpoints<D> {
    let all = 0..medium.capacity();
    Archive::open(medium, all, 7, HeapTracker(&Used), Landmarks(2)).expect("any bytes are opened")
}

/// A medium with a few checkpoints.
fn sound<D: Medium<Error: Debug>>(blank: D) -> D {
    let mut archive = open(blank);
    for n in 1..6 {
        let taken = archive.checkpoint(n, &State::filled(n as u8).memory(), n);
        taken.expect("a sound medium");
    }
    archive.into_medium()
}

fn run<D: Medium<Error: Debug> + Clone>(
    mut medium: D,
    image: fn(&mut D) -> &mut [u8],
    change: impl FnOnce(&mut [u8]),
) {
    change(image(&mut medium));
    let mut archive = open(medium);
    let mut state = State::filled(0xA5);
    for entry in archive.list().expect("inside").into_iter().flatten() {
        let before = state.clone();
        match archive.roll_back(entry.sequence, &state.memory()) {
            Ok(()) => {
                let r = archive.restore(&mut state.memory()).expect("was checked");
                assert_eq!((r.name, r.context), (entry.name, entry.context));
            }
            Err(Error::Medium(e)) => panic!("the medium was misused: {e:?}"),
            Err(_) => assert_eq!(state, before, "refused, and memory was written"),
        }
    }
    let before = state.clone();
    match archive.restore(&mut state.memory()) {
        Ok(_) => {}
        Err(Error::Medium(e)) => panic!("the medium was misused: {e:?}"),
        Err(_) => assert_eq!(state, before, "refused, and memory was written"),
    }
    state = State::filled(0x33);
    let taken = archive.checkpoint(77, &state.memory(), 78);
    taken.expect("there is always room for a new checkpoint");
    let mut archive = open(archive.into_medium());
    let mut found = State::filled(0x33);
    found.0.fill(0);
    let r = archive.restore(&mut found.memory()).expect("is the newest");
    assert_eq!((r.name, r.context), (77, 78));
    assert_eq!(found, state, "a checkpoint was lost");
}

type Logged<D> = Log<D, 6, 24, 32>;
type LogNor = RamNor<14, 256, 8>;
type LogFram = RamFram<1280>;

fn open_log<D: Medium<Error: Debug>>(medium: D) -> Logged<D> {
    let all = 0..medium.capacity();
    Log::open(medium, all, 7).expect("any bytes are opened")
}

/// A medium with a few checkpoints of a log, written by more than one boot.
fn sound_log<D: Medium<Error: Debug>>(blank: D) -> D {
    let mut log = open_log(blank);
    for n in 1..6u8 {
        if n % 2 == 1 {
            log = open_log(log.into_medium());
            log.load(&mut State::filled(0).memory()).ok();
        }
        log.save(&State::filled(n).memory(), n.into())
            .expect("a sound medium");
    }
    log.into_medium()
}

fn run_log<D: Medium<Error: Debug>>(
    mut medium: D,
    image: fn(&mut D) -> &mut [u8],
    change: impl FnOnce(&mut [u8]),
) {
    change(image(&mut medium));
    let mut shown = String::new();
    checkpoint::inspect::log(image(&mut medium), 8, &mut shown).expect("a string");
    let mut log = open_log(medium);
    let mut state = State::filled(0xA5);
    let before = state.clone();
    match log.load(&mut state.memory()) {
        Ok(_) => {}
        Err(Error::Medium(e)) => panic!("the medium was misused: {e:?}"),
        Err(_) => assert_eq!(state, before, "refused, and memory was written"),
    }
    for n in 70..73 {
        state = State::filled(n);
        log.save(&state.memory(), n.into())
            .expect("there is always room for a new checkpoint");
        let mut found = State::filled(n);
        found.0.fill(0);
        log = open_log(log.into_medium());
        let r = log.load(&mut found.memory()).expect("is the newest");
        assert_eq!(r.context, u32::from(n));
        assert_eq!(found, state, "a checkpoint was lost");
    }
}

fuzz_target!(
    init: {
        let with = |mode: u8, image: &[u8]| [&[mode], image].concat();
        seeds(&[
            ("edit-fram", vec![0]),
            ("edit-nor", vec![1]),
            ("whole-fram", with(2, sound(Fram::filled(0)).bytes())),
            ("whole-nor", with(3, sound(Nor::new()).bytes())),
            ("edit-log-fram", vec![4]),
            ("edit-log-nor", vec![5]),
            ("whole-log-fram", with(6, sound_log(LogFram::filled(0)).bytes())),
            ("whole-log-nor", with(7, sound_log(LogNor::new()).bytes())),
        ]);
    },
    |data: &[u8]| {
        let Some((mode, rest)) = data.split_first() else {
            return;
        };
        let change = |image: &mut [u8]| if mode & 2 == 0 { edit(image, rest) } else { overwrite(image, rest) };
        match (mode & 4, mode & 1) {
            (4, 0) => run_log(sound_log(LogFram::filled(0)), |d| d.bytes_mut(), change),
            (4, _) => run_log(sound_log(LogNor::new()), |d| d.bytes_mut(), change),
            (_, 0) => run(sound(Fram::filled(0)), |d| d.bytes_mut(), change),
            _ => run(sound(Nor::new()), |d| d.bytes_mut(), change),
        }
    }
);
