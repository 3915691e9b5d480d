//! Randomness as an explicit argument: one master seed, named child streams, a counter-based generator.
//!
//! Every random number is a pure function of (stream, counter), so it does not depend on the order of
//! work, on the number of threads, or on the device: a GPU kernel evaluates the same function.

/// Philox4x32-10 of Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3" (SC 2011).
///
/// ```
/// // Known-answer test of the authors' Random123 library.
/// assert_eq!(hambo_engine::rng::philox([0; 4], [0; 2]), [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
/// ```
#[inline]
pub fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let a = u64::from(counter[0]) * 0xD251_1F53;
        let b = u64::from(counter[2]) * 0xCD9E_8D57;
        counter = [
            (b >> 32) as u32 ^ counter[1] ^ key[0],
            b as u32,
            (a >> 32) as u32 ^ counter[3] ^ key[1],
            a as u32,
        ];
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    counter
}

/// A uniform number in the open interval (0, 1) from 32 random bits.
#[inline]
pub fn unit(bits: u32) -> f32 {
    ((bits >> 8) as f32 + 0.5) * (1.0 / 16_777_216.0)
}

/// Two independent standard normal numbers from 64 random bits (Box–Muller).
#[inline]
pub fn normal_pair(a: u32, b: u32) -> [f32; 2] {
    let radius = (-2.0 * unit(a).ln()).sqrt();
    let (sin, cos) = (std::f32::consts::TAU * unit(b)).sin_cos();
    [radius * cos, radius * sin]
}

/// Numbers below `below`, as every device draws them at that step, into lists that take turns: each `batch` is of the
/// next one.
pub(crate) fn uniform_indices_of_lists(
    key: [u32; 2],
    step: u32,
    below: u32,
    (lists, batch): (u32, u32),
    out: &mut [u32],
) {
    for (block, out) in out.chunks_mut(4).enumerate() {
        let bits = philox([block as u32, step, 0, 3], key);
        for (i, (o, b)) in out.iter_mut().zip(bits).enumerate() {
            let list = (4 * block + i) as u32 / batch % lists;
            *o = list * below + ((u64::from(b) * u64::from(below)) >> 32) as u32;
        }
    }
}

/// A named source of random numbers. Children with different names are independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    key: [u32; 2],
}

impl Stream {
    /// The root of all streams of one run.
    pub fn new(seed: u64) -> Self {
        Stream { key: [seed as u32, (seed >> 32) as u32] }
    }

    /// The stream of a part of the work, by name.
    pub fn child(&self, name: &str) -> Self {
        // FNV-1a of the name, then Philox as the hash that mixes it with the parent's key.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| {
            (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
        });
        self.mixed(hash, 0x6e61_6d65)
    }

    /// The stream of one of many equal parts (a particle, an episode), by number.
    pub fn index(&self, index: u64) -> Self {
        self.mixed(index, 0x696e_6465)
    }

    fn mixed(&self, value: u64, domain: u32) -> Self {
        let out = philox([value as u32, (value >> 32) as u32, domain, 1], self.key);
        Stream { key: [out[0], out[1]] }
    }

    /// The key that kernels use.
    pub fn key(&self) -> [u32; 2] {
        self.key
    }

    /// A generator for sequential draws on the host.
    pub fn generator(&self) -> Generator {
        Generator { key: self.key, counter: 0, block: [0; 4], used: 4 }
    }
}

/// Sequential draws from a stream, for work on the host (environments, shuffles).
#[derive(Clone, Debug)]
pub struct Generator {
    key: [u32; 2],
    counter: u64,
    block: [u32; 4],
    used: usize,
}

impl Generator {
    /// The next 32 random bits.
    pub fn bits(&mut self) -> u32 {
        if self.used == 4 {
            self.block = philox([self.counter as u32, (self.counter >> 32) as u32, 0, 2], self.key);
            self.counter += 1;
            self.used = 0;
        }
        self.used += 1;
        self.block[self.used - 1]
    }

    /// Uniform in (0, 1), with 53 random bits.
    pub fn uniform(&mut self) -> f64 {
        let bits = (u64::from(self.bits()) << 21) ^ (u64::from(self.bits()) >> 11);
        (bits as f64 + 0.5) * (1.0 / 9_007_199_254_740_992.0)
    }

    /// Uniform in (low, high).
    pub fn range(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// Standard normal.
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Uniform in 0..n. The bias of the multiplication method is below n / 2⁶⁴.
    pub fn below(&mut self, n: usize) -> usize {
        let bits = (u64::from(self.bits()) << 32) | u64::from(self.bits());
        ((u128::from(bits) * n as u128) >> 64) as usize
    }

    /// A random order (Fisher–Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The other two known answers that Random123 publishes for philox4x32-10 (kat_vectors).
    #[test]
    fn philox_gives_random123_known_answers() {
        assert_eq!(
            philox([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            philox(
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0]
            ),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn children_differ_by_name_index_and_parent() {
        let root = Stream::new(7);
        let keys = [
            root.key(),
            root.child("a").key(),
            root.child("b").key(),
            root.index(0).key(),
            root.index(1).key(),
            root.child("a").child("b").key(),
            root.child("b").child("a").key(),
            Stream::new(8).child("a").key(),
        ];
        for (i, a) in keys.iter().enumerate() {
            assert!(keys[..i].iter().all(|b| a != b), "stream {i} repeats another");
        }
    }

    #[test]
    fn host_draws_have_the_moments_of_their_distributions() {
        let mut g = Stream::new(1).child("moments").generator();
        let n = 200_000;
        let normals: Vec<f64> = (0..n).map(|_| g.normal()).collect();
        let mean = normals.iter().sum::<f64>() / n as f64;
        let var = normals.iter().map(|x| x * x).sum::<f64>() / n as f64;
        let fourth = normals.iter().map(|x| x.powi(4)).sum::<f64>() / n as f64;
        assert!(mean.abs() < 0.01 && (var - 1.0).abs() < 0.02 && (fourth - 3.0).abs() < 0.1);
        let mut counts = [0usize; 7];
        (0..n).for_each(|_| counts[g.below(7)] += 1);
        assert!(counts.iter().all(|&c| (c as f64 - n as f64 / 7.0).abs() < 800.0), "{counts:?}");
    }

    #[test]
    fn shuffle_is_a_permutation() {
        let mut items: Vec<usize> = (0..100).collect();
        Stream::new(3).generator().shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
