//! RSA with numbers of 128 bits, in the portions in which a program keeps them.

/// The product of two primes.
pub const MODULUS: u128 = 0xae90_6b73_0b15_5403_d80e_d352_39bd_73d3;
/// What is encrypted.
pub const MESSAGE: u128 = u128::from_be_bytes(*b"a 128-bit buffer");
/// The exponent is 65,537: so often the power is squared, and multiplied by the message once.
pub const SQUARES: u32 = 16;
/// A product is made in so many portions, each of 32 bits of a factor.
pub const PORTIONS: u32 = 4;

#[inline(always)]
fn add(a: u128, b: u128) -> u128 {
    let (sum, carry) = a.overflowing_add(b);
    if carry || sum >= MODULUS {
        sum.wrapping_sub(MODULUS)
    } else {
        sum
    }
}

/// Goes on with a product by the next 32 bits of a factor, the upper ones first.
#[inline(never)]
pub fn portion(mut product: u128, mut bits: u32, factor: u128) -> u128 {
    for _ in 0..32 {
        product = add(product, product);
        if bits >> 31 != 0 {
            product = add(product, factor);
        }
        bits <<= 1;
    }
    product
}

/// A power on its way: the last complete one, and the product that makes the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Power {
    /// A power of the message.
    pub power: u128,
    /// Its square so far; in the end its product with the message.
    pub product: u128,
}

impl Power {
    /// The message.
    pub const FIRST: Power = Power { power: MESSAGE, product: 0 };
    /// Portions until it is encrypted.
    pub const PORTIONS: u32 = (SQUARES + 1) * PORTIONS;

    /// What is next after so many portions.
    pub fn next(self, i: u32) -> Power {
        let words: [u32; 4] = [
            (self.power >> 96) as u32,
            (self.power >> 64) as u32,
            (self.power >> 32) as u32,
            self.power as u32,
        ];
        let at = i % PORTIONS;
        let factor = if i / PORTIONS < SQUARES { self.power } else { MESSAGE };
        let product = portion(self.product, words[at as usize], factor);
        match at + 1 == PORTIONS {
            true => Power { power: product, product: 0 },
            false => Power { product, ..self },
        }
    }
}

/// As words, the lowest first.
pub fn words(n: u128) -> [u16; 8] {
    let mut words = [0; 8];
    for (word, bytes) in words.iter_mut().zip(n.to_le_bytes().as_chunks().0) {
        *word = u16::from_le_bytes(*bytes);
    }
    words
}

/// From words.
pub fn number(words: [u16; 8]) -> u128 {
    words.iter().rev().fold(0, |n, word| n << 16 | u128::from(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By bits of the exponent, and by bits of a factor from below.
    fn power(message: u128, exponent: u32) -> u128 {
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
            let p = times(p, p);
            if exponent >> i & 1 == 1 { times(p, message) } else { p }
        })
    }

    #[test]
    fn portions_encrypt() {
        let last = (0..Power::PORTIONS).fold(Power::FIRST, Power::next);
        assert_eq!(last.product, 0);
        assert_eq!(last.power, power(MESSAGE, 65_537));
        // By another implementation, with integers of any length.
        assert_eq!(last.power, 0x785d_56c9_b444_e3a5_244d_f6b2_a6f4_6670);
        assert_eq!(number(words(last.power)), last.power);
    }
}
