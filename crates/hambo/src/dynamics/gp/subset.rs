//! Larger data: a subset that covers them.
//!
//! A posterior of some of the data is a posterior: its deviation is nowhere smaller than that of all data, and the
//! rows are chosen by their inputs alone, so that its confidence sets hold as if the rest had never been logged. What
//! inducing points save besides they pay for with deviations that may be too small. Rows are taken farthest-first
//! (Gonzalez 1985): every row of the data has one nearby, also where the behavior seldom went. That takes
//! rows × subset distances and no more memory than the data.

use rayon::prelude::*;

/// Rows that a thread takes at a time.
const SHARE: usize = 4096;

/// At most `most` of the rows of `x` `[rows, width]`, in ascending order: first the one nearest to the mean of all, then
/// always the one that is farthest from those taken. Copies of rows taken are never taken.
pub fn farthest_first(x: &[f32], width: usize, most: usize) -> Vec<u32> {
    let rows = x.len() / width;
    let mean: Vec<f32> = (0..width)
        .map(|d| {
            (x.iter().skip(d).step_by(width).map(|&v| f64::from(v)).sum::<f64>() / rows as f64)
                as f32
        })
        .collect();
    let squared =
        |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f32>();
    let to_mean = |row: &u32| squared(&x[*row as usize * width..][..width], &mean);
    let Some(first) = (0..rows as u32).min_by(|a, b| to_mean(a).total_cmp(&to_mean(b))) else {
        return Vec::new();
    };
    let mut taken = vec![first];
    let mut distances = vec![f32::INFINITY; rows];
    while taken.len() < most.min(rows) {
        let last = &x[taken[taken.len() - 1] as usize * width..][..width];
        let shares = distances.par_chunks_mut(SHARE).zip(x.par_chunks(SHARE * width)).enumerate();
        let farthest = shares.map(|(share, (distances, x))| {
            let mut farthest = (0.0, 0);
            for (i, (distance, x)) in distances.iter_mut().zip(x.chunks_exact(width)).enumerate() {
                *distance = distance.min(squared(x, last));
                if *distance > farthest.0 {
                    farthest = (*distance, (share * SHARE + i) as u32);
                }
            }
            farthest
        });
        // The first of equals, whatever thread found it.
        let farther = |a: (f32, u32), b: (f32, u32)| {
            if b.0 > a.0 || (b.0 == a.0 && b.1 < a.1) { b } else { a }
        };
        let (distance, row) = farthest.reduce(|| (0.0, u32::MAX), farther);
        if distance <= 0.0 {
            break; // all others are copies
        }
        taken.push(row);
    }
    taken.sort_unstable();
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_one_nearby() {
        let x: Vec<f32> = (0..1000).map(|i| (i as f32 / 10.0).powi(2) / 100.0).collect(); // dense at 0, sparse at 100
        let kept = farthest_first(&x, 1, 21);
        assert_eq!(kept.len(), 21);
        let gap =
            |v: f32| kept.iter().map(|&k| (x[k as usize] - v).abs()).fold(f32::INFINITY, f32::min);
        assert!(x.iter().all(|&v| gap(v) < 6.0), "{kept:?}");
        assert!(kept.contains(&0) && kept.contains(&999), "the ends are taken");
    }

    #[test]
    fn copies_are_not_taken() {
        assert_eq!(farthest_first(&[1.0, 1.0, 2.0, 2.0, 1.0], 1, 4).len(), 2);
        assert_eq!(farthest_first(&[3.0], 1, 4), [0]);
    }
}
