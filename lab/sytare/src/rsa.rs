//! RSA with numbers of 128 bits, in the portions in which a program keeps them.

use core::cmp::Ordering;
use nv_device::nvmem::Persist;

/// A number of 128 bits, the lowest word first.
pub type Number = [u16; 8];

/// The product of two primes.
pub const MODULUS: Number = words(0xae90_6b73_0b15_5403_d80e_d352_39bd_73d3);
/// What is encrypted.
pub const MESSAGE: Number = words(u128::from_be_bytes(*b"a 128-bit buffer"));
/// The exponent is 65,537: so often the power is squared, and multiplied by the message once.
const SQUARES: u16 = 16;
/// A product is made in so many portions, each of a word of a factor.
const PORTIONS: u16 = 8;

const fn words(n: u128) -> Number {
    let mut words = [0; 8];
    let mut i = 0;
    while i < 8 {
        words[i] = (n >> (16 * i)) as u16;
        i += 1;
    }
    words
}

/// The sum of two numbers below the modulus, modulo that.
#[inline(always)]
fn add(a: &mut Number, b: &Number) {
    let mut carry = false;
    for (a, b) in a.iter_mut().zip(b) {
        (*a, carry) = carrying(*a, *b, carry);
    }
    if carry || a.iter().rev().cmp(MODULUS.iter().rev()) != Ordering::Less {
        let mut carry = true;
        for (a, m) in a.iter_mut().zip(&MODULUS) {
            (*a, carry) = carrying(*a, !*m, carry);
        }
    }
}

#[inline(always)]
fn carrying(a: u16, b: u16, carry: bool) -> (u16, bool) {
    let (sum, first) = a.overflowing_add(b);
    let (sum, second) = sum.overflowing_add(carry.into());
    (sum, first | second)
}

/// A power on its way: the last complete one, and the product that makes the next one.
#[derive(Persist, Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Power {
    /// A power of the message.
    pub power: Number,
    /// Its square so far; in the end its product with the message.
    pub product: Number,
}

impl Power {
    /// The message.
    pub const FIRST: Power = Power {
        power: MESSAGE,
        product: [0; 8],
    };
    /// Portions until it is encrypted.
    pub const PORTIONS: u16 = (SQUARES + 1) * PORTIONS;

    /// Makes portion number `i`, from 0: goes on with the product by the next bits of a factor, the
    /// upper ones first.
    #[inline(never)]
    pub fn go_on(&mut self, i: u16) {
        let Power { power, product } = self;
        let factor = if i / PORTIONS < SQUARES {
            *power
        } else {
            MESSAGE
        };
        let portion = i % PORTIONS;
        let word = power.iter().rev().nth(portion.into()).copied().unwrap_or(0);
        for bit in (0..16).rev() {
            let same = *product;
            add(product, &same);
            if word >> bit & 1 == 1 {
                add(product, &factor);
            }
        }
        if portion + 1 == PORTIONS {
            *power = core::mem::take(product);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By bits of the exponent, and by bits of a factor from below.
    fn power(message: u128, exponent: u32, modulus: u128) -> u128 {
        let add = |a: u128, b: u128| {
            let (sum, carry) = a.overflowing_add(b);
            let over = carry || sum >= modulus;
            sum.wrapping_sub(if over { modulus } else { 0 })
        };
        let times = |mut a: u128, b: u128| {
            let mut product = 0;
            for i in 0..128 {
                if b >> i & 1 == 1 {
                    product = add(product, a);
                }
                a = add(a, a);
            }
            product
        };
        (0..32).rev().fold(1, |p, i| {
            let square = times(p, p);
            match exponent >> i & 1 {
                1 => times(square, message),
                _ => square,
            }
        })
    }

    fn number(words: Number) -> u128 {
        let words = words.iter().rev();
        words.fold(0, |n, word| n << 16 | u128::from(*word))
    }

    #[test]
    fn portions_encrypt() {
        let mut last = Power::FIRST;
        (0..Power::PORTIONS).for_each(|i| last.go_on(i));
        let encrypted = power(number(MESSAGE), 65_537, number(MODULUS));
        // By a third implementation, with integers of any length.
        assert_eq!(encrypted, 0x785d_56c9_b444_e3a5_244d_f6b2_a6f4_6670);
        assert_eq!((number(last.power), last.product), (encrypted, [0; 8]));
    }
}
