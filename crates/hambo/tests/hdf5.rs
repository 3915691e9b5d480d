//! D4RL files: written by h5py, written here, the real ones, and wrong ones.

#![allow(clippy::unwrap_used, clippy::panic)] // the exemption for tests does not reach their helping functions

#[path = "common/assets.rs"]
mod assets;

use assets::assets;
use hambo::data::{Columns, Transitions, attributes, describe, read_d4rl, write_d4rl};
use rust_hdf5::H5File;
use std::path::{Path, PathBuf};

const N: usize = 40;

fn reference(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference").join(name)
}

/// A path of this process in the system's folder for temporary files; removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Scratch(std::env::temp_dir().join(format!("hambo-{}-{name}.hdf5", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The closed form of `reference/make_d4rl.py`.
fn observation(row: usize) -> Vec<f32> {
    (0..3).map(|j| row as f32 + j as f32 / 8.0).collect()
}
fn action(row: usize) -> Vec<f32> {
    (0..2).map(|j| row as f32 / 4.0 - j as f32).collect()
}

/// Requires these rows of the file, in this order, with the next state at the given distance.
fn assert_rows(t: &Transitions, rows: &[usize], step: impl Fn(usize) -> f32) {
    assert_eq!(t.len(), rows.len());
    for (i, &row) in rows.iter().enumerate() {
        let next: Vec<f32> = observation(row).iter().map(|v| v + step(row)).collect();
        assert_eq!(t.state(i), observation(row), "state of row {row}");
        assert_eq!(t.action(i), action(row), "action of row {row}");
        assert_eq!(t.next_state(i), next, "next state of row {row}");
        assert_eq!(t.rewards()[i], row as f32 / 2.0, "reward of row {row}");
    }
}

/// Indices at which a flag is set.
fn set(flags: &[bool]) -> Vec<usize> {
    (0..flags.len()).filter(|&i| flags[i]).collect()
}

fn starts(t: &Transitions) -> Vec<usize> {
    t.episodes().map(|e| e.start).collect()
}

#[test]
fn pairs_rows_within_episodes_as_h5py_wrote_them() {
    let loaded = read_d4rl(&reference("f32_gzip_bool.hdf5")).unwrap();
    let t = &loaded.transitions;
    let rows: Vec<usize> = (0..N - 1).filter(|i| ![9, 24].contains(i)).collect();
    assert_rows(t, &rows, |_| 1.0);
    assert_eq!(starts(t), [0, 9, 23]);
    assert!(set(t.terminals()).is_empty());
    assert_eq!(set(t.timeouts()), [8, 22, 36]);
    assert!(
        loaded.notes[0].starts_with("last rows of episodes are no transitions, 3 in all"),
        "{:?}",
        loaded.notes
    );
    assert!(loaded.notes[1].starts_with("1 of them are terminal"), "{:?}", loaded.notes);
    let last = t.last_rows();
    assert_eq!(
        (&last.after[..], &last.terminals[..]),
        (&[8, 22, 36][..], &[true, false, false][..])
    );
    assert_eq!(last.states, [9, 24, 39].map(observation).concat());
    assert_eq!(last.actions, [9, 24, 39].map(action).concat());
    assert_eq!(last.rewards, [4.5, 12.0, 19.5]);
}

#[test]
fn keeps_stored_next_states_and_finds_unmarked_ends() {
    let loaded = read_d4rl(&reference("f64_contiguous_uint8.hdf5")).unwrap();
    let t = &loaded.transitions;
    assert_rows(t, &(0..N).collect::<Vec<_>>(), |row| {
        if [9, 19, 39].contains(&row) { 1000.0 } else { 1.0 }
    });
    assert_eq!(starts(t), [0, 10, 20]);
    assert_eq!(set(t.terminals()), [9]);
    assert_eq!(set(t.timeouts()), [19]);
    assert!(loaded.notes[0].starts_with("no `timeouts` field"), "{:?}", loaded.notes);
    assert!(loaded.notes[1].starts_with("1 ends of episodes are not marked"), "{:?}", loaded.notes);
}

