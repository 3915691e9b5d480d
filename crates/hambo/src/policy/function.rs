//! Policies that are functions on the host, whatever the device: closures, types of one's own, ONNX Runtime.

use hambo_engine::backend::{Buffer, Device};
use std::sync::Arc;

/// Step of a central difference, relative to the size of a number.
const STEP: f32 = 1e-3;
/// States at which it is looked at whether actions follow small changes.
const PROBED: usize = 256;

/// The actions of a policy of one's own, for [`Policy::custom`](super::Policy::custom). Closures implement it.
///
/// Batches are row-major: `states` is `[rows, state]`, `actions` is `[rows, action]`.
pub trait ActionFn: Send + Sync {
    /// Writes the action of every state. A trajectory whose action is not a number, or is not written, counts as diverged.
    fn act(&self, states: &[f32], actions: &mut [f32]);

    /// Writes dL/ds = (dL/da)ᵀ · da/ds of every state into `d_states`, and returns true. By default it returns false,
    /// and the gradient is taken by central differences of [`ActionFn::act`]. An empty batch asks whether there is one.
    fn gradient(&self, states: &[f32], d_actions: &[f32], d_states: &mut [f32]) -> bool {
        let _ = (states, d_actions, d_states);
        false
    }
}

impl<F: Fn(&[f32], &mut [f32]) + Send + Sync> ActionFn for F {
    fn act(&self, states: &[f32], actions: &mut [f32]) {
        self(states, actions);
    }
}

/// A function between states and actions of fixed sizes.
#[derive(Clone)]
pub(super) struct Function {
    /// `function` or `graph`, for descriptions.
    pub kind: &'static str,
    pub state_dim: usize,
    pub action_dim: usize,
    pub function: Arc<dyn ActionFn>,
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} from {} to {} numbers", self.kind, self.state_dim, self.action_dim)
    }
}

impl Function {
    /// actions `[rows, action]` ← π(states)
    pub fn act(&self, device: &Device, states: &Buffer, actions: &mut Buffer) {
        let values = self.actions(&device.download_or_nan(states));
        device.copy(&device.adopt(values), actions);
    }

    /// Whether it brings its gradient.
    pub fn has_gradient(&self) -> bool {
        self.function.gradient(&[], &[], &mut [])
    }

    /// Whether its actions differ between these states, but do not follow small changes of most of them: they change in
    /// jumps, which differences do not see.
    pub fn jumps(&self, states: &[f32]) -> bool {
        let rows = (states.len() / self.state_dim).min(PROBED);
        let states = &states[..rows * self.state_dim];
        let actions = self.actions(states);
        if actions.chunks_exact(self.action_dim).all(|action| *action == actions[..self.action_dim])
        {
            return false;
        }
        let mut gradient = vec![0.0; states.len()];
        self.differences(states, &vec![1.0; rows * self.action_dim], &mut gradient);
        let follows = |row: &&[f32]| row.iter().any(|&slope| slope != 0.0);
        2 * gradient.chunks_exact(self.state_dim).filter(follows).count() < rows
    }

    /// d_states += d_actionsᵀ · dπ/ds
    pub fn backward(
        &self,
        device: &Device,
        states: &Buffer,
        d_actions: &Buffer,
        d_states: &mut Buffer,
    ) {
        let (states, d_actions) =
            (device.download_or_nan(states), device.download_or_nan(d_actions));
        let mut gradient = vec![0.0; states.len()];
        if !self.function.gradient(&states, &d_actions, &mut gradient) {
            self.differences(&states, &d_actions, &mut gradient);
        }
        device.add(&device.adopt(gradient), d_states);
    }

    /// The gradient by central differences, one state dimension after another.
    fn differences(&self, states: &[f32], d_actions: &[f32], gradient: &mut [f32]) {
        let (ds, da) = (self.state_dim, self.action_dim);
        for column in 0..ds {
            let moved = |sign: f32| {
                let mut moved = states.to_vec();
                moved
                    .iter_mut()
                    .skip(column)
                    .step_by(ds)
                    .for_each(|s| *s += sign * STEP * (1.0 + s.abs()));
                let actions = self.actions(&moved);
                (moved, actions)
            };
            let ((up, ups), (down, downs)) = (moved(1.0), moved(-1.0));
            for row in 0..states.len() / ds {
                let at = row * ds + column;
                let slope: f32 =
                    (row * da..(row + 1) * da).map(|i| d_actions[i] * (ups[i] - downs[i])).sum();
                gradient[at] = slope / (up[at] - down[at]);
            }
        }
    }

