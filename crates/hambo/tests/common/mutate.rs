//! Files changed at random, for as long as is asked for: fuzzing without coverage, which needs no tool. `fuzz/run` is the better one.

#![allow(missing_docs, clippy::unwrap_used)]

use hambo_engine::rng::{Generator, Stream};
use std::path::Path;
use std::time::{Duration, Instant};

/// Seconds for all targets together, unless `HAMBO_MUTATION_SECONDS` says otherwise.
const SECONDS: f64 = 4.0;

/// The name of a target's seeds, and what is given them.
pub type Target<'a> = (&'a str, fn(&[u8]));

/// Gives changed seeds to each of the targets; how many there were. The one at hand lies in the temporary folder, and is
/// named where a target takes long.
pub fn mutate(targets: &[Target<'_>], corpora: &[&Path]) -> usize {
    let asked = std::env::var("HAMBO_MUTATION_SECONDS").ok().and_then(|text| text.parse().ok());
    let each = Duration::from_secs_f64(asked.unwrap_or(SECONDS) / targets.len() as f64);
    let seed = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    let mut generator = Stream::new(seed).generator();
    let mut all = 0;
    for (name, reader) in targets {
        let seeds: Vec<Vec<u8>> =
            corpora.iter().flat_map(|folder| files(&folder.join(name))).collect();
        if seeds.is_empty() {
            println!("{name}: no seeds");
            continue;
        }
        let (start, mut count) = (Instant::now(), 0);
        while start.elapsed() < each {
            let bytes = changed(&seeds, &mut generator);
            let kept =
                std::env::temp_dir().join(format!("hambo-mutation-{name}-{}", std::process::id()));
            std::fs::write(&kept, &bytes).unwrap();
            let begun = Instant::now();
            reader(&bytes); // a panic leaves the file
            assert!(begun.elapsed() < Duration::from_secs(10), "{} takes long", kept.display());
            std::fs::remove_file(kept).unwrap();
            count += 1;
        }
        println!("{name}: {count} inputs");
        all += count;
    }
    all
}

fn files(folder: &Path) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| std::fs::read(entry.path()).ok())
        .filter(|f| f.len() < 1 << 20)
        .collect()
}

/// A seed with a few bits, bytes or pieces of it changed, or a part of another seed in it.
fn changed(seeds: &[Vec<u8>], generator: &mut Generator) -> Vec<u8> {
    let mut below = |n: usize| (generator.uniform() * n as f64) as usize % n.max(1);
    let mut bytes = seeds[below(seeds.len())].clone();
    for _ in 0..=below(4) {
        let (at, size) = (below(bytes.len() + 1), 1 + below(8));
        let end = bytes.len().min(at + size);
        match below(8) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end)),
            2 => drop(bytes.splice(at..at, vec![below(256) as u8; size])),
            3 => bytes[at..end].fill([0, 0xff, b'9', b'-'][below(4)]),
            4 => {
                let other = &seeds[below(seeds.len())];
                let from = below(other.len() + 1);
                let piece = other[from..other.len().min(from + 8 * size)].to_vec();
                bytes.splice(at..end, piece);
            }
            5 if at < bytes.len() => bytes[at] = below(256) as u8,
            _ if at < bytes.len() => bytes[at] ^= 1 << below(8),
            _ => bytes.extend_from_slice(&[0; 4]),
        }
    }
    bytes
}
