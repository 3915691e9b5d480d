//! A suite as its file has it: which environments, data, policies, horizons, seeds, methods and rules for β.

use crate::toml_file::{self, parse};
use hambo::{Error, Result};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use toml::Table;

/// The suites that are known by name.
const SHIPPED: [(&str, &str); 2] = [
    ("quick", include_str!("../../suites/quick.toml")),
    ("full", include_str!("../../suites/full.toml")),
];

/// A suite as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SuiteFile {
    pub name: Option<String>,
    /// What the table is introduced with.
    pub about: Option<String>,
    /// Methods as `hambo evaluate` names them; the bound of the first one counts.
    #[serde(default = "usual_methods")]
    pub methods: Vec<String>,
    #[serde(default = "usual_delta")]
    pub delta: f64,
    #[serde(default)]
    pub truth: TruthFile,
    #[serde(default)]
    pub settings: SettingsFile,
    #[serde(default, rename = "variant")]
    pub variants: Vec<VariantFile>,
    #[serde(default, rename = "environment")]
    pub environments: Vec<EnvironmentFile>,
}

/// How the truth is simulated.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TruthFile {
    /// Episodes of each policy at first.
    pub episodes: usize,
    /// And at the most, where the gap is so small that more are needed.
    pub most: usize,
}

impl Default for TruthFile {
    fn default() -> Self {
        TruthFile { episodes: 1000, most: 10_000 }
    }
}

/// Settings of the evaluations; what is left out is as `hambo evaluate` has it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettingsFile {
    pub effort: Option<String>,
    /// JSON file with settings of the model, as for `--model-config`.
    pub model_config: Option<PathBuf>,
    pub rollouts: Option<usize>,
    /// Settings of the model, one by one.
    pub model: Option<Table>,
    /// Settings of the search, one by one.
    pub search: Option<Table>,
}

/// A rule for β.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VariantFile {
    pub name: String,
    #[serde(default = "usual_beta")]
    pub beta: String,
    /// In place of the suite's.
    pub delta: Option<f64>,
    /// In place of the suite's.
    pub methods: Option<Vec<String>>,
}

/// An environment, and all that is asked in it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnvironmentFile {
    /// A built-in environment.
    pub env: Option<String>,
    /// Or a task file, with logs and true returns of one's own.
    pub task: Option<PathBuf>,
    pub policies: Vec<String>,
    pub horizons: Vec<usize>,
    pub n: Vec<usize>,
    pub seeds: Vec<u64>,
    pub data: Vec<DataFile>,
    /// In place of the suite's.
    pub settings: Option<SettingsFile>,
    /// True returns, where there is no built-in environment to simulate them in.
    #[serde(default, rename = "truth")]
    pub truths: Vec<GivenTruth>,
}

/// A data recipe.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataFile {
    pub name: String,
    /// Policies that take turns, episode by episode; `self` is the evaluated one.
    #[serde(default)]
    pub behaviors: Vec<String>,
    /// Standard deviations of the noise, in units of the action.
    #[serde(default = "no_noise")]
    pub noise: Vec<f64>,
    /// Whether actions are drawn from the policies' own distributions.
    #[serde(default)]
    pub stochastic: bool,
    /// Steps of an episode; by default the longest horizon of the environment.
    pub horizon: Option<usize>,
    /// Or files with logs, of which random episodes with n transitions are taken.
    #[serde(default)]
    pub files: Vec<PathBuf>,
}

/// A true return that was measured elsewhere.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GivenTruth {
    pub policy: String,
    pub horizon: usize,
    pub value: f64,
    pub std_error: f64,
    pub episodes: usize,
}

fn usual_methods() -> Vec<String> {
    ["ca", "dainf", "ds"].map(str::to_owned).to_vec()
}

fn usual_delta() -> f64 {
    0.05
}

fn usual_beta() -> String {
    "trajectory".to_owned()
}

fn no_noise() -> Vec<f64> {
    vec![0.0]
}

/// A suite, and where it is from.
pub struct Written {
    pub file: SuiteFile,
    /// The file, or the name of a shipped suite, for messages.
    pub path: PathBuf,
    /// What relative paths in it start from.
    pub base: PathBuf,
}

impl Written {
    /// A shipped suite by its name, or a file.
    pub fn read(asked: &Path) -> Result<Self> {
        let shipped = SHIPPED.iter().find(|(name, _)| asked == Path::new(name));
        if let Some((name, text)) = shipped {
            return Written::shipped(name, text);
        }
        if asked.extension().is_none() && !asked.exists() {
            let problem = "no such suite: expected quick, full, or a TOML file";
            return Err(Error::file(asked, problem));
        }
        let text = toml_file::text(asked, "suite")?;
        let base = asked.parent().unwrap_or(Path::new("")).to_owned();
        let stem = asked.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned);
        let mut file: SuiteFile = parse(&text).map_err(|problem| Error::file(asked, problem))?;
        file.name = file.name.or(stem);
        Ok(Written { file, path: asked.to_owned(), base })
    }

    /// A suite that comes with the program; its paths start from the current folder.
    pub fn shipped(name: &str, text: &str) -> Result<Self> {
        let path = PathBuf::from(name);
        let mut file: SuiteFile = parse(text).map_err(|problem| Error::file(&path, problem))?;
        file.name = Some(name.to_owned());
        Ok(Written { file, path, base: PathBuf::new() })
    }

    /// An error of one of its fields.
    pub fn problem(&self, field: &str, problem: impl std::fmt::Display) -> Error {
        Error::file(&self.path, format!("{field}: {problem}"))
    }

    /// A path in it, from where the program runs.
    pub fn path_of(&self, path: &Path) -> PathBuf {
        self.base.join(path)
    }

    /// A policy in it: built-in ones as they are, files from where the program runs.
    pub fn policy_path(&self, spec: &str) -> String {
        match spec.starts_with("builtin:") {
            true => spec.to_owned(),
            false => self.path_of(Path::new(spec)).to_string_lossy().into_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_suites_are_well_formed() {
        for (name, _) in SHIPPED {
            let written = Written::read(Path::new(name)).unwrap();
            assert_eq!(written.file.name.as_deref(), Some(name));
            assert!(!written.file.environments.is_empty());
        }
    }

    #[test]
    fn problems_name_their_line() {
        let told = |text| parse::<SuiteFile>(text).unwrap_err();
        assert_eq!(told("\nmethods = 3"), "line 2: invalid type: integer `3`, expected a sequence");
        let unknown = told("[[environment]]\nenvs = \"pendulum\"");
        assert!(unknown.starts_with("line 2: unknown field `envs`, expected one of "), "{unknown}");
    }
}
