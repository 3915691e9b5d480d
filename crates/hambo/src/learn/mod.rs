//! Offline reinforcement learning: the policy that is best in the worst case,
//!
//! max over π, min over η of J(π) in the hallucinated world p̃_η.
//!
//! Policy and adversary learn together from the same short rollouts, which begin at logged states: the policy by Soft
//! Actor-Critic on the reward, HAMBO-CA's adversary by Soft Actor-Critic on the negative reward, HAMBO-DA1's by DQN. What
//! comes out is a policy like any other, and its bound is [the evaluation's](crate::evaluate).

mod actor;
mod config;
mod curve;
mod learner;
mod memory;
mod opponent;
#[cfg(test)]
mod tests;

pub use config::{Against, LearnConfig};
pub use curve::{Checkpoint, CurvePoint, csv};

use crate::confidence::{Beta, ConfidenceSet, confidence_set};
use crate::data::Transitions;
use crate::evaluate::{Budget, Problem};
use crate::run::Run;
use crate::task::Task;
use crate::{Error, Result};
use actor::Units;
use hambo_engine::rng::Stream;
use learner::Learner;
use opponent::{Members, Shifts};

/// Learns a policy in the model of `problem`; its checkpoints, the last of them at the end. `keep` is told all so far at
/// every new one.
///
/// With a rule for β that asks for a policy (trajectory) the adversary that the policy plays against has β = 1, the paper's.
pub fn learn(
    problem: &Problem<'_>,
    config: &LearnConfig,
    run: &Run<'_>,
    keep: &mut (dyn FnMut(&[Checkpoint]) -> Result<()> + Send),
) -> Result<Vec<Checkpoint>> {
    config.validate()?;
    let Problem { device, data, model, task, config: asked, .. } = *problem;
    check(task, data)?;
    let scale = 1.0 / reward_deviation(task, data)? as f32;
    let stream = Stream::new(asked.seed).child("learning");
    let of_adversary = stream.child("adversary");
    device.run(|| match config.adversary {
        Against::Ca => {
            let opponent = Shifts::new(device, model, set(problem)?, config, of_adversary)?;
            Learner::new(problem, config, opponent, scale, stream)?.learn(run, keep)
        }
        Against::Da1 => {
            let opponent = Members::new(device, model, config, -scale, of_adversary)?;
            Learner::new(problem, config, opponent, scale, stream)?.learn(run, keep)
        }
    })
}

/// The set that the policy is learned in.
fn set(problem: &Problem<'_>) -> Result<ConfidenceSet> {
    let Problem { device, data, model, config, .. } = *problem;
    match config.beta {
        Beta::Fixed(beta) => ConfidenceSet::new(model, beta),
        Beta::Trajectory => ConfidenceSet::new(model, 1.0),
        rule => {
            let delta = Budget::new(config.delta)?.model();
            Ok(confidence_set(device, model, data, rule, delta)?.0)
        }
    }
}

/// An error that says what to do if nothing can be learned from these logs for this task.
pub fn check(task: &Task, data: &Transitions) -> Result<()> {
    Units::of(task, data)?;
    if data.episodes().len() < 2 {
        return Err(Error::Data(
            "the log has one episode: a policy is learned and bounded with models that other episodes are held out from; log \
             several, or mark where episodes begin"
                .to_owned(),
        ));
    }
    reward_deviation(task, data).map(drop)
}

/// The checkpoints whose bounds decide: the best in the worst case of the model, the best first.
pub fn candidates(checkpoints: &[Checkpoint], most: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..checkpoints.len()).collect();
    order.sort_by(|&i, &j| checkpoints[j].point.worst.total_cmp(&checkpoints[i].point.worst));
    order.truncate(most);
    order
}

/// The deviation of what the task pays in the log; an error if it always pays the same.
fn reward_deviation(task: &Task, data: &Transitions) -> Result<f64> {
    let (rewards, _) = task.logged(data)?;
    let n = rewards.len() as f64;
    let mean = rewards.iter().map(|&r| f64::from(r)).sum::<f64>() / n;
    let squares = rewards.iter().map(|&r| (f64::from(r) - mean).powi(2)).sum::<f64>();
    let deviation = (squares / n).sqrt();
    if deviation <= 1e-9 * mean.abs().max(1e-9) {
        return Err(Error::Data(format!(
            "every logged step pays {mean}, so there is nothing to learn: give the reward with --env, --task or --reward, or \
             logs that have it"
        )));
    }
    Ok(deviation)
}
