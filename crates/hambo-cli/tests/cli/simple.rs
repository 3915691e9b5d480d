//! Help, `collect`, `return`, `inspect`.

use super::*;

const COMMANDS: [&str; 15] = [
    "demo",
    "evaluate",
    "rank",
    "learn",
    "return",
    "collect",
    "train",
    "reproduce",
    "validate",
    "sweep",
    "inspect",
    "selftest",
    "doctor",
    "completions",
    "man",
];

#[test]
fn help_of_every_command_explains_every_flag_and_shows_an_example() {
    let place = Place::new();
    let help = place.succeeds("--help");
    assert!(
        help.contains("How badly could this policy do, given only what these logs know?"),
        "{help}"
    );
    let listed =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|l| !l.is_empty());
    let commands: Vec<&str> =
        listed.filter_map(|l| l.strip_prefix("  ")?.split(' ').next()).collect();
    let commands: Vec<&str> =
        commands.into_iter().filter(|name| !["", "help"].contains(name)).collect();
    assert_eq!(commands, COMMANDS);
    for command in commands {
        let help = place.succeeds(&format!("{command} --help"));
        assert!(help.contains(&format!("\n  hambo {command}")), "no example in: {help}");
        for (line, next) in
            help.lines().zip(help.lines().skip(1)).filter(|(l, _)| l.starts_with("      --"))
        {
            assert!(next.starts_with("          "), "{command}: nothing about {line}");
        }
    }
    let version = place.succeeds("--version");
    assert_eq!(version, format!("hambo {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn help_fits_the_terminal_and_has_no_stray_spaces() {
    let place = Place::new();
    for (command, width) in
        COMMANDS.into_iter().chain([""]).flat_map(|command| [(command, 80), (command, 100)])
    {
        let help =
            place.command(&format!("{command} --help")).env("COLUMNS", width.to_string()).output();
        let help = Run::from(help.unwrap()).stdout;
        for line in help.lines() {
            let most = if line.starts_with("Usage:") { 100 } else { width }; // the parser does not wrap this one
            assert!(line.chars().count() <= most, "{command}, {width} columns: {line}");
            // Two spaces may only stand between a name and the text beside it.
            if let Some((name, text)) = line.trim().split_once("  ") {
                let name = name.trim_start_matches("- ");
                let stray = name.contains(' ') || text.trim_start().contains("  ");
                assert!(!stray, "{command}, {width} columns: {line}");
            }
        }
        let whole = ["  hambo ", "  # ", "        --"];
        let examples = help.lines().skip_while(|line| !line.starts_with("Example")).skip(1);
        let broken = examples
            .take_while(|line| line.is_empty() || line.starts_with(' '))
            .find(|line| !line.is_empty() && !whole.iter().any(|start| line.starts_with(start)));
        assert_eq!(broken, None, "{command}, {width} columns: a broken example");
    }
}

#[test]
fn no_command_and_unknown_ones_are_misuse() {
    let place = Place::new();
    place.misuses("", &["Usage: hambo [OPTIONS] <COMMAND>", "evaluate"]);
    place.misuses("evaluat", &["unrecognized subcommand 'evaluat'", "'evaluate'"]);
    place.misuses("inspect", &["required arguments were not provided", "<PATH>"]);
    place.misuses("inspect a.hdf5 --jsn", &["unexpected argument '--jsn'", "'--json'"]);
}

#[test]
fn collect_writes_the_same_file_for_the_same_seed_only() {
    let place = Place::with_data();
    let said = place.succeeds(&COLLECT.replace("data.hdf5", "again.hdf5"));
    assert_eq!(said, "again.hdf5: 600 transitions in 40 episodes of point-safety\n");
    place.succeeds(&COLLECT.replace("--seed 1", "--seed 2").replace("data.hdf5", "other.hdf5"));
    let read = |name: &str| std::fs::read(place.path(name)).unwrap();
    assert!(read("data.hdf5") == read("again.hdf5"));
    assert!(read("data.hdf5") != read("other.hdf5"));
    let again = COLLECT.replace("--seed 1", "--seed 2");
    place.refuses(&again, &["error: data.hdf5: the file exists", "--force"]);
    place.succeeds(&format!("{again} --force"));
    let old = |name: &str| place.json(&format!("inspect {name} --json"))["columns"].clone();
    assert_eq!(old("data.hdf5"), old("other.hdf5"));
    assert_eq!(place.listing().len(), 4, "no temporary files");
}

#[test]
fn collect_alternates_between_policies_and_noises() {
    let place = Place::new();
    place.succeeds(
        "collect --env point-safety --policy builtin:waypoint,y=1.6 builtin:waypoint,y=2 --noise 0 0.1 \
         --steps 60 --out a.hdf5",
    );
    let found = place.json("inspect a.hdf5 --json");
    assert_eq!(found["episodes"], 4);
    assert_eq!(found["attributes"]["policy"], "builtin:waypoint,y=1.6 builtin:waypoint,y=2");
    assert_eq!(found["attributes"]["noise"], "0 0.1");
}

#[test]
fn inspect_tells_what_collect_wrote() {
    let place = Place::with_data();
    let found = place.json("inspect data.hdf5 --json");
    assert_eq!(found["schema"], "hambo/1");
    for (name, value) in
        [("transitions", 600), ("state_dim", 2), ("action_dim", 2), ("episodes", 40)]
    {
        assert_eq!(found[name], value, "{name}");
    }
    assert_eq!((&found["terminals"], &found["timeouts"]), (&0.into(), &40.into()));
    assert_eq!(
        found["episode_length"],
        serde_json::json!({"mean": 15.0, "min": 15.0, "max": 15.0})
    );
    assert_eq!(found["columns"].as_array().unwrap().len(), 5);
    assert_eq!(found["attributes"]["env"], "point-safety");
    assert_eq!(found["attributes"]["seed"], "1");
    let text = place.succeeds("inspect data.hdf5");
    for part in
        ["600 transitions", "states of 2", "episodes     40", "observations", "float32", "[600, 2]"]
    {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}

#[test]
fn return_gives_the_truth_with_its_error() {
    let place = Place::new();
    let line = "return --env pendulum --policy builtin:swing-up --horizon 50 --episodes 100";
    let found = place.json(&format!("{line} --json"));
    assert_eq!(found["schema"], "hambo/1");
    let number = |name: &str| found[name].as_f64().unwrap();
    assert!(number("min") < number("value") && number("value") < number("max"));
    assert!((number("std_error") * 10.0 - number("std")).abs() < 1e-9);
    assert_eq!(found, place.json(&format!("{line} --threads 1 --json")));
    assert_ne!(found["value"], place.json(&format!("{line} --seed 1 --json"))["value"]);
    assert!(place.succeeds(line).contains("over 100 episodes"));
    let gain =
        place.json(&format!("{} --json", line.replace("swing-up", "swing-up,angle=-1,energy=-2")));
    assert!(gain["value"].as_f64().unwrap() < number("value"), "gains reach the controller");
}

#[test]
fn inspect_names_the_format_of_other_files() {
    let place = Place::with_data();
    place.write("log.txt", "s0\ta0\treward\tnote\n0\t1\t0.5\ta\n1\t1\t0.5\tb\n3\t2\t0.5\tc\n");
    let text = place.succeeds("inspect log.txt");
    assert!(
        text.starts_with(
            "log.txt: 2 transitions, states of 1, actions of 1 dimensions\nformat       CSV\n"
        ),
        "{text}"
    );
    assert!(text.contains("note: columns not used: `note`"), "{text}");
    let found = place.json("inspect log.txt --json --columns state=a0 action=s0");
    assert_eq!((&found["format"], &found["transitions"]), (&"CSV".into(), &2.into()));
    assert_eq!(found["columns"][0]["max"], 1.0);
    assert_eq!(
        found["fields"][3],
        serde_json::json!({"path": "note", "shape": [3], "dtype": "text"})
    );
    assert!(place.json("inspect data.hdf5 --json").get("format").is_none());
    place.refuses(
        "inspect log.txt --columns state=s1",
        &["error: log.txt: no column `s1` for state: did you mean `s0`?"],
    );
    place.refuses(
        "inspect log.txt --columns stat=s0",
        &["error: columns = stat=s0: expected", "did you mean `state`?"],
    );
    place.refuses(
        "inspect minari:no/such-v0",
        &["error: minari:no/such-v0: no file ", "minari download no/such-v0"],
    );
    place.refuses(
        &format!("{EVALUATE} --subsample 0"),
        &["error: subsample = 0: expected a number of transitions"],
    );
}
