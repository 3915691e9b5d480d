//! What the numbers of a model mean: coordinates of states, and units of what it sees and predicts.

use super::layout::{Layout, Views};
use super::range::widened_range;
use crate::data::{Standardizer, Transitions};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// What a model predicts, always in standardized units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// s' − s: far from the data the prediction falls back to "nothing changes much".
    Change,
    /// s', as the paper writes it.
    NextState,
}

/// The coordinates and units of a model.
#[derive(Clone, Debug)]
pub struct Frame {
    /// What the coordinates of states are.
    pub layout: Layout,
    pub(crate) views: Views,
    /// Length of an action.
    pub action_dim: usize,
    /// What is predicted.
    pub target: Target,
    /// Units of the inputs (state, action).
    pub inputs: Standardizer,
    /// Units of the targets.
    pub targets: Standardizer,
    /// Smallest and largest value of each entry that trajectories carry, none where there is no limit: the range of the
    /// logs, widened by [`WIDENED`](super::WIDENED). Of a learned reward it is that of what a step pays.
    pub range: Vec<Option<[f32; 2]>>,
}

impl Frame {
    /// For these data, with angles at the given entries; the units are those of `rows`.
    pub fn fit(
        data: &Transitions,
        rows: &[u32],
        target: Target,
        angles: &[usize],
        reward: bool,
    ) -> Result<Self> {
        if let Some(index) = angles.iter().find(|&&index| index >= data.state_dim()) {
            let expected = format!("entries of the state, which are 0 to {}", data.state_dim() - 1);
            return Err(Error::setting("angles", index, expected));
        }
        check_target(target, angles, reward)?;
        let layout = Layout::of(data, angles, reward);
        let rows = || rows.iter().map(|&row| row as usize);
        let width = layout.features() + data.action_dim();
        let targets = Standardizer::fit(layout.carried(), rows, |row, out| {
            target_row(&layout, data, target, row, out)
        });
        Ok(Frame {
            views: layout.views()?,
            action_dim: data.action_dim(),
            target,
            inputs: Standardizer::fit(width, rows, |row, out| input_row(&layout, data, row, out)),
            range: widened_range(&layout, data, &targets),
            targets,
            layout,
        })
    }

    /// From parts that were read from a file: every size is checked against the others.
    pub(super) fn restore(
        layout: Layout,
        action_dim: usize,
        target: Target,
        [inputs, targets]: [Standardizer; 2],
        range: Vec<Option<[f32; 2]>>,
    ) -> Result<Self> {
        let widths = [
            layout
                .observed
                .checked_add(layout.angles.len())
                .and_then(|w| w.checked_add(action_dim)),
            layout.observed.checked_add(layout.reward.into()),
        ];
        let fits = layout.observed > 0
            && action_dim > 0
            && layout.angles.windows(2).all(|w| w[0].index < w[1].index)
            && layout
                .angles
                .iter()
                .all(|a| a.index < layout.observed && a.from.is_none_or(f32::is_finite))
            && [&inputs, &targets]
                .map(|units| (units.mean.len() == units.std.len()).then_some(units.std.len()))
                == widths
            && widths[1] == Some(range.len());
        if !fits {
            let problem = "the sizes of state, action and units do not fit each other";
            return Err(Error::Mismatch(problem.to_owned()));
        }
        let finite = |units: &Standardizer| {
            units.mean.iter().all(|m| m.is_finite())
                && units.std.iter().all(|s| *s > 0.0 && s.is_finite())
        };
        if !finite(&inputs) || !finite(&targets) {
            return Err(Error::Mismatch(
                "units must be finite, and their deviations positive".to_owned(),
            ));
        }
        if !range.iter().flatten().all(|[low, high]| low < high && (high - low).is_finite()) {
            return Err(Error::Mismatch("a range must be finite, and not empty".to_owned()));
        }
        Ok(Frame { views: layout.views()?, layout, action_dim, target, inputs, targets, range })
    }

    /// Changes in plain units, without limits: for tests whose answer is known.
    #[cfg(test)]
    pub(crate) fn plain(state_dim: usize, action_dim: usize, reward: bool) -> Self {
        let layout = Layout { observed: state_dim, angles: Vec::new(), reward };
        let plain = |width: usize| Standardizer { mean: vec![0.0; width], std: vec![1.0; width] };
        Frame {
            views: layout.views().unwrap(),
            action_dim,
            target: Target::Change,
            inputs: plain(layout.features() + action_dim),
            targets: plain(layout.carried()),
            range: vec![None; layout.carried()],
            layout,
        }
    }

    /// Length of a state as trajectories carry it: that of the data and, where the reward is learned, one more.
    pub fn state_dim(&self) -> usize {
        self.layout.carried()
    }

    /// Numbers that the model sees of a state and an action.
    pub fn input_dim(&self) -> usize {
        self.layout.features() + self.action_dim
    }

    /// Whether predictions are changes of the state.
    pub fn relative(&self) -> bool {
        self.target == Target::Change
    }

    /// Inputs `[rows, input]` and targets `[rows, state]` of logged rows, in the model's units.
    pub(crate) fn standardized(&self, data: &Transitions, rows: &[u32]) -> (Vec<f32>, Vec<f32>) {
        let (width, ds) = (self.input_dim(), self.state_dim());
        let mut x = vec![0.0; rows.len() * width];
        let mut y = vec![0.0; rows.len() * ds];
        for ((&row, x), y) in rows.iter().zip(x.chunks_exact_mut(width)).zip(y.chunks_exact_mut(ds))
        {
            input_row(&self.layout, data, row as usize, x);
            target_row(&self.layout, data, self.target, row as usize, y);
        }
        self.inputs.apply(&mut x);
        self.targets.apply(&mut y);
        (x, y)
    }

    /// What the model sees of states, as the data have them, and actions: `[rows, input]`.
    pub(crate) fn standardized_inputs(&self, states: &[f32], actions: &[f32]) -> Vec<f32> {
        let mut x = vec![0.0; states.len() / self.layout.observed * self.input_dim()];
        let rows =
            states.chunks_exact(self.layout.observed).zip(actions.chunks_exact(self.action_dim));
        for ((state, action), x) in rows.zip(x.chunks_exact_mut(self.input_dim())) {
            let (features, seen) = x.split_at_mut(self.layout.features());
            self.layout.embed(state, features);
            seen.copy_from_slice(action);
        }
        self.inputs.apply(&mut x);
        x
    }
}

/// Learned rewards and angles are changes.
pub(super) fn check_target(target: Target, angles: &[usize], reward: bool) -> Result<()> {
    if target == Target::NextState && (reward || !angles.is_empty()) {
        let expected = "\"change\" where the reward is learned or angles are declared";
        return Err(Error::setting("target", "next-state", expected));
    }
    Ok(())
}

fn input_row(layout: &Layout, data: &Transitions, row: usize, out: &mut [f32]) {
    let (features, action) = out.split_at_mut(layout.features());
    layout.embed(data.state(row), features);
    action.copy_from_slice(data.action(row));
}

fn target_row(layout: &Layout, data: &Transitions, target: Target, row: usize, out: &mut [f32]) {
    match target {
        Target::Change => layout.change(data, row, out),
        Target::NextState => out.copy_from_slice(data.next_state(row)),
    }
}
