//! Ports: levels, directions, functions, interrupts.

/// Register of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Register {
    In,
    Out,
    Dir,
    Ren,
    Sel0,
    Sel1,
    Iv,
    Ies,
    Ie,
    Ifg,
}

/// A port.
#[derive(Clone, Copy, Default)]
pub struct Port {
    out: u8,
    dir: u8,
    ren: u8,
    sel: [u8; 2],
    ies: u8,
    ie: u8,
    ifg: u8,
    /// What the outside drives.
    outside: u8,
    /// Flags that the program has cleared.
    cleared: u8,
}

impl Port {
    /// The port and the register at an address: ports 1 and 2, and 3.
    pub fn find(at: u16) -> Option<(usize, Register)> {
        let (port, offset) = match at {
            0x020E => return Some((0, Register::Iv)),
            0x021E => return Some((1, Register::Iv)),
            0x0200..=0x021D => (usize::from(at & 1), at & 0x1E),
            0x0220..=0x023D if at & 1 == 0 => (2, at & 0x1E),
            _ => return None,
        };
        let register = match offset {
            0x00 => Register::In,
            0x02 => Register::Out,
            0x04 => Register::Dir,
            0x06 => Register::Ren,
            0x0A => Register::Sel0,
            0x0C => Register::Sel1,
            0x18 => Register::Ies,
            0x1A => Register::Ie,
            0x1C => Register::Ifg,
            _ => return None,
        };
        Some((port, register))
    }

    pub fn read(&mut self, register: Register) -> u8 {
        match register {
            Register::In => self.level(),
            Register::Out => self.out,
            Register::Dir => self.dir,
            Register::Ren => self.ren,
            Register::Sel0 => self.sel[0],
            Register::Sel1 => self.sel[1],
            Register::Ies => self.ies,
            Register::Ie => self.ie,
            Register::Ifg => self.ifg,
            // The lowest pin first; its flag is reset.
            Register::Iv => match (self.ifg & self.ie).trailing_zeros() {
                8.. => 0,
                n => {
                    self.ifg &= !(1 << n);
                    self.cleared |= 1 << n;
                    2 * (n as u8 + 1)
                }
            },
        }
    }

    pub fn write(&mut self, register: Register, value: u8) {
        match register {
            Register::In | Register::Iv => {}
            Register::Out => self.out = value,
            Register::Dir => self.dir = value,
            Register::Ren => self.ren = value,
            Register::Sel0 => self.sel[0] = value,
            Register::Sel1 => self.sel[1] = value,
            Register::Ies => self.ies = value,
            Register::Ie => self.ie = value,
            Register::Ifg => {
                self.cleared |= self.ifg & !value;
                self.ifg = value;
            }
        }
    }

    fn level(&self) -> u8 {
        self.out & self.dir | self.outside & !self.dir
    }

    /// The outside drives these pins.
    pub fn drive(&mut self, pins: u8, levels: u8) {
        let before = self.level();
        self.outside = self.outside & !pins | levels & pins;
        let now = self.level();
        let (rises, falls) = (now & !before, before & !now);
        self.ifg |= (rises & !self.ies | falls & self.ies) & !self.dir;
    }

    /// The level to which the port drives a pin, if it does.
    pub fn drives(&self, pin: u8) -> Option<bool> {
        (self.dir & pin != 0).then_some(self.out & pin != 0)
    }

    pub fn direction(&self) -> u8 {
        self.dir
    }

    pub fn output(&self) -> u8 {
        self.out
    }

    pub fn enabled(&self) -> u8 {
        self.ie
    }

    /// The pins that belong to a peripheral's primary or secondary function.
    pub fn selected(&self) -> u8 {
        self.sel[0] | self.sel[1]
    }

    pub fn interrupts(&self) -> bool {
        self.ifg & self.ie != 0
    }

    pub fn take_cleared(&mut self) -> u8 {
        std::mem::take(&mut self.cleared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_of_three_ports() {
        assert_eq!(Port::find(0x0202), Some((0, Register::Out)));
        assert_eq!(Port::find(0x021D), Some((1, Register::Ifg)));
        assert_eq!(Port::find(0x0224), Some((2, Register::Dir)));
        assert_eq!(Port::find(0x021E), Some((1, Register::Iv)));
        for none in [0x0208, 0x020F, 0x0225, 0x0240] {
            assert_eq!(Port::find(none), None);
        }
    }

    #[test]
    fn an_edge_of_an_input_sets_its_flag() {
        let mut p = Port::default();
        p.drive(6, 6);
        assert_eq!(p.read(Register::Ifg), 6, "rising ones");
        p.write(Register::Ifg, 0);
        assert_eq!(p.take_cleared(), 6);
        p.write(Register::Ies, 2);
        p.drive(6, 0);
        assert_eq!((p.read(Register::Ifg), p.interrupts()), (2, false));
        p.write(Register::Ie, 6);
        assert!(p.interrupts());
        // The vector names the pin, and resets its flag.
        assert_eq!((p.read(Register::Iv), p.read(Register::Iv)), (4, 0));
        assert!(!p.interrupts() && p.take_cleared() == 2);
    }

    #[test]
    fn an_output_shows_its_level() {
        let mut p = Port::default();
        p.drive(1, 1);
        p.write(Register::Dir, 1);
        assert_eq!((p.read(Register::In), p.drives(1)), (0, Some(false)));
        p.write(Register::Out, 3);
        assert_eq!((p.read(Register::In), p.drives(2)), (1, None));
    }
}
