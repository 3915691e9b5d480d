//! Data files other than D4RL's: small ones by a closed formula, the real ones, wrong and hostile ones.

#![allow(clippy::unwrap_used, clippy::panic)] // the exemption for tests does not reach their helping functions

#[path = "common/assets.rs"]
mod assets;
#[path = "common/line.rs"]
mod line;

use assets::assets;
use hambo::data::{
    ColumnNames, Format, Logs, ReadOptions, Subsample, Transitions, describe, digest, survey,
};
use line::*;
use std::io::Write;
use std::path::PathBuf;
use zip::CompressionMethod;
use zip::write::{SimpleFileOptions, ZipWriter};

fn with_columns(words: &str) -> ReadOptions {
    ReadOptions {
        columns: ColumnNames::parse(&[words.to_owned()]).unwrap(),
        ..ReadOptions::default()
    }
}

#[test]
fn minari_is_read_in_the_order_of_numbers_from_file_or_folder() {
    let folder = reference("minari/test/line-v0");
    for path in [folder.clone(), folder.join("data"), folder.join("data/main_data.hdf5")] {
        let loaded = Logs::read(&path).unwrap();
        assert_eq!((loaded.format, loaded.notes.len()), (Some(Format::Minari), 0));
        assert_episodes(&loaded.transitions, &EPISODES, 0, Some(TERMINAL));
        assert_eq!(
            digest(&[&path]).unwrap(),
            digest(&[folder.join("data/main_data.hdf5")]).unwrap()
        );
    }
    let listed: Vec<String> = describe(&folder).unwrap().into_iter().map(|e| e.path).collect();
    let fields = ["actions", "observations", "rewards", "terminations", "truncations"];
    assert_eq!(listed, fields.map(|f| format!("episode_0/{f}")));
}

#[test]
fn spaces_of_spaces_are_refused_with_their_keys() {
    let error = error_of(&reference("minari_dict.hdf5"), &ReadOptions::default());
    assert!(
        error.starts_with(
            "`episode_0/observations` is a Dict or Tuple space with `achieved_goal`, `desired_goal`, \
                           `observation`: expected one array"
        ),
        "{error}"
    );
    let error = Logs::read(reference("minari")).unwrap_err().to_string();
    assert!(error.contains("no data set of Minari (data/main_data.hdf5)"), "{error}");
    let error = Logs::read("minari:no/such-v0").unwrap_err().to_string();
    assert!(
        error.starts_with("minari:no/such-v0: no file ")
            && error.contains("minari download no/such-v0")
    );
}

#[test]
fn npz_is_read_in_all_layouts() {
    let loaded = Logs::read(reference("d4rl_names.npz")).unwrap();
    assert_eq!(
        (loaded.format, loaded.notes.len()),
        (Some(Format::NpzRows), 0),
        "{:?}",
        loaded.notes
    );
    assert_episodes(&loaded.transitions, &EPISODES, 0, Some(TERMINAL));

    let loaded = Logs::read(reference("stable_baselines.npz")).unwrap();
    assert_eq!(loaded.format, Some(Format::NpzRows));
    assert_episodes(&loaded.transitions, &EPISODES, 1, None);
    assert_eq!(loaded.notes[0], "arrays not used: `episode_returns`");
    assert!(
        loaded.notes[2].starts_with("last rows of episodes are no transitions, 7 in all"),
        "{:?}",
        loaded.notes
    );

    let loaded = Logs::read(reference("episode_2.npz")).unwrap();
    assert_eq!(loaded.format, Some(Format::NpzEpisode));
    assert_episodes(&loaded.transitions, &[2], 0, None);
    assert!(loaded.notes[0].starts_with("`done` marks where the log ends"), "{:?}", loaded.notes);
    let shapes: Vec<_> = describe(&reference("episode_2.npz")).unwrap();
    assert_eq!(
        (shapes[0].path.as_str(), shapes[0].dtype.as_str(), &shapes[0].shape[..]),
        ("actions", "float32", &[5, 2][..])
    );
}

