//! The features of a window of samples.

use nvmem::Persist;

/// Readings in a sample: acceleration x, y, z and angular rate x, y, z.
pub const AXES: usize = 6;

/// Samples in a window: 2.5 s at 10 Hz.
pub const WINDOW: usize = 25;

/// One reading of all axes, in thousandths of the sensor's unit.
pub type Sample = [i32; AXES];

/// The features of a window. For each axis: the deviation of the readings from their mean, and
/// their change from sample to sample. Both on a logarithmic scale in sixteenths of an octave.
///
/// On this scale all axes have a similar range, so distances need no weights. The mean itself is
/// not a feature: it depends on how the wrist is held, not on the activity, and including it
/// recognises fewer unseen windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Persist)]
#[repr(C)]
pub struct Features([u16; 2 * AXES]);

/// Added before the logarithm: smaller differences are noise of the sensor.
const NOISE: u32 = 64;

impl Features {
    /// Computes the features of a window. **Cost**: some 600 additions, and one division per axis
    /// and feature. **Panics**: never, for any readings.
    pub fn of(window: &[Sample; WINDOW]) -> Self {
        let mut of = [0; 2 * AXES];
        for axis in 0..AXES {
            let reading = |i: usize| i64::from(window[i][axis]);
            let mean = (0..WINDOW).map(reading).sum::<i64>() / WINDOW as i64;
            let swing = (0..WINDOW).map(|i| reading(i).abs_diff(mean)).sum::<u64>();
            let change = (1..WINDOW)
                .map(|i| reading(i).abs_diff(reading(i - 1)))
                .sum::<u64>();
            of[2 * axis] = sixteenths(swing / WINDOW as u64);
            of[2 * axis + 1] = sixteenths(change / (WINDOW - 1) as u64);
        }
        Features(of)
    }

    /// The value of an unused slot for features.
    pub const NONE: Features = Features([0; 2 * AXES]);

    /// Deviation and change of each axis in turn.
    pub fn values(&self) -> &[u16; 2 * AXES] {
        &self.0
    }

    /// The distance between two windows, at most 6,132.
    pub fn distance(&self, other: &Features) -> u16 {
        let apart = self.0.iter().zip(&other.0).map(|(a, b)| a.abs_diff(*b));
        apart.fold(0, u16::saturating_add)
    }
}

/// The logarithm of `v` plus the noise in sixteenths of an octave, linear between octaves: below
/// 512.
fn sixteenths(v: u64) -> u16 {
    let v = u32::try_from(v).unwrap_or(u32::MAX).saturating_add(NOISE);
    let octave = v.ilog2();
    (octave * 16 + ((v >> (octave - 4)) & 15)) as u16
}
