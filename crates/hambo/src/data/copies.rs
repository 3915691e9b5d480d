//! Episodes that are in a log more than once.
//!
//! A copy tells nothing new, and one that is held out while the model learns from its original is no evidence: the model
//! has seen it. A deterministic policy from a fixed start makes them, and so does a file that is given twice.

use hambo_engine::files::Digest;
use std::collections::HashMap;

/// Steps from which on two episodes with the same numbers are taken for copies; shorter ones may be alike by chance.
const FEWEST_STEPS: usize = 3;

/// The numbers of a log: values row by row, and how many a row has.
pub(super) type Values<'a> = [(&'a [f32], usize); 4];

/// For each episode whether an earlier one has the same states, actions, rewards and next states.
pub(super) fn copies(starts: &[usize], values: Values<'_>) -> Vec<bool> {
    let n = values[0].0.len() / values[0].1.max(1);
    let rows = |episode: usize| starts[episode]..starts.get(episode + 1).copied().unwrap_or(n);
    let long = (0..starts.len()).filter(|&episode| rows(episode).len() >= FEWEST_STEPS);
    // Most episodes differ in their first steps already, so that few have to be read to their ends.
    let digest = |episode: usize, steps: usize| {
        let mut digest = Digest::default();
        for (column, width) in values {
            digest.add(&column[rows(episode).start * width..][..steps * width], f32::to_le_bytes);
        }
        digest.finish()
    };
    let mut alike: HashMap<(usize, String), Vec<usize>> = HashMap::new();
    for episode in long {
        let key = (rows(episode).len(), digest(episode, FEWEST_STEPS));
        alike.entry(key).or_default().push(episode);
    }
    let mut copies = vec![false; starts.len()];
    for ((length, _), episodes) in alike.into_iter().filter(|(_, episodes)| episodes.len() > 1) {
        let mut seen = HashMap::new();
        for episode in episodes {
            copies[episode] = seen.insert(digest(episode, length), ()).is_some();
        }
    }
    copies
}

/// What is told about copies that are left out; nothing if there are none.
pub(super) fn remark(copies: &[bool]) -> Option<String> {
    let (found, all) = (copies.iter().filter(|copy| **copy).count(), copies.len());
    (found > 0).then(|| {
        format!(
            "{found} of {all} episodes are copies of earlier ones, number for number, and were left out: they tell nothing \
             new, and a held-out copy of what a model learned from is no evidence"
        )
    })
}
