//! Data sets as their own tools write them: lists in Parquet, LeRobot, Minari, Hugging Face, and files that are named for what they are.

#![allow(clippy::unwrap_used, clippy::panic)] // the exemption for tests does not reach their helping functions

#[path = "common/line.rs"]
mod line;

use hambo::data::{ColumnNames, Format, Logs, ReadOptions, contents, describe, survey};
use hambo::task::TaskSpec;
use line::*;

fn with_columns(words: &str) -> ReadOptions {
    let columns = ColumnNames::parse(&[words.to_owned()]).unwrap();
    ReadOptions { columns, ..ReadOptions::default() }
}

#[cfg(feature = "parquet")]
/// A copy of a folder of the reference, which goes with the end of the test.
fn copied(name: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    use std::path::Path;

    fn copy(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let path = entry.unwrap().path();
            let target = to.join(path.file_name().unwrap());
            match path.is_dir() {
                true => copy(&path, &target),
                false => drop(std::fs::copy(&path, &target).unwrap()),
            }
        }
    }
    let scratch = tempfile::tempdir().unwrap();
    let to = scratch.path().join("copy");
    copy(&reference(name), &to);
    (scratch, to)
}

#[cfg(feature = "parquet")]
#[test]
fn vectors_in_parquet_are_read_as_columns() {
    let loaded = Logs::read(reference("lists.parquet")).unwrap();
    assert_eq!(loaded.format, Some(Format::Parquet));
    assert_episodes(&loaded.transitions, &EPISODES, 0, Some(TERMINAL));
    assert_eq!(loaded.notes, [] as [&str; 0]);
    let listed = describe(&reference("lists.parquet")).unwrap();
    assert_eq!((listed[1].path.as_str(), listed[1].dtype.as_str()), ("obs", "list of double"));
    let options = with_columns("state=obs action=action next=next_obs");
    let named = Logs::read_with(&[reference("lists.parquet")], &options).unwrap();
    assert_eq!(named.transitions, loaded.transitions);

    let error = |name: &str| error_of(&reference(name), &ReadOptions::default());
    assert_eq!(
        error("ragged.parquet"),
        "row 1, column `obs`: a list of 1 numbers, where that of row 0 has 2"
    );
    assert_eq!(error("hole.parquet"), "column `obs`: an empty place in a list: expected numbers");
}

#[cfg(feature = "parquet")]
#[test]
fn an_episode_in_a_row_is_read_with_and_without_its_last_state() {
    let loaded = Logs::read(reference("trajectories.parquet")).unwrap();
    assert_eq!(loaded.format, Some(Format::ParquetEpisodes));
    assert_episodes(&loaded.transitions, &EPISODES, 1, None);
    assert_eq!(loaded.transitions.last_rows().terminals.iter().filter(|&&t| t).count(), 1);
    let loaded = Logs::read(reference("trajectories_and_last.parquet")).unwrap();
    assert_episodes(&loaded.transitions, &EPISODES, 0, Some(TERMINAL));
}

#[cfg(feature = "parquet")]
#[test]
fn lerobot_folders_of_both_versions_are_read() {
    for name in ["lerobot_v21", "lerobot_v3"] {
        let folder = reference(name);
        let loaded = Logs::read(&folder).unwrap();
        assert_eq!(loaded.format, Some(Format::LeRobot), "{name}");
        assert_episodes(&loaded.transitions, &EPISODES, 1, None);
        let last = loaded.transitions.last_rows();
        assert_eq!((last.len(), last.terminals.iter().filter(|&&t| t).count()), (7, 1));
        assert_eq!(
            loaded.notes[0],
            "columns not used: `timestamp`, `frame_index`, `index`, `task_index`"
        );
        assert_eq!(hambo::data::digest(&[&folder]).unwrap().len(), 64);
        assert_eq!(describe(&folder).unwrap()[0].path, "observation.state");
        // Said to be a time limit, it is none but that.
        let options = with_columns("timeout=next.done");
        let told = survey(&[&folder], &options).unwrap();
        assert_eq!((told.episodes, told.terminals, told.timeouts), (7, 0, 7));
    }
}