#[test]
fn leaves_out_next_states_stored_after_a_reset() {
    let loaded = read_d4rl(&reference("f64_shuffle_float_flags.hdf5")).unwrap();
    let t = &loaded.transitions;
    let rows: Vec<usize> = (0..N).filter(|&i| i != 24).collect();
    assert_rows(t, &rows, |row| if [9, 39].contains(&row) { 1000.0 } else { 1.0 });
    assert_eq!(starts(t), [0, 10, 24]);
    assert_eq!(set(t.terminals()), [9]);
    assert_eq!(set(t.timeouts()), [23, 38]);
    assert!(
        loaded.notes[0]
            .starts_with("last rows of episodes are no transitions, 1 in all (0 of them terminal)"),
        "{:?}",
        loaded.notes
    );
}

/// Chunks of fewer columns than the array, of all, and none; and so many that they are not looked up one by one.
#[test]
fn all_layouts_without_compression_hold_the_same_numbers() {
    all_layouts_hold_the_same_numbers(
        5003,
        &[None, Some((700, 2)), Some((5000, 1)), Some((333, 5)), Some((3, 1))],
    );
}

/// So many numbers that several threads read them.
#[test]
fn large_files_hold_the_same_numbers_in_all_layouts() {
    all_layouts_hold_the_same_numbers(600_007, &[None, Some((70_000, 2)), Some((50_000, 5))]);
}

fn all_layouts_hold_the_same_numbers(n: usize, layouts: &[Option<(usize, usize)>]) {
    let numbers =
        |width: usize| (0..n * width).map(|i| (i % 1009) as f32 / 8.0).collect::<Vec<f32>>();
    let (states, actions, rewards) = (numbers(5), numbers(3), numbers(1));
    let last = |row: usize| row % 1000 == 999 || row == n - 1;
    let kept: Vec<usize> = (0..n).filter(|&row| !last(row)).collect();
    let rows_of = |values: &[f32], width: usize, shift: usize| -> Vec<f32> {
        kept.iter().flat_map(|row| values[(row + shift) * width..][..width].to_vec()).collect()
    };
    for (i, &layout) in layouts.iter().enumerate() {
        let path = Scratch::new(&format!("layout-{n}-{i}"));
        let file = H5File::create(&path.0).unwrap();
        for (name, width, values) in [("observations", 5, &states), ("actions", 3, &actions)] {
            let mut dataset = file.new_dataset::<f32>().shape([n, width]);
            if let Some((rows, columns)) = layout {
                dataset = dataset.chunk(&[rows, columns.min(width)]);
            }
            dataset.create(name).unwrap().write_raw(values).unwrap();
        }
        file.new_dataset::<f32>()
            .shape([n])
            .create("rewards")
            .unwrap()
            .write_raw(&rewards)
            .unwrap();
        for (name, flags) in
            [("terminals", vec![0u8; n]), ("timeouts", (0..n).map(|i| u8::from(last(i))).collect())]
        {
            file.new_dataset::<u8>().shape([n]).create(name).unwrap().write_raw(&flags).unwrap();
        }
        file.close().unwrap();
        let t = read_d4rl(&path.0).unwrap().transitions;
        assert_eq!((t.len(), t.state_dim(), t.action_dim()), (kept.len(), 5, 3));
        assert!(t.states() == rows_of(&states, 5, 0), "{layout:?}");
        assert!(t.next_states() == rows_of(&states, 5, 1), "{layout:?}");
        assert!(t.actions() == rows_of(&actions, 3, 0), "{layout:?}");
        assert!(t.rewards() == rows_of(&rewards, 1, 0), "{layout:?}");
    }
}

