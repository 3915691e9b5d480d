//! The true return of a policy in an environment that another program holds.

use crate::simulate::{Episodes, NoiseSource, Returns};
use hambo::Result;
use hambo::policy::Policy;
use hambo::run::Observer;
use hambo_engine::backend::Device;
use std::ops::Range;

/// Episodes side by side in an environment that another program holds.
pub trait Simulation: Send + Sync {
    /// Episodes side by side, at the most.
    fn width(&self) -> usize;

    /// Begins these episodes, by their numbers; their first states, `[episodes, state]`.
    fn start(&self, episodes: Range<usize>) -> Vec<f32>;

    /// Takes a step in each of them with its action, `[episodes, action]`. What is returned for one that was over before is
    /// not looked at.
    fn step(&self, actions: &[f32]) -> Stepped;
}

/// What a step led to.
#[derive(Clone, Debug, PartialEq)]
pub struct Stepped {
    /// Next states, `[episodes, state]`.
    pub states: Vec<f32>,
    /// What each earned.
    pub rewards: Vec<f64>,
    /// Whether each is over.
    pub over: Vec<bool>,
}

/// Discounted returns of episodes that begin and end where the environment says, or at the horizon.
pub fn simulate_outside(
    device: &Device,
    simulation: &dyn Simulation,
    policy: &Policy,
    episodes: &Episodes,
    progress: &dyn Observer,
) -> Result<Returns> {
    episodes.validate()?;
    let Episodes { horizon, count, discount, stream } = *episodes;
    let mut values = vec![0.0; count];
    let (width, mut first) = (simulation.width().max(1), 0);
    while first < count {
        let now = first..count.min(first + width);
        let noise = stream.child("policy").index(first as u64);
        let mut noise = NoiseSource::new(device, policy, now.len(), noise);
        let mut states = simulation.start(now.clone());
        let mut running = vec![true; now.len()];
        let mut actions = device.zeros(now.len() * policy.action_dim());
        for t in 0..horizon {
            if running.iter().all(|running| !running) {
                break;
            }
            noise.draw(device);
            policy.sample(device, &device.upload(&states), &noise.values, &mut actions);
            let stepped = simulation.step(&device.download(&actions)?);
            let weight = discount.powi(t as i32);
            let earned = values[now.clone()].iter_mut().zip(&mut running);
            for ((value, running), (reward, over)) in
                earned.zip(stepped.rewards.iter().zip(&stepped.over)).filter(|((_, r), _)| **r)
            {
                *value += weight * reward;
                *running = !over;
            }
            states = stepped.states;
        }
        progress.report("simulating", now.end, count, "");
        first = now.end;
    }
    Ok(Returns { values, diverged: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    use hambo_engine::rng::Stream;
    use std::sync::Mutex;

    /// A counter that pays what it stands at, and is over after as many steps as its number says.
    struct Counting(Mutex<Vec<(usize, usize)>>);

    impl Simulation for Counting {
        fn width(&self) -> usize {
            2
        }

        fn start(&self, episodes: Range<usize>) -> Vec<f32> {
            *self.0.lock().unwrap() = episodes.clone().map(|number| (number, 0)).collect();
            vec![0.0; episodes.len()]
        }

        fn step(&self, actions: &[f32]) -> Stepped {
            let mut all = self.0.lock().unwrap();
            assert_eq!(actions.len(), all.len());
            all.iter_mut().for_each(|(_, steps)| *steps += 1);
            Stepped {
                states: all.iter().map(|(_, steps)| *steps as f32).collect(),
                rewards: actions.iter().map(|&a| f64::from(a)).collect(),
                over: all.iter().map(|(number, steps)| steps > number).collect(),
            }
        }
    }

    #[test]
    fn episodes_end_on_their_own_or_at_the_horizon() {
        let device = Device::cpu(Some(1)).unwrap();
        // The action is 1 more than the steps so far, which is what the step earns.
        let policy = Policy::from_fn("count", 1, 1, |states, actions| {
            actions.iter_mut().zip(states).for_each(|(a, s)| *a = s + 1.0);
        });
        let episodes = Episodes { horizon: 3, count: 5, discount: 0.5, stream: Stream::new(0) };
        let simulation = Counting(Mutex::default());
        let found = simulate_outside(&device, &simulation, &policy, &episodes, &()).unwrap();
        let two = 1.0 + 0.5 * 2.0;
        let three = two + 0.25 * 3.0;
        assert_eq!(found.values, [1.0, two, three, three, three]);
        assert_eq!(found.truth(None).episodes, 5);
    }
}