#[cfg(feature = "parquet")]
#[test]
fn a_lerobot_folder_that_is_not_whole_is_refused() {
    let (_scratch, folder) = copied("lerobot_v21");
    std::fs::remove_file(folder.join("data/chunk-000/episode_000003.parquet")).unwrap();
    let error = Logs::read(&folder).unwrap_err().to_string();
    assert!(error.contains("declares 7 episodes, but its Parquet files have 6"), "{error}");
    std::fs::remove_dir_all(folder.join("data/chunk-000")).unwrap();
    let error = Logs::read(&folder).unwrap_err().to_string();
    assert!(error.contains("without data/chunk-*/*.parquet: download all of it"), "{error}");

    let (_scratch, folder) = copied("lerobot_v3");
    let file = folder.join("data/chunk-000/file-000.parquet");
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 15704\n";
    std::fs::write(&file, pointer).unwrap();
    let error = Logs::read(&folder).unwrap_err().to_string();
    assert!(error.contains("file-000.parquet: a Git-LFS pointer"), "{error}");
}

#[cfg(feature = "parquet")]
#[test]
fn minari_in_parquet_is_read_and_checked() {
    let folder = reference("minari/test/parquet-v0");
    let loaded = Logs::read(&folder).unwrap();
    assert_eq!(loaded.format, Some(Format::MinariFolder));
    assert_episodes(&loaded.transitions, &EPISODES, 0, Some(TERMINAL));
    assert_eq!(loaded.notes, [] as [&str; 0]);
    let (_scratch, folder) = copied("minari/test/parquet-v0");
    std::fs::remove_dir_all(folder.join("data/5")).unwrap();
    let error = Logs::read(&folder).unwrap_err().to_string();
    assert!(error.contains("6 episodes, but metadata.json beside it declares 7"), "{error}");
}

#[test]
fn arrays_of_episodes_are_read() {
    let loaded = Logs::read(reference("stack.npz")).unwrap();
    assert_eq!(loaded.format, Some(Format::NpzStack));
    assert_episodes(&loaded.transitions, &EPISODES, 0, Some(TERMINAL));
    let loaded = Logs::read(reference("imitation.npz")).unwrap();
    assert_eq!(loaded.format, Some(Format::NpzTrajectories));
    assert_episodes(&loaded.transitions, &EPISODES, 0, Some(TERMINAL));
    assert_eq!(loaded.notes[0], "arrays not used: `infos`");
}

#[test]
fn demonstrations_are_read_once_it_is_said_what_the_state_is() {
    let path = reference("robomimic.hdf5");
    let error = error_of(&path, &ReadOptions::default());
    assert!(
        error.starts_with("its observations are in 2 parts")
            && error.ends_with("obs/object, obs/robot0_eef_pos"),
        "{error}"
    );
    let options = with_columns("state=obs/robot0_eef_pos,obs/object");
    let loaded = Logs::read_with(&[&path], &options).unwrap();
    assert_eq!(loaded.format, Some(Format::Demos));
    assert_episodes(&loaded.transitions, &EPISODES, 0, Some(TERMINAL));
    let loaded = Logs::read(reference("maniskill.h5")).unwrap();
    assert_episodes(&loaded.transitions, &EPISODES, 0, Some(TERMINAL));
    assert_eq!(describe(&path).unwrap()[0].path, "data/demo_0/actions");
}

#[test]
fn a_log_without_rewards_is_read_only_where_the_task_says_them() {
    let path = reference("stack_without_rewards.npz");
    let error = error_of(&path, &ReadOptions::default());
    assert_eq!(error, "no array `rewards`: say what a step pays with --reward EXPR");
    let options = ReadOptions { without_rewards: true, ..ReadOptions::default() };
    let data = Logs::read_with(&[&path], &options).unwrap().transitions;
    assert!(!data.has_rewards() && data.rewards().iter().all(|&r| r == 0.0));
    assert!(Logs::read(reference("stack.npz")).unwrap().transitions.has_rewards());

    let task = |reward: Option<&str>| TaskSpec {
        reward: reward.map(str::to_owned),
        termination: Some("none".to_owned()),
        ..TaskSpec::default()
    };
    for reward in [None, Some("r"), Some("r - a[0]^2")] {
        let error = task(reward).resolve(&data, None).unwrap_err().to_string();
        assert!(error.contains("no rewards in the log"), "{reward:?}: {error}");
    }
    let resolved = task(Some("s[0]")).resolve(&data, None).unwrap();
    let (paid, _) = resolved.task.logged(&data).unwrap();
    assert_eq!(paid[..4], [0.0, 1.0, 2.0, 100.0]);
    // A part of it has none either.
    assert!(!data.of_episodes(&[0, 2]).unwrap().has_rewards());
    let told = survey(&[&path], &options).unwrap();
    assert!(told.returns.mean.is_nan() && told.columns.iter().all(|c| c.name != "reward"));

    let table = Scratch::new("no_reward.csv", "episode,s0,a0\n1,0,1\n1,1,1\n1,2,1\n1,3,1\n");
    assert!(!Logs::read_with(&[&table.0], &options).unwrap().transitions.has_rewards());
}