#[test]
fn csv_is_read_by_usual_names_and_by_those_given() {
    let loaded = Logs::read(reference("usual_names.csv")).unwrap();
    assert_eq!((loaded.format, loaded.notes.len()), (Some(Format::Csv), 0), "{:?}", loaded.notes);
    assert_episodes(&loaded.transitions, &EPISODES, 0, Some(TERMINAL));

    let path = reference("own_names.csv");
    let error = error_of(&path, &ReadOptions::default());
    assert!(
        error.starts_with("no column for the reward") && error.contains("`time`, `run`, `angle`"),
        "{error}"
    );
    let options = with_columns("state=angle,speed,load action=u,v reward=gain episode=run");
    let loaded = Logs::read_with(&[&path], &options).unwrap();
    assert_episodes(&loaded.transitions, &EPISODES, 1, None);
    assert_eq!(loaded.notes[0], "columns not used: `time`");
    assert_eq!(describe(&path).unwrap()[2].shape, [28]);
    let error = error_of(&reference("d4rl_names.npz"), &options);
    assert!(error.starts_with("column names are for CSV and Parquet"), "{error}");
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_is_read() {
    let loaded = Logs::read(reference("usual_names.parquet")).unwrap();
    assert_eq!(loaded.format, Some(Format::Parquet));
    assert_episodes(&loaded.transitions, &EPISODES, 0, Some(TERMINAL));
    assert_eq!(loaded.notes, ["columns not used: `__index_level_0__`"]);
    assert_eq!(describe(&reference("usual_names.parquet")).unwrap()[1].dtype, "float");
    let error = error_of(&reference("missing_value.parquet"), &ReadOptions::default());
    assert_eq!(error, "row 1, column `s0`: empty: expected a number");
    let error =
        error_in("cut.parquet", &std::fs::read(reference("usual_names.parquet")).unwrap()[..5000]);
    assert!(error.contains("a damaged Parquet file"), "{error}");
    let loaded = Logs::read(reference("text_episodes.parquet")).unwrap();
    assert_eq!(
        loaded.transitions.next_states(),
        [1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 8.0, 9.0, 10.0, 11.0]
    );
    let error = error_of(&reference("gzip.parquet"), &ReadOptions::default());
    assert_eq!(
        error,
        "column `s0`: compressed by GZIP: write the file uncompressed or with Snappy"
    );
    let error = error_of(&reference("delta_text.parquet"), &ReadOptions::default());
    assert!(error.contains("DELTA_BYTE_ARRAY: write it plain or with a dictionary"), "{error}");
}

#[cfg(not(feature = "parquet"))]
#[test]
fn parquet_says_how_to_build_it_in() {
    let error = error_of(&reference("usual_names.parquet"), &ReadOptions::default());
    assert!(
        error.starts_with("Parquet is not built in: build with `--features parquet`"),
        "{error}"
    );
}

#[test]
fn several_files_are_one_data_set_and_must_agree() {
    let files: Vec<PathBuf> = (0..3).map(|e| reference(&format!("episode_{e}.npz"))).collect();
    let loaded = Logs::read_with(&files, &ReadOptions::default()).unwrap();
    assert_episodes(&loaded.transitions, &[0, 1, 2], 0, None);
    assert!(loaded.notes.iter().all(|n| n.ends_with("(in each of 3 files)")), "{:?}", loaded.notes);
    let one: Vec<String> = files.iter().map(|f| digest(&[f]).unwrap()).collect();
    assert_eq!(digest(&files).unwrap(), hambo_engine::files::sha256_of(one.concat().as_bytes()));

    let mixed = [files[0].clone(), reference("minari/test/line-v0")];
    let loaded = Logs::read_with(&mixed, &ReadOptions::default()).unwrap();
    assert_eq!(loaded.transitions.len(), 3 + 28 - 3, "the same episode in two formats counts once");
    assert!(
        loaded.notes.iter().any(|note| note.contains("copies of earlier")),
        "{:?}",
        loaded.notes
    );

    let other = Scratch::new("other.csv", "s0,a0,r\n0,0,0\n1,0,0\n2,0,0\n");
    let error =
        Logs::read_with(&[&files[0], &other.0], &ReadOptions::default()).unwrap_err().to_string();
    assert_eq!(
        error,
        format!(
            "{}: states of 1 and actions of 1 dimensions, but {} has states of 3 and actions of 2 dimensions: files of \
             one data set need the same sizes",
            other.0.display(),
            files[0].display()
        )
    );
}

#[test]
fn a_part_is_chosen_by_the_seed_and_keeps_the_order() {
    let path = reference("d4rl_names.npz");
    let part = |subsample, seed| {
        let options = ReadOptions { subsample: Some(subsample), seed, ..ReadOptions::default() };
        Logs::read_with(&[&path], &options).unwrap()
    };
    let whole = Logs::read(&path).unwrap().transitions;
    for seed in 0..20 {
        let t = part(Subsample::Episodes(10), seed).transitions;
        assert_eq!(t.len(), 10);
        let cut = t.episodes().filter(|range| {
            let (e, first) =
                (t.state(range.start)[0] as usize / 100, t.state(range.start)[0] as usize % 100);
            assert_eq!(first, 0, "episodes are kept from their start");
            assert!(t.terminals()[range.end - 1] || t.timeouts()[range.end - 1]);
            range.len() != steps(e)
        });
        assert!(cut.count() <= 1, "at most one episode is cut");
        let t = part(Subsample::Rows(10), seed).transitions;
        assert_eq!(t.len(), 10);
        assert!((1..10).all(|i| t.state(i)[0] > t.state(i - 1)[0]));
        for range in t.episodes() {
            assert!((range.start + 1..range.end).all(|i| t.state(i) == t.next_state(i - 1)));
        }
    }
    for subsample in [Subsample::Episodes(10), Subsample::Rows(10)] {
        assert!(part(subsample, 1).transitions == part(subsample, 1).transitions);
        assert!(
            (2..9).any(|seed| part(subsample, seed).transitions != part(subsample, 1).transitions)
        );
    }
    let all = part(Subsample::Rows(28), 1);
    assert!(
        all.transitions == whole && all.notes == ["all 28 transitions kept: 28 were asked for"]
    );
    assert_eq!("30".parse::<Subsample>().unwrap(), Subsample::Episodes(30));
    assert_eq!("rows:30".parse::<Subsample>().unwrap(), Subsample::Rows(30));
    for wrong in ["", "1", "-3", "rows:", "rows:x", "episodes:3"] {
        assert!(
            wrong.parse::<Subsample>().unwrap_err().to_string().starts_with("subsample = "),
            "{wrong}"
        );
    }
}

#[test]
fn wrong_tables_are_refused_with_line_column_and_value() {
    let error = |content: &str| error_in("wrong.csv", content);
    assert_eq!(error("s0,a0,r\n1,2,3\n4,x,6\n"), "line 3, column `a0`: `x` is not a number");
    assert_eq!(error("s0,a0,r\n1,2,3\n4,,6\n"), "line 3, column `a0`: empty: expected a number");
    assert_eq!(error("s0,a0,r\n1,2,3\n4,5\n"), "line 3: 2 fields, where the lines before have 3");
    assert!(
        error("s0,a0,r\n1,2,nan\n")
            .starts_with("line 2, column `r`: NaN is not a finite float32 number")
    );
    assert!(error("s0,a0,r\n1e40,2,3\n").starts_with("line 2, column `s0`: 1"));
    assert_eq!(
        error("s0,a0,r,done\n1,2,3,2\n"),
        "line 2, column `done`: 2: expected 0 or 1, true or false"
    );
    assert_eq!(error("1,2,3\n4,5,6\n"), "line 1 holds numbers: expected the names of the columns");
    let again = error("ep,s0,a0,r\n1,0,0,0\n2,0,0,0\n1,0,0,0\n");
    assert!(
        again.starts_with("line 4, column `ep`: episode 1 begins again after others"),
        "{again}"
    );
    assert!(error("s0,a0,r\n1,2,3\n").starts_with("0 transitions: at least 2 are needed"));
    assert!(error("s0,a0,r\n").starts_with("0 transitions: at least 2 are needed"));
    let bytes = [&b"s0,a0,r\n1,2,"[..], &[0xff, 0xfe], b"\n"].concat();
    assert_eq!(error_in("bytes.csv", bytes), "line 2: field 3 is not text in UTF-8");
    assert!(error_in("empty", b"").starts_with("an empty file"));
    for garbage in [&b"no table"[..], &[0x5a; 5000], &[0; 100], b"a,\x00b\n1,2\n"] {
        assert!(
            error_in("garbage", garbage)
                .starts_with("no log that can be read, or a damaged one: it is neither HDF5")
        );
    }
}

#[test]
fn tables_may_be_written_in_other_ways() {
    let rows = |content: &str| {
        let file = Scratch::new("ways.txt", content);
        Logs::read(&file.0).unwrap().transitions
    };
    let plain = rows("s0,a0,r\n0,1,0.5\n1,1,0.5\n2,1,0.5\n");
    assert_eq!(plain.next_states(), [1.0, 2.0]);
    for content in [
        "\u{feff}s0,a0,r\n0,1,0.5\n1,1,0.5\n2,1,0.5\n",
        "s0;a0;r\r\n0;1;0.5\r\n1;1;0.5\r\n2;1;0.5",
        "\"s0\"\ta0\tr\n 0\t1 \t\"0.5\"\n\n1\t1\t5e-1\n2\t1\t.5\n",
    ] {
        assert!(rows(content) == plain, "{content}");
    }
}

#[test]
fn time_limits_flagged_as_terminals_are_remarked_upon() {
    let row = |i: usize| {
        let (episode, step) = (i / 5, i % 5);
        format!("{episode},{step},0,{episode},{},{}\n", step == 4, step + 1)
    };
    let table = format!("ep,s0,a0,r,done,next_s0\n{}", (0..20).map(row).collect::<String>());
    let found = survey(&[&Scratch::new("limits.csv", table).0], &ReadOptions::default()).unwrap();
    assert!(
        found.notes[0].starts_with("all 4 episodes end in a terminal state after exactly 5 steps"),
        "{:?}",
        found.notes
    );
}

/// An NPZ of these members.
fn npz(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut zip = ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    for (name, bytes) in members {
        zip.start_file(*name, options).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// An array of zeros: what its header says, and how many bytes there are.
fn zeros(descr: &str, shape: &str, bytes: usize) -> Vec<u8> {
    let header = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut array = b"\x93NUMPY\x01\x00".to_vec();
    array.extend((header.len() as u16).to_le_bytes());
    array.extend(header.as_bytes());
    array.resize(array.len() + bytes, 0);
    array
}

#[test]
fn wrong_and_hostile_npz_files_are_refused() {
    let good = |observations: Vec<u8>| {
        let (actions, rewards) = (zeros("'<f4'", "(4, 1)", 16), zeros("'<f4'", "(4,)", 16));
        npz(&[
            ("observations.npy", observations),
            ("actions.npy", actions),
            ("rewards.npy", rewards),
        ])
    };
    let error = |observations| error_in("hostile.npz", good(observations));
    let file = Scratch::new("good.npz", good(zeros("'<f4'", "(5, 3)", 60)));
    assert_eq!(Logs::read(&file.0).unwrap().transitions.len(), 4);

    let pickled = error_of(&reference("pickled.npz"), &ReadOptions::default());
    assert!(
        pickled.starts_with("`observations` holds pickled Python objects, which are never read"),
        "{pickled}"
    );
    for (shape, bytes) in [
        ("(1000000000000, 3)", 60),
        ("(18446744073709551615, 18446744073709551615)", 60),
        ("(5, 3)", 56),
        ("(5, 3)", 64),
    ] {
        let error = error(zeros("'<f4'", shape, bytes));
        assert!(
            error.starts_with("`observations` declares float32 of shape")
                && error.ends_with("it is damaged"),
            "{error}"
        );
    }
    assert!(
        error(zeros("'<f4'", "(7, 3)", 84))
            .starts_with("`observations` has 7 rows, `actions` has 4: expected 4, or 5")
    );
    assert!(error(zeros("'<f4'", "(2, 2, 3)", 48)).contains("expected [episodes, steps, width]"));
    assert!(error(zeros("'<U3'", "(5, 1)", 60)).contains("holds <U3: expected numbers"));
    assert!(error(b"no array".to_vec()).contains("`observations` not in numpy's array format"));
    assert!(error(Vec::new()).contains("`observations` is cut short"));
    assert!(
        error_in("other.zip", npz(&[("policy.pth", vec![1])]))
            .starts_with("a zip archive without arrays")
    );
    assert!(
        error_in("none.npz", npz(&[("x.npy", vec![1])]))
            .starts_with("no array `observations`: it holds `x`")
    );
    let whole = good(zeros("'<f4'", "(5, 3)", 60));
    for length in [5, whole.len() / 2, whole.len() - 1] {
        assert!(error_in("cut.npz", &whole[..length]).starts_with("a damaged zip archive"));
    }
    // 600 MB of zeros in 600 kB: no more is unpacked than its declared size, and that does not fit the header.
    let bomb = npz(&[("observations.npy", zeros("'<f4'", "(5, 3)", 600 << 20))]);
    assert!(bomb.len() < 1 << 20);
    let error = error_in("bomb.npz", &bomb);
    assert!(error.contains("does not fit the 629145"), "{error}");
}

/// Rows, state and action widths, episodes, and sums of states, next states, actions and rewards.
fn assert_sums(t: &Transitions, sizes: [usize; 4], sums: [f64; 4]) {
    assert_eq!([t.len(), t.state_dim(), t.action_dim(), t.episodes().len()], sizes);
    let sum = |values: &[f32]| values.iter().map(|&v| f64::from(v)).sum::<f64>();
    let found = [sum(t.states()), sum(t.next_states()), sum(t.actions()), sum(t.rewards())];
    for (a, b) in found.iter().zip(sums) {
        assert!((a - b).abs() < 1e-6 * b.abs(), "{found:?} {sums:?}");
    }
    assert_eq!(t.terminals().iter().filter(|&&f| f).count(), 0);
    assert_eq!(t.timeouts().iter().filter(|&&f| f).count(), sizes[3]);
}

/// Files that others wrote, where they are at hand, against sums that numpy and h5py give (of float32 values in float64).
#[test]
fn real_files_load() {
    let Some(folder) = assets() else { return };
    let loaded = Logs::read(folder.join("minari/pendulum/ppo-sb3zoo-v0")).unwrap();
    assert_sums(
        &loaded.transitions,
        [1000, 3, 1, 5],
        [669.8996410734114, 675.034469648327, 458.9194099009037, -966.560426747892],
    );
    let loaded = Logs::read(folder.join("npz/expert_pendulum.npz")).unwrap();
    assert_sums(
        &loaded.transitions,
        [19_900, 3, 1, 100],
        [15816.845026189409, 15927.62551712442, -2743.4741410682327, -14986.719957886322],
    );
    for (prefix, files, sizes, sums) in [
        (
            "qq-",
            15,
            [20_000, 6, 1, 15],
            [17777.46924407958, 17747.03928380539, 1070.1013980569041, 10054.8932173221],
        ),
        (
            "qcp-",
            5,
            [8750, 5, 1, 5],
            [4048.7625948600216, 4036.6009241336424, 32.29187196074054, 52673.96000435081],
        ),
    ] {
        let mut paths: Vec<PathBuf> =
            std::fs::read_dir(folder.join("real")).unwrap().map(|e| e.unwrap().path()).collect();
        paths.retain(|p| p.file_name().unwrap().to_str().unwrap().starts_with(prefix));
        paths.sort();
        assert_eq!(paths.len(), files);
        let loaded = Logs::read_with(&paths, &ReadOptions::default()).unwrap();
        println!("{prefix}: {:?}", loaded.notes);
        assert_eq!(loaded.format, Some(Format::NpzEpisode));
        assert_sums(&loaded.transitions, sizes, sums);
    }
}
