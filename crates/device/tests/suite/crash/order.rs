//! A chip and its supply: whenever the supply is set, the chip loses what it was told. So the chip
//! is right only if it comes behind its supply: at the boot, behind a commit, and when a step is
//! undone.

use crate::crash::world::Outside;
use crate::crash::{BYTES, Tested, on_each, split};
use nv_device::nv_replay::{Config, Options, Replay, last_committed};
use nv_device::nvmem::Region;
use nv_device::{Apply, Committed, Devices, Members, Restore, Set, Staged, StagedDevice, open};
use powerfail::{Mapped, World, explore};
use std::cell::Cell;
use std::convert::Infallible;

/// The state after power-up.
const RESET: u8 = 0xFF;

struct Rail<'w, 'r> {
    world: &'w World<'r, Outside>,
    volts: Cell<u8>,
    register: Cell<u8>,
}

impl Rail<'_, '_> {
    fn set_volts(&self, volts: u8) {
        self.world.update(|_| {});
        self.volts.set(volts);
        self.register.set(RESET);
    }
    fn write(&self, value: u8) {
        self.world.update(|_| {});
        self.register.set(value);
    }
}

struct Supply<'b>(&'b Rail<'b, 'b>);
impl<'b> Restore for Supply<'b> {
    type Context = u8;
    type Parts = &'b Rail<'b, 'b>;
    type Error = Infallible;
    fn restore(rail: &mut Self::Parts, volts: &u8) -> Result<Self, Infallible> {
        rail.set_volts(*volts);
        Ok(Supply(rail))
    }
    fn apply(&mut self, volts: &u8) -> Result<Apply, Infallible> {
        self.0.set_volts(*volts);
        Ok(Apply::Done)
    }
}

struct Chip<'b>(&'b Rail<'b, 'b>);
impl<'b> Restore for Chip<'b> {
    type Context = u32;
    type Parts = &'b Rail<'b, 'b>;
    type Error = Infallible;
    fn restore(rail: &mut Self::Parts, value: &u32) -> Result<Self, Infallible> {
        rail.write(*value as u8);
        Ok(Chip(rail))
    }
    fn apply(&mut self, value: &u32) -> Result<Apply, Infallible> {
        self.0.write(*value as u8);
        Ok(Apply::Done)
    }
}

struct Board<'b, 'm, M: Tested> {
    supply: StagedDevice<'m, Supply<'b>, M>,
    chip: StagedDevice<'m, Chip<'b>, M>,
}
impl<M: Tested> Devices for Board<'_, '_, M> {
    fn list(&self) -> impl Members {
        (&self.supply, &self.chip)
    }
}

fn boot<M: Tested>(region: Region<'_, M>, world: &World<'_, Outside>) {
    let rail = Rail {
        world,
        volts: Cell::new(0),
        register: Cell::new(RESET),
    };
    let (contexts, rest) = split(region);
    let number = last_committed(&rest).expect("a table");
    let committed = Committed::of(number, &Config::SMALL);
    let (volts, value) =
        open::<(Staged<u8>, Staged<u32>), _>(contexts, committed, (3, 0)).expect("opens");
    let supply = StagedDevice::<Supply<'_>, _>::eager(volts, &rail).expect("the supply");
    let chip = StagedDevice::<Chip<'_>, _>::eager(value, &rail).expect("the chip");
    let set = Set::new(Board { supply, chip });
    let follows = |when: &str| {
        let (volts, value) = (set.supply.context(), set.chip.context());
        let wanted = (volts, value.map(|v| v as u8));
        let now = (Some(rail.volts.get()), Some(rail.register.get()));
        assert_eq!(now, wanted, "{when}");
    };
    follows("at the boot");
    let options = Options {
        table: Config::SMALL,
        ..Options::default()
    };
    let mut rt = Replay::<u32, M, _>::open_with(rest, options, (), |_| Ok(0))
        .unwrap_or_else(|r| panic!("{}", r.error));
    for i in 0..2 {
        rt.step_with(&set, i, |step, count, i| {
            *count.get_mut(step)? += 1;
            let board = step.token();
            // What it wants first is not what comes first.
            board.chip.change(step, |value| *value = i + 1)?;
            board.supply.change(step, |volts| *volts += 1)?;
            Ok(())
        })
        .expect("the step");
        follows("behind a commit");
        let undone = rt.step_with(&set, i, |step, _, _| {
            let board = step.token();
            board.chip.at_least_once(step, |chip| {
                *chip.context_mut() = 9;
                chip.driver().0.write(9);
                Ok(())
            })?;
            board.supply.at_least_once(step, |supply| {
                *supply.context_mut() = 9;
                supply.driver().0.set_volts(9);
                Ok(())
            })?;
            Err::<(), _>(step.abort(7))
        });
        assert!(undone.is_err());
        follows("behind an undone step");
    }
    assert_eq!(set.supply.context(), Some(5));
}

fn run<M: Tested>() {
    explore(Mapped::<M>::new(BYTES), boot)
        .depth(2)
        .max_depth(2)
        .sample(16)
        .run();
}
on_each!(supply, run);
