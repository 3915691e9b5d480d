//! The learning curve: one point an evaluation, as CSV and as TensorBoard's events.

use super::folder::Folder;
use hambo::Result;
use hambo::run::log::Events;
use serde::{Deserialize, Serialize};

/// Where a training stood at an evaluation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Steps made.
    pub step: usize,
    /// Episodes ended.
    pub episodes: u64,
    /// Mean return of the actor without its noise.
    pub value: f64,
    /// Standard error of the mean return.
    pub std_error: f64,
    /// Mean return of the episodes since the last evaluation, with the noise; none if no episode has ended.
    pub exploring: Option<f64>,
    /// Sum of the critics' mean squared errors in the last update.
    pub critic_loss: f64,
    /// mean (α ln π − min Q) in the last update.
    pub actor_loss: f64,
    /// −mean ln π in the last update.
    pub entropy: f64,
    /// α, the weight of the entropy.
    pub temperature: f64,
}

const COLUMNS: [&str; 9] = [
    "step",
    "episodes",
    "return",
    "return_std_error",
    "return_exploring",
    "critic_loss",
    "actor_loss",
    "entropy",
    "temperature",
];

impl CurvePoint {
    /// All but step and episodes, in the order of [`COLUMNS`].
    fn figures(&self) -> [Option<f64>; 7] {
        let CurvePoint {
            value,
            std_error,
            exploring,
            critic_loss,
            actor_loss,
            entropy,
            temperature,
            ..
        } = *self;
        let known = [critic_loss, actor_loss, entropy, temperature].map(Some);
        [Some(value), Some(std_error), exploring, known[0], known[1], known[2], known[3]]
    }
}

/// The curve in its two files.
pub(super) struct Curve {
    pub points: Vec<CurvePoint>,
    events: Events,
}

impl Curve {
    /// Goes on from earlier points. Events go to a file of their own each time, which TensorBoard puts together.
    pub fn new(folder: &Folder, points: Vec<CurvePoint>) -> Result<Self> {
        Ok(Curve { points, events: Events::create(folder.path())? })
    }

    /// One more point, at once on the disk.
    pub fn add(&mut self, folder: &Folder, point: CurvePoint) -> Result<()> {
        let figures = COLUMNS[2..].iter().zip(point.figures());
        let known: Vec<(&str, f64)> =
            figures.filter_map(|(name, x)| x.map(|x| (*name, x))).collect();
        self.events.add(point.step, &known)?;
        self.points.push(point);
        folder.write("curve.csv", self.csv().into_bytes())
    }

    fn csv(&self) -> String {
        let mut text = COLUMNS.join(",") + "\n";
        for point in &self.points {
            let figures = point.figures().map(|x| x.map_or(String::new(), |x| x.to_string()));
            text += &format!("{},{},{}\n", point.step, point.episodes, figures.join(","));
        }
        text
    }
}
