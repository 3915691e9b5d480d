use super::*;

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("hambo-files-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn put(text: &'static str) -> impl FnOnce(&Path) -> Result<()> {
    move |p| fs::write(p, text).map_err(|e| Error::io(p, "write", e))
}

#[test]
fn a_failed_write_leaves_the_old_file_and_nothing_else() {
    let folder = folder("failed");
    let path = folder.join("out.txt");
    write_atomically(&path, put("old")).unwrap();
    let error = write_atomically(&path, |p| {
        fs::write(p, "half").unwrap();
        Err(Error::file(p, "the disk is full"))
    });
    assert_eq!(error.unwrap_err().to_string(), format!("{}: the disk is full", path.display()));
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "the temporary file is gone");
    write_atomically(&path, put("new")).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn files_are_written_together_or_not_at_all() {
    let folder = folder("together");
    let files = |text: &str| {
        let file = |name: &str| (folder.join(name), text.as_bytes().to_vec());
        vec![file("a"), file("b"), file("c")]
    };
    write_together(&files("old")).unwrap();
    let mut blocked = files("new");
    blocked.push((folder.join("no such folder").join("d"), Vec::new()));
    let error = write_together(&blocked).unwrap_err().to_string();
    assert!(error.contains("no such folder/d: cannot write: "), "{error}");
    for name in ["a", "b", "c"] {
        assert_eq!(fs::read_to_string(folder.join(name)).unwrap(), "old");
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 3, "no temporary file is left");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn errors_name_the_path_that_was_asked_for() {
    let missing = Path::new("/no/such/folder/out.txt");
    let error = write_atomically(missing, put("")).unwrap_err().to_string();
    assert!(error.starts_with("/no/such/folder/out.txt: cannot write: "), "{error}");
    assert!(
        write_atomically(Path::new("/"), put(""))
            .unwrap_err()
            .to_string()
            .contains("not a regular file")
    );
    let error = sha256(missing).unwrap_err().to_string();
    assert!(error.starts_with("/no/such/folder/out.txt: cannot read: "), "{error}");
}

#[cfg(unix)]
#[test]
fn links_are_followed_and_devices_left_alone() {
    let folder = folder("links");
    let (file, link) = (folder.join("file"), folder.join("link"));
    fs::write(&file, "old").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    write_atomically(&link, put("new")).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "new");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(write_atomically(Path::new("/dev/null"), put("")).is_err());
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn digests_are_those_of_the_standard() {
    let folder = folder("digest");
    let path = folder.join("abc");
    fs::write(&path, "abc").unwrap(); // FIPS 180-2, appendix B.1
    let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(sha256(&path).unwrap(), expected);
    fs::write(&path, "a".repeat(1_000_000)).unwrap(); // appendix B.3
    let expected = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
    assert_eq!(sha256(&path).unwrap(), expected);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_first_file_never_stands_beside_newer_ones() {
    let folder = folder("first");
    let files = |text: &str| {
        let file = |name: &str| (folder.join(name), text.as_bytes().to_vec());
        vec![file("a"), file("b")]
    };
    write_together(&files("old")).unwrap();
    let new = files("new");
    let staged: Vec<_> =
        new.iter().map(|(path, _)| Staged::new(path, put("new")).unwrap()).collect();
    staged[0].withdraw().unwrap();
    assert!(!folder.join("a").exists() && folder.join("b").exists());
    staged.iter().rev().try_for_each(Staged::publish).unwrap();
    assert_eq!(fs::read_to_string(folder.join("a")).unwrap(), "new");
    drop(staged);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_an_interrupted_write_leaves_is_known_by_its_name() {
    let name = temporary_name(Path::new("run/result.json")).unwrap();
    assert_eq!(left_over(&name), Some("result.json"));
    for other in ["result.json", ".tmp", ".a.tmp", ".a.1-.tmp", "a.1-2.tmp", ".a.1-x.tmp"] {
        assert_eq!(left_over(Path::new(other)), None, "{other}");
    }
}

#[cfg(unix)]
#[test]
fn what_was_left_behind_goes_with_the_next_write_unless_somebody_is_at_it() {
    let folder = folder("left-over");
    let names = [".a.1-2.tmp", ".b.1-2.tmp", ".a.3-4.tmp", "a.1-2.tmp"];
    names.iter().for_each(|name| fs::write(folder.join(name), "").unwrap());
    let busy = File::open(folder.join(".a.3-4.tmp")).unwrap();
    busy.lock().unwrap();
    write_atomically(&folder.join("a"), put("new")).unwrap();
    let mut left: Vec<_> = fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, [".a.3-4.tmp", ".b.1-2.tmp", "a", "a.1-2.tmp"]);
    fs::remove_dir_all(folder).unwrap();
}
