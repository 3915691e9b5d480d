//! A whole command as a TOML file: `--config` reads one, and every folder of `--out` gets the one that repeats it.

use crate::args::Arguments;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory};
use hambo::{Error, Result};
use hambo_engine::spelling::edit_distance;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use toml::{Table, Value};

/// The name of the file in a folder of `--out`.
pub const FILE: &str = "run.toml";
/// The key that names the command.
const COMMAND: &str = "command";
/// Options that say how a run is made, and are no part of what is asked.
const NOT_KEPT: [&str; 3] = ["config", "quiet", "force"];

/// The words of the command line with those of the file that `--config` names; what is said on the command line comes before
/// what is said in the file.
pub fn expanded(words: Vec<OsString>) -> Result<Vec<OsString>> {
    let (path, words) = without_config(words)?;
    let Some(path) = path else { return Ok(words) };
    let table = read(&path)?;
    let all = Arguments::command();
    let given = words.first().filter(|word| all.find_subcommand(word).is_some());
    let named = table.get(COMMAND).map(|value| value.as_str().unwrap_or_default().to_owned());
    let name = match (given.map(|word| word.to_string_lossy().into_owned()), named) {
        (Some(given), Some(named)) if given != named => {
            let problem = format!("it is for `hambo {named}`, not for `hambo {given}`");
            return Err(Error::file(&path, problem));
        }
        (Some(name), _) | (None, Some(name)) => name,
        (None, None) => {
            return Err(Error::file(&path, "no `command`, such as command = \"evaluate\""));
        }
    };
    let Some(command) = all.find_subcommand(&name) else {
        return Err(Error::file(&path, format!("command = \"{name}\": no such command")));
    };
    let rest = if given.is_some() { &words[1..] } else { &words[..] };
    let mut line = vec![OsString::from(&name)];
    line.extend(rest.iter().cloned());
    for (key, value) in table.iter().filter(|(key, _)| *key != COMMAND) {
        let arg = option(command, key).ok_or_else(|| Error::file(&path, unknown(command, key)))?;
        if !rest.iter().any(|word| names(arg).any(|name| says(word, name))) {
            line.extend(as_words(key, value, arg).map_err(|problem| Error::file(&path, problem))?);
        }
    }
    Ok(line)
}

/// Takes `--config FILE` out of the words.
fn without_config(words: Vec<OsString>) -> Result<(Option<PathBuf>, Vec<OsString>)> {
    let Some(place) = words.iter().position(|word| says(word, "config")) else {
        return Ok((None, words));
    };
    let mut words = words;
    let word = words.remove(place).to_string_lossy().into_owned();
    let path = match word.split_once('=') {
        Some((_, path)) => OsString::from(path),
        None if place < words.len() => words.remove(place),
        None => return Err(Error::setting("config", "", "a TOML file")),
    };
    if words.iter().any(|word| says(word, "config")) {
        return Err(Error::setting("config", "given twice", "one TOML file"));
    }
    Ok((Some(PathBuf::from(path)), words))
}

fn read(path: &Path) -> Result<Table> {
    let text = std::fs::read_to_string(path).map_err(|e| Error::io(path, "read", e))?;
    text.parse()
        .map_err(|e: toml::de::Error| Error::file(path, format!("not TOML: {}", e.message())))
}

/// Whether a word is this option, with or without a value.
fn says(word: &OsStr, name: &str) -> bool {
    let word = word.to_string_lossy();
    word.strip_prefix("--").is_some_and(|word| word.split('=').next() == Some(name))
}

/// What an option is called.
fn names(arg: &Arg) -> impl Iterator<Item = &str> {
    arg.get_long().into_iter().chain(arg.get_visible_aliases().unwrap_or_default())
}

fn option<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|arg| names(arg).any(|known| known == name))
}

fn unknown(command: &Command, key: &str) -> String {
    let known = command.get_arguments().flat_map(names);
    let near = known.min_by_key(|known| edit_distance(key, known)).unwrap_or("data");
    format!("no option `{key}` of `hambo {}`: did you mean `{near}`?", command.get_name())
}

/// An option of the file as it would be on the command line.
fn as_words(key: &str, value: &Value, arg: &Arg) -> std::result::Result<Vec<OsString>, String> {
    let text = |value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(_) | Value::Float(_) => Ok(value.to_string()),
        _ => Err(format!(
            "`{key}`: expected a text, a number, true or false, or a list of texts or numbers"
        )),
    };
    let word = |text: String| OsString::from(format!("--{key}={text}"));
    match (value, arg.get_value_delimiter()) {
        (Value::Boolean(true), _) => Ok(vec![OsString::from(format!("--{key}"))]),
        (Value::Boolean(false), _) => Ok(Vec::new()),
        (Value::Array(values), Some(delimiter)) => {
            let texts: Vec<String> =
                values.iter().map(text).collect::<std::result::Result<_, _>>()?;
            Ok(vec![word(texts.join(&delimiter.to_string()))])
        }
        (Value::Array(values), None) => values.iter().map(|value| text(value).map(word)).collect(),
        (value, _) => Ok(vec![word(text(value)?)]),
    }
}

