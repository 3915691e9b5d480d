//! Models that jobs share: those that differ in their policies alone learn the same one, to the last bit.

use super::board::Board;
use super::plan::{Job, Plan};
use crate::args::Evaluate;
use hambo::{Error, Result};
use hambo_engine::files::{make_folder, sha256_of};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The files of a model.
const FILES: [&str; 2] = ["model.json", "model.safetensors"];
/// What unfinished work calls the model.
const MODEL: &str = "model";

/// The models of a sweep that this program learned on this kind of device.
pub struct Fits<'a> {
    plan: &'a Plan,
    board: &'a Board,
    /// What computes: another build or device would learn another model, by its last digits.
    program: String,
}

impl<'a> Fits<'a> {
    pub fn new(plan: &'a Plan, board: &'a Board, program: &BTreeMap<String, String>) -> Self {
        Fits { plan, board, program: format!("{program:?}") }
    }

    /// Where the model of a job is or will be; none where no other job needs it.
    fn folder(&self, job: &Job) -> Option<PathBuf> {
        let shared = self.plan.grid(job).policies.len() > 1;
        let content = format!("{}{}", self.plan.fit_content(job), self.program);
        shared.then(|| self.board.fits().join(&sha256_of(content.as_bytes())[..20]))
    }

    /// Lets a job use the model that another has learned: whether there is one.
    pub fn lend(&self, job: &Job, arguments: &mut Evaluate) -> bool {
        let there = |folder: &PathBuf| FILES.iter().all(|name| folder.join(name).is_file());
        let found = self.folder(job).filter(there);
        if found.is_some() {
            (arguments.fitted, arguments.model_config) = (found, None);
        }
        arguments.fitted.is_some()
    }

    /// Whether unfinished work is of a job that was lent a model, or of one that learns its own.
    pub fn was_lent(identity: &BTreeMap<String, String>) -> bool {
        identity.get(MODEL).is_some_and(|model| !model.starts_with('{'))
    }

    /// Takes the model out of the folder of a job, for the others; with a model that was lent nothing but the copy goes.
    pub fn keep(&self, job: &Job, from: &Path) -> Result<()> {
        let Some(folder) = self.folder(job) else { return Ok(()) };
        let staged = folder.with_extension(format!("{}.tmp", std::process::id()));
        make_folder(&staged)?;
        for name in FILES {
            let path = from.join(name);
            fs::rename(&path, staged.join(name)).map_err(|e| Error::io(&path, "move", e))?;
        }
        // Where another was faster, it has the same bits.
        if folder.exists() || fs::rename(&staged, &folder).is_err() {
            let _ = fs::remove_dir_all(&staged);
        }
        Ok(())
    }

    /// The jobs, but those last that would learn a model which another worker is learning at this moment.
    pub fn sorted<'j>(
        &self,
        mut jobs: Vec<&'j Job>,
        leases: &HashMap<String, u64>,
    ) -> Vec<&'j Job> {
        let held: HashSet<_> =
            jobs.iter().filter(|j| leases.contains_key(&j.id)).map(|j| j.fit()).collect();
        if !held.is_empty() {
            let mut learned = HashMap::new();
            let mut is_learned = |job: &Job| {
                let there = || self.folder(job).is_some_and(|folder| folder.exists());
                *learned.entry(job.fit()).or_insert_with(there)
            };
            jobs.sort_by_cached_key(|job| held.contains(&job.fit()) && !is_learned(job)); // stable
        }
        jobs
    }
}
