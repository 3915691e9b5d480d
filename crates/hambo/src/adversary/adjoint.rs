//! One step back through the learned model, shared by everything that follows gradients along trajectories.

use crate::dynamics::Pass;
use crate::rollout::{ObservationBuffers, World};
use crate::{Error, Result};
use hambo_engine::backend::{Buffer, Counter, Shift};
use hambo_engine::expression::Program;

/// Room for one step of a backward pass over `rows` trajectories.
pub(crate) struct Adjoint<'a> {
    pass: Box<dyn Pass + 'a>,
    observed: ObservationBuffers,
    /// The networks' inputs at the step: (s, a) standardized.
    pub inputs: Buffer,
    weights: Buffer,
    /// dJ/d(amount of the shift).
    pub d_shifts: Buffer,
    /// dJ/ds and dJ/da as far as they are known.
    pub d_s: Buffer,
    pub d_a: Buffer,
}

/// The step to go back through.
pub(crate) struct AdjointStep<'a> {
    pub s: &'a Buffer,
    pub a: &'a Buffer,
    pub next: &'a Buffer,
    /// Which trajectories were running.
    pub running: &'a Buffer<u32>,
    pub shift: Shift<'a>,
    /// Weights of the rewards of all steps in J, and which step this is.
    pub weight: (&'a Buffer, &'a Counter),
    /// The probability of an end p(s, a, s'), and dJ/dp `[rows]`; none: ends have no gradient.
    pub end: Option<(&'a Program, &'a Buffer)>,
}

impl<'a> Adjoint<'a> {
    pub fn new(world: &World<'a>, rows: usize) -> Result<Self> {
        let World { device, model, .. } = *world;
        let (ds, da) = (model.state_dim(), model.action_dim());
        let no_gradient = || Error::Mismatch("the dynamics model has no gradient".to_owned());
        Ok(Adjoint {
            pass: model.pass(device, rows).ok_or_else(no_gradient)?,
            observed: world.observation_buffers(rows),
            inputs: device.zeros(rows * model.input_dim()),
            weights: device.zeros(rows),
            d_shifts: device.zeros(rows * ds),
            d_s: device.zeros(rows * ds),
            d_a: device.zeros(rows * da),
        })
    }

    /// Recomputes the model's forward pass at (s, a), this time keeping what the way back needs.
    pub fn recompute(&mut self, world: &World<'_>, s: &Buffer, a: &Buffer) {
        world.inputs(s, a, &mut self.observed, &mut self.inputs);
        self.pass.forward(world.device, &self.inputs);
    }

    /// From dJ/ds' in `d_next` to dJ/d(shift), dJ/ds and dJ/da, through reward, end and model; adds the
    /// part of reward and end to `d_next` itself. [`Adjoint::recompute`] must have seen the same step.
    pub fn back(&mut self, world: &World<'_>, step: &AdjointStep<'_>, d_next: &mut Buffer) {
        let World { device, model, .. } = *world;
        device.fill(&mut self.d_s, 0.0);
        device.fill(&mut self.d_a, 0.0);
        // r(s, a, s')
        device.fill_at(step.weight.0, step.weight.1, &mut self.weights);
        device.still_running(step.running, &mut self.weights);
        device.evaluate_gradient(
            &world.reward,
            [step.s, step.a, step.next],
            &self.weights,
            [&mut self.d_s, &mut self.d_a, &mut *d_next],
        );
        // p(s, a, s')
        if let Some((end, d_end)) = step.end {
            let gradients = [&mut self.d_s, &mut self.d_a, &mut *d_next];
            device.evaluate_gradient(end, [step.s, step.a, step.next], d_end, gradients);
        }
        device.still_running(step.running, d_next);
        // s' = s + offset + scale (μ + amount σ_e + σ_a ε)
        let (output, d_output) = self.pass.output();
        let prediction = world.prediction(output);
        device.shift_gradient(&prediction, &step.shift, d_next, d_output, &mut self.d_shifts);
        let d_inputs = self.pass.backward(device, &self.inputs);
        world.inputs_back(step.s, &mut self.observed, d_inputs, (&mut self.d_s, &mut self.d_a));
        if model.frame().relative() {
            device.add(d_next, &mut self.d_s);
        }
    }
}