#[test]
fn reads_integers_and_big_endian_floats_and_does_not_pair_across_a_jump() {
    let loaded = read_d4rl(&reference("int_big_endian_no_flags.hdf5")).unwrap();
    let t = &loaded.transitions;
    let rows: Vec<usize> = (0..N - 1).filter(|&i| i != 29).collect();
    assert_eq!(t.len(), rows.len());
    for (i, &row) in rows.iter().enumerate() {
        let first = row as f32 + if row > 29 { 500.0 } else { 0.0 };
        assert_eq!(t.state(i), [first, first + 8.0, first + 16.0]);
        assert_eq!(t.next_state(i), [first + 1.0, first + 9.0, first + 17.0]);
        assert_eq!(t.action(i), action(row));
        assert_eq!(t.rewards()[i], row as f32);
    }
    assert_eq!(starts(t), [0, 29]);
    assert!(loaded.notes[0].starts_with("no `terminals` field"), "{:?}", loaded.notes);
    assert!(loaded.notes[1].contains("1 pairs of rows"), "{:?}", loaded.notes);
}

#[test]
fn describes_what_h5py_wrote() {
    let entries = describe(&reference("f32_gzip_bool.hdf5")).unwrap();
    let lines: Vec<String> =
        entries.iter().map(|e| format!("{} {:?} {}", e.path, e.shape, e.dtype)).collect();
    assert_eq!(
        lines,
        [
            "actions [40, 2] float32",
            "infos/qpos [40, 3] float32",
            "metadata/algorithm [] string",
            "observations [40, 3] float32",
            "rewards [40] float32",
            "terminals [40] bool",
            "timeouts [40] bool",
        ]
    );
}

/// n transitions of two episodes with values that use all bits of a float32.
fn sample(n: usize) -> Transitions {
    let value = |i: usize| ((i as f32 + 0.1).sin() * 1e3).mul_add(1.0 / 3.0, -7.0);
    let mut terminals = vec![false; n];
    let mut timeouts = vec![false; n];
    terminals[n / 3] = true;
    timeouts[n - 1] = true;
    Transitions::new(Columns {
        state_dim: 3,
        action_dim: 2,
        states: (0..3 * n).map(value).collect(),
        actions: (0..2 * n).map(|i| value(i + 1_000_000)).collect(),
        rewards: (0..n).map(|i| value(i + 2_000_000)).collect(),
        // Equal to the following row but at the ends.
        next_states: (0..3 * n).map(|i| if i / 3 == n / 3 { -1.5 } else { value(i + 3) }).collect(),
        terminals,
        timeouts,
        episode_starts: vec![0, n / 3 + 1],
        ..Default::default()
    })
    .unwrap()
}

#[test]
fn what_is_written_is_read_back_exactly() {
    for n in [2, 3, 1000, 70_000] {
        let path = Scratch::new(&format!("round-trip-{n}"));
        let written = sample(n);
        let notes = [
            ("env", "hopper".to_owned()),
            ("policy", "π, σ = 0.3".to_owned()),
            ("empty", String::new()),
        ];
        write_d4rl(&path.0, &written, &notes).unwrap();
        let loaded = read_d4rl(&path.0).unwrap();
        assert!(loaded.transitions == written, "{n} rows");
        assert_eq!(loaded.notes, Vec::<String>::new());
        let read = attributes(&path.0).unwrap();
        assert_eq!(
            read.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect::<Vec<_>>(),
            [("empty", ""), ("env", "hopper"), ("policy", "π, σ = 0.3")]
        );
        let entries = describe(&path.0).unwrap();
        assert!(
            entries
                .iter()
                .filter(|e| e.dtype == "bool")
                .map(|e| e.path.as_str())
                .eq(["terminals", "timeouts"])
        );
    }
}

#[test]
fn what_cannot_be_written_says_why_and_leaves_nothing() {
    let error =
        write_d4rl(Path::new("/no/such/folder/a.hdf5"), &sample(5), &[]).unwrap_err().to_string();
    assert!(error.starts_with("/no/such/folder/a.hdf5: cannot write: No such file"), "{error}");
}