/// The file that repeats the run.
static REPEATS: OnceLock<String> = OnceLock::new();

/// Remembers what was asked; the first one counts.
pub fn remember(matches: &ArgMatches) {
    let _ = REPEATS.set(written(matches));
}

/// The file that repeats this run; none where another program asks.
pub fn that_repeats() -> Option<&'static str> {
    REPEATS.get().map(String::as_str)
}

/// What was said on the command line, as a file for `--config`.
fn written(matches: &ArgMatches) -> String {
    let Some((name, matches)) = matches.subcommand() else { return String::new() };
    let all = Arguments::command();
    let mut table = Table::new();
    let args = all.find_subcommand(name).into_iter().flat_map(Command::get_arguments);
    for arg in args.filter(|arg| !NOT_KEPT.contains(&arg.get_id().as_str())) {
        let id = arg.get_id().as_str();
        let said = matches!(matches.try_contains_id(id), Ok(true))
            && matches.value_source(id) == Some(ValueSource::CommandLine);
        if let (true, Some(long)) = (said, arg.get_long()) {
            table.insert(long.to_owned(), kept(arg, matches));
        }
    }
    format!(
        "# hambo {}. To repeat this run: hambo --config {FILE} --out ANOTHER\ncommand = \"{name}\"\n{table}",
        env!("CARGO_PKG_VERSION")
    )
}

fn kept(arg: &Arg, matches: &ArgMatches) -> Value {
    if matches!(arg.get_action(), ArgAction::SetTrue) {
        return Value::Boolean(true);
    }
    let raw = matches.get_raw(arg.get_id().as_str()).into_iter().flatten();
    let mut values: Vec<Value> = raw.map(|word| value(&word.to_string_lossy())).collect();
    let several = arg.get_num_args().is_some_and(|n| n.max_values() > 1);
    match several || arg.get_value_delimiter().is_some() || values.len() != 1 {
        true => Value::Array(values),
        false => values.remove(0),
    }
}

/// A number where it is written as one, a text otherwise.
fn value(text: &str) -> Value {
    let integer = text.parse::<i64>().ok().filter(|n| n.to_string() == text).map(Value::Integer);
    let float = || text.parse::<f64>().ok().map(Value::Float).filter(|x| x.to_string() == text);
    integer.or_else(float).unwrap_or_else(|| Value::String(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    fn of(line: &str) -> String {
        let line = [OsString::from("hambo")].into_iter().chain(words(line));
        written(&Arguments::command().try_get_matches_from(line).unwrap())
    }

    #[test]
    fn a_command_that_was_written_down_is_the_same_command() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.toml");
        let lines = [
            "evaluate --data a.csv b.csv --policy agent.zip --horizon 200 --threshold -160 --json",
            "evaluate --data a.csv --policy p --horizon 2 --angles 0,1 --reward -s[0]^2 --delta 0.10",
            "rank --data a.npz --policies a.zip b.zip --horizon 5 --columns state=x,y action=u",
            "collect --env pendulum --policy builtin:swing-up --noise 0.5 1.0 --steps 100 --out a.hdf5",
        ];
        for line in lines {
            let text = of(&format!("{line} --quiet"));
            std::fs::write(&path, &text).unwrap();
            let read = expanded(words(&format!("--config {}", path.display()))).unwrap();
            let read: Vec<String> = read.iter().map(|w| w.to_string_lossy().into_owned()).collect();
            assert_eq!(of(&read.join(" ")), text, "{line}");
            assert!(!text.contains("quiet"), "{text}");
        }
    }

    #[test]
    fn the_command_line_comes_before_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.toml");
        std::fs::write(
            &path,
            "command = \"rank\"\npolicy = [\"a\", \"b\"]\nhorizon = 5\ndata = \"x\"\n",
        )
        .unwrap();
        let line = format!("rank --config {} --policies c --horizon=7", path.display());
        let read = expanded(words(&line)).unwrap();
        assert_eq!(
            read,
            words("rank --policies c --horizon=7 --data=x"),
            "an alias is the same option"
        );
        let other = expanded(words(&line.replace("rank", "evaluate"))).unwrap_err().to_string();
        assert!(other.ends_with("it is for `hambo rank`, not for `hambo evaluate`"), "{other}");
        let twice = expanded(words(&format!("{line} --config another.toml"))).unwrap_err();
        assert_eq!(twice.to_string(), "config = given twice: expected one TOML file");
        std::fs::write(&path, "command = \"rank\"\nhorizn = 5\n").unwrap();
        let unknown = expanded(words(&line)).unwrap_err().to_string();
        assert!(
            unknown.contains("no option `horizn`") && unknown.contains("did you mean `horizon`?")
        );
    }
}
