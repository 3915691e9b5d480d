//! Work that is split among machines beforehand.

/// One of so many parts: `i/n` with i from 1.
pub type Shard = (usize, usize);

/// Reads `i/n`.
pub fn shard(text: &str) -> Result<Shard, String> {
    let parts = text.split_once('/');
    let numbers = parts.and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    numbers
        .filter(|(i, n)| (1..=*n).contains(i))
        .ok_or_else(|| "expected I/N with I from 1 to N, such as 2/4".to_owned())
}

/// Every n-th, from the i-th on.
pub fn part<T>(all: Vec<T>, (index, count): Shard) -> Vec<T> {
    all.into_iter().skip(index - 1).step_by(count).collect()
}