/// Writes a file with `change` applied to the datasets of a good one, and returns the error of reading it.
fn error_of(name: &str, fields: &[(&str, &[usize], f64)]) -> String {
    let path = Scratch::new(name);
    let file = H5File::create(&path.0).unwrap();
    for (field, shape, value) in fields {
        let data = vec![*value; shape.iter().product()];
        file.new_dataset::<f64>().shape(shape).create(field).unwrap().write_raw(&data).unwrap();
    }
    file.close().unwrap();
    let error = read_d4rl(&path.0).unwrap_err().to_string();
    let prefix = format!("{}: ", path.0.display());
    error
        .strip_prefix(&prefix)
        .unwrap_or_else(|| panic!("{error} does not name the file"))
        .to_owned()
}

#[test]
fn wrong_files_are_refused_in_words_that_help() {
    let (o, a, r) = ("observations", "actions", "rewards");
    let error =
        error_of("misspelt", &[("observation", &[4, 3], 0.0), (a, &[4, 1], 0.0), (r, &[4], 0.0)]);
    assert_eq!(error, "no field `observations`: did you mean `observation`?");
    let error = error_of("other", &[("x", &[4, 3], 0.0), (a, &[4, 1], 0.0)]);
    assert_eq!(error, "no field `observations`: it holds `actions`, `x`");
    let error = error_of("rows", &[(o, &[4, 3], 0.0), (a, &[5, 1], 0.0), (r, &[4], 0.0)]);
    assert_eq!(error, "`observations` has 4 rows, `actions` has 5");
    let error = error_of("rank", &[(o, &[4, 3], 0.0), (a, &[4], 0.0), (r, &[4], 0.0)]);
    assert_eq!(error, "`actions` has shape [4]: expected [n, width]");
    let error = error_of("rewards", &[(o, &[4, 3], 0.0), (a, &[4, 1], 0.0), (r, &[4, 2], 0.0)]);
    assert_eq!(error, "`rewards` has shape [4, 2]: expected [n] or [n, 1]");
    let error = error_of("deep", &[(o, &[4, 3, 2], 0.0)]);
    assert_eq!(error, "`observations` has shape [4, 3, 2]: expected [n, width]");
    let good: [(&str, &[usize], f64); 3] = [(o, &[4, 3], 0.0), (a, &[4, 1], 0.0), (r, &[4], 0.0)];
    let with = |name: &str, extra: (&'static str, &'static [usize], f64)| {
        error_of(name, &[&good[..], &[extra]].concat())
    };
    assert_eq!(
        with("flags", ("terminals", &[4], 0.5)),
        "`terminals` is 0.5 in row 0: expected 0 or 1"
    );
    assert!(
        with("typo", ("timeout", &[4], 0.0))
            .starts_with("no field `timeouts`, but `timeout`: rename it")
    );
    let error = with("next", ("next_observations", &[4, 2], 0.0));
    assert_eq!(error, "`observations` is 3 wide, `next_observations` is 2");
    let error = error_of("overflow", &[(o, &[4, 3], 0.0), (a, &[4, 1], 1e300), (r, &[4], 0.0)]);
    assert!(
        error.starts_with("`actions` in row 0, column 0 is not a finite float32 number"),
        "{error}"
    );
    let error = error_of("nan", &[(o, &[4, 3], f64::NAN), (a, &[4, 1], 0.0), (r, &[4], 0.0)]);
    assert!(error.starts_with("`observations` in row 0, column 0"), "{error}");
    let error = with("ends", ("terminals", &[4], 1.0));
    assert!(error.starts_with("0 transitions: at least 2 are needed"), "{error}");
    assert!(error.contains("4 rows in the file"), "{error}");
}