    fn actions(&self, states: &[f32]) -> Vec<f32> {
        let mut actions = vec![f32::NAN; states.len() / self.state_dim * self.action_dim];
        self.function.act(states, &mut actions);
        actions
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;

    const STATES: [f32; 6] = [-2.0, 0.3, -1.5, -0.2, -1.0, 0.5];

    fn actions_and_gradient(policy: &Policy) -> (Vec<f32>, Vec<f32>) {
        let device = Device::cpu(Some(1)).unwrap();
        let states = device.upload(&STATES);
        let mut actions = device.zeros(6);
        policy.act(&device, &states, &mut actions);
        let mut gradient = device.zeros(6);
        device.fill(&mut gradient, 1.0); // it is added to
        let d_actions = device.upload(&[1.0, 0.5, -1.0, 2.0, 0.0, 1.0]);
        let noise = policy.noise(&device, 3, 1);
        policy.sample_backward(&device, &states, &noise, &d_actions, &mut gradient);
        (device.download_or_nan(&actions), device.download_or_nan(&gradient))
    }

    /// The first half of `builtin:waypoint`: straight to (0, 1.6), half a unit a step.
    fn waypoint(states: &[f32], actions: &mut [f32]) {
        for (s, a) in states.chunks_exact(2).zip(actions.chunks_exact_mut(2)) {
            let (dx, dy) = (-s[0], 1.6 - s[1]);
            let pace = 0.5 / dx.hypot(dy);
            (a[0], a[1]) = (dx * pace, dy * pace);
        }
    }

    #[test]
    fn a_closure_acts_like_the_built_in_controller_that_it_repeats() {
        let policy = Policy::from_fn("my waypoint", 2, 2, waypoint);
        assert!(
            !policy.on_device()
                && policy.describe().kind == "function"
                && policy.spec == "my waypoint"
        );
        let (ours, theirs) = (
            actions_and_gradient(&policy),
            actions_and_gradient(&Policy::read("builtin:waypoint").unwrap()),
        );
        for (a, b) in ours.0.iter().zip(&theirs.0) {
            assert!((a - b).abs() < 1e-6, "actions {ours:?} and {theirs:?}");
        }
        for (a, b) in ours.1.iter().zip(&theirs.1) {
            assert!((a - b).abs() < 1e-3, "gradients {ours:?} and {theirs:?}");
        }
    }

    #[test]
    fn actions_that_jump_are_told_from_those_that_follow() {
        let states: Vec<f32> = (0..200).map(|i| (i as f32 * 0.37).sin()).collect();
        let jumps = |act: fn(&[f32], &mut [f32])| {
            let policy = Policy::from_fn("it", 2, 2, act);
            assert!(policy.lacks_gradient());
            policy.jumps(&states)
        };
        assert!(!jumps(waypoint));
        assert!(jumps(|s, a| a.iter_mut().zip(s).for_each(|(a, s)| *a = s.signum())));
        assert!(!jumps(|_, a| a.fill(0.5)), "a constant has no slope anywhere");
        assert!(!Policy::custom("tripled", 2, 2, Tripled).lacks_gradient());
        assert!(!Policy::read("builtin:waypoint").unwrap().jumps(&states));
    }

    /// a = 3 s, with a gradient that differences would not give.
    struct Tripled;

    impl ActionFn for Tripled {
        fn act(&self, states: &[f32], actions: &mut [f32]) {
            actions.iter_mut().zip(states).for_each(|(a, s)| *a = 3.0 * s);
        }

        fn gradient(&self, _: &[f32], d_actions: &[f32], d_states: &mut [f32]) -> bool {
            d_states.iter_mut().zip(d_actions).for_each(|(s, a)| *s = 7.0 * a);
            true
        }
    }

    #[test]
    fn a_type_of_ones_own_may_bring_its_gradient() {
        let (actions, gradient) = actions_and_gradient(&Policy::custom("tripled", 2, 2, Tripled));
        assert_eq!(actions, STATES.map(|s| 3.0 * s));
        assert_eq!(gradient, [8.0, 4.5, -6.0, 15.0, 1.0, 8.0]);
    }

    #[test]
    fn an_action_that_is_not_written_is_no_number() {
        let policy = Policy::from_fn("lazy", 2, 2, |_, actions| actions[0] = 1.0);
        let (actions, _) = actions_and_gradient(&policy);
        assert!(actions[0] == 1.0 && actions[1..].iter().all(|a| a.is_nan()), "{actions:?}");
    }
}