#[test]
fn what_cannot_be_read_is_named() {
    for (name, bytes, told) in [
        ("log.pkl", &b"\x80\x04\x95\x00"[..], "a Python pickle"),
        ("observations.npy", b"\x93NUMPY\x01\x00", "one array of numpy (NPY)"),
        ("run.mcap", b"\x89MCAP0\r\n", "an MCAP recording"),
        ("run.bag", b"#ROSBAG V2.0\n", "a rosbag of ROS 1"),
        ("run.db3", b"SQLite format 3\0", "an SQLite database, as ROS 2 bags are"),
        ("train.tfrecord-00000-of-00001", b"\x00\x01", "a TFRecord file"),
        ("file", b"version https://git-lfs.github.com/spec/v1\n", "a Git-LFS pointer"),
        ("table.arrow", b"ARROW1\0\0", "a damaged Arrow file: it is cut short"),
        ("log.json", b"{\"a\": [1]}", "JSON"),
        (
            "monitor.csv",
            b"#{\"t_start\": 1.0, \"env_id\": \"x\"}\nr,l,t\n1,2,3\n",
            "what Monitor of Stable-Baselines3 writes",
        ),
        ("checkpoint", b"model_checkpoint_path: x", "a part of a TensorFlow checkpoint"),
        ("log.csv.gz", b"\x1f\x8b\x08", "packed by gzip"),
        ("empty.csv", b"", "an empty file"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let error = error_of(&path, &ReadOptions::default());
        assert!(error.starts_with(told), "{name}: {error}");
        assert!(!error.contains('\n'), "{name}: {error}");
    }
}

#[test]
fn folders_say_what_they_are_or_what_is_in_them() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.csv"), "s0,a0,reward\n1,2,3\n").unwrap();
    std::fs::write(folder.path().join("b.npy"), b"\x93NUMPY\x01\x00").unwrap();
    std::fs::create_dir(folder.path().join("c")).unwrap();
    let error = error_of(folder.path(), &ReadOptions::default());
    assert!(error.contains("it holds 1 .csv, 1 .npy, 1 folders; name its files"), "{error}");
    let listed = contents(folder.path()).unwrap().entries;
    assert_eq!((listed[0].0.as_str(), listed[0].1.as_str()), ("a.csv", "CSV"));
    assert!(listed[1].1.starts_with("one array of numpy") && listed[2].1 == "folder");
    for (name, told) in [
        ("saved_model.pb", "a TensorFlow SavedModel"),
        ("zarr.json", "a Zarr store"),
        ("state.json", "a data set of Hugging Face in Arrow files"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(name), "x").unwrap();
        std::fs::write(folder.path().join("dataset_info.json"), "{}").unwrap();
        assert!(error_of(folder.path(), &ReadOptions::default()).starts_with(told), "{name}");
    }
}

#[test]
fn arrow_files_and_minari_data_sets_of_them_are_read() {
    let folder = reference("minari/test/arrow-v0");
    let loaded = Logs::read(&folder).unwrap();
    assert_eq!(loaded.format, Some(Format::MinariFolder));
    assert_episodes(&loaded.transitions, &EPISODES, 0, Some(TERMINAL));
    assert_eq!(describe(&folder).unwrap()[0].shape, [4, 3]);

    let loaded = Logs::read(reference("lists.arrow")).unwrap();
    assert_eq!(loaded.format, Some(Format::Arrow));
    assert_episodes(&loaded.transitions, &EPISODES, 0, Some(TERMINAL));
    let error = error_of(&reference("lz4.arrow"), &ReadOptions::default());
    assert!(error.starts_with("a compressed Arrow file"), "{error}");
    // Cut anywhere, or with any byte changed, it is an error or other numbers, never a panic.
    let bytes = std::fs::read(reference("lists.arrow")).unwrap();
    for at in 0..bytes.len().min(3000) {
        let mut changed = bytes.clone();
        changed[at] ^= 0xff;
        let damaged = Scratch::new("damaged.arrow", &changed);
        let _ = Logs::read(&damaged.0);
        if at % 16 == 0 {
            let cut = Scratch::new("cut.arrow", &bytes[..at]);
            assert!(Logs::read(&cut.0).is_err(), "cut at {at}");
        }
    }
}