#[test]
fn other_types_and_empty_data_are_refused() {
    let path = Scratch::new("strings");
    let file = H5File::create(&path.0).unwrap();
    for name in ["observations", "actions"] {
        file.new_dataset::<u8>().shape([2, 1]).create(name).unwrap().write_raw(&[1u8, 2]).unwrap();
    }
    file.write_vlen_strings("rewards", &["a", "b"]).unwrap();
    file.close().unwrap();
    let error = read_d4rl(&path.0).unwrap_err().to_string();
    assert!(
        error.ends_with("`rewards` holds string: expected numbers (float32, float64 or integers)"),
        "{error}"
    );
    drop(path);

    let path = Scratch::new("empty");
    let file = H5File::create(&path.0).unwrap();
    file.new_dataset::<f32>()
        .shape([0, 1])
        .chunk(&[1, 1])
        .max_shape(&[None, Some(1)])
        .create("observations")
        .unwrap();
    file.close().unwrap();
    let error = read_d4rl(&path.0).unwrap_err().to_string();
    assert!(error.ends_with("`observations` has shape [0, 1]: there is nothing in it"), "{error}");
}

#[test]
fn a_file_cannot_ask_for_more_than_it_can_hold() {
    let path = Scratch::new("huge");
    for (rows, chunk) in [(1 << 30, 1000), (1 << 60, 1000), (4, 1 << 28)] {
        let file = H5File::create(&path.0).unwrap();
        let builder = file.new_dataset::<f32>().shape([rows, 3]).chunk(&[chunk, 3]).deflate(1);
        builder.max_shape(&[None, Some(3)]).create("observations").unwrap();
        file.close().unwrap();
        let error = read_d4rl(&path.0).unwrap_err().to_string();
        assert!(
            error.contains("more than a file of this size can hold: it is damaged"),
            "{rows}: {error}"
        );
    }
}

#[test]
fn what_is_no_hdf5_file_is_refused() {
    let path = Scratch::new("garbage");
    for content in [&b""[..], b"no HDF5", &[0x5a; 5000]] {
        std::fs::write(&path.0, content).unwrap();
        let error = read_d4rl(&path.0).unwrap_err().to_string();
        assert!(error.contains("not an HDF5 file, or a damaged one"), "{error}");
    }
    let error = read_d4rl(Path::new("/no/such/file.hdf5")).unwrap_err().to_string();
    assert!(error.starts_with("/no/such/file.hdf5: cannot read: No such file"), "{error}");
    let error = read_d4rl(&std::env::temp_dir()).unwrap_err().to_string();
    assert!(error.contains("not a regular file"), "{error}");
}

/// The real D4RL slices, where they are at hand: rows kept, episodes, terminals, and sums of first and last row.
#[test]
fn real_d4rl_files_load() {
    let Some(folder) = assets() else { return };
    // Rows, state and action widths, episodes, terminals; as h5py shows them.
    for (name, n, state_dim, action_dim, episodes, terminals) in [
        ("antmaze-umaze-v0", 1400, 29, 8, 2, 0),
        ("hopper_medium", 522, 11, 3, 2, 0),
        ("hopper_medium-v2", 911, 11, 3, 2, 2),
        ("hopper_medium_replay-v1", 49, 11, 3, 2, 2),
        ("hopper_random-v1", 50, 11, 3, 2, 2),
        ("pen-human-v1", 398, 45, 24, 2, 0),
    ] {
        let path = folder.join(format!("d4rl/{name}.hdf5"));
        let loaded = read_d4rl(&path).unwrap();
        println!("{name}: {:?}", loaded.notes);
        let t = &loaded.transitions;
        let found =
            (t.len(), t.state_dim(), t.action_dim(), t.episodes().len(), set(t.terminals()).len());
        assert_eq!(found, (n, state_dim, action_dim, episodes, terminals), "{name}");
        // Within an episode each state is the next state of the row before.
        for episode in t.episodes() {
            for row in episode.start + 1..episode.end {
                assert_eq!(t.state(row), t.next_state(row - 1), "{name} row {row}");
            }
        }
        assert!(
            describe(&path)
                .unwrap()
                .iter()
                .any(|e| e.path == "observations" && e.shape[1] == state_dim)
        );
    }
}
