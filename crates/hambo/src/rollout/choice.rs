//! How a discrete adversary chooses among the members.

use super::{ObservationBuffers, World};
use crate::rollout::MemberAdversary;
use hambo_engine::backend::{Buffer, Counter, Device, Input, Outcome, Step};
use hambo_engine::nn::Ensemble;
use hambo_engine::rng::Stream;

/// A discrete adversary that may still learn.
#[derive(Clone, Copy, Debug)]
pub struct Chooser<'a> {
    /// What it goes by.
    pub adversary: &'a MemberAdversary,
    /// ε, the share of random choices; 0 where nothing is to be learned.
    pub exploration: f32,
}

/// Where the trajectories stand when a member is to be chosen.
pub(super) struct Now<'a> {
    pub states: &'a Buffer,
    pub actions: &'a Buffer,
    /// (s, a) standardized.
    pub inputs: &'a Buffer,
    /// t / T
    pub elapsed: &'a Buffer,
    /// What the members predict, `[members, rows, 2·state]`.
    pub outputs: &'a Buffer,
    pub time: &'a Counter,
}

/// Room for choices.
pub(super) struct Choice {
    seen: Buffer,
    values: Buffer,
    ahead: Option<LookAhead>,
}

/// Room for what every member leads to, each `[members, rows, …]`.
struct LookAhead {
    observed: ObservationBuffers,
    states: Buffer,
    actions: Buffer,
    next: Buffer,
    next_actions: Buffer,
    inputs: Buffer,
    elapsed: Buffer,
    seen: Buffer,
    values: Buffer,
    rewards: Buffer,
    ended: Buffer,
    returns: Buffer,
    /// All of them run, before the step.
    running: Buffer<u32>,
    status: Buffer<u32>,
    /// No noise: an adversary does not see it.
    noise: Buffer,
    /// `[rows, members]`
    scores: Buffer,
}

impl Choice {
    pub fn new(world: &World<'_>, adversary: &MemberAdversary, rows: usize) -> Self {
        let (device, shape) = (world.device, &adversary.networks.shape);
        let look_ahead = adversary.look_ahead.is_some();
        Choice {
            seen: device.zeros(rows * shape.inputs()),
            values: device.zeros(shape.members * rows * shape.outputs()),
            ahead: look_ahead.then(|| LookAhead::new(world, &adversary.networks, rows)),
        }
    }

    /// Chooses a member for every row.
    pub fn choose(
        &mut self,
        world: &World<'_>,
        chooser: Chooser<'_>,
        now: &Now<'_>,
        (stream, time): (Stream, &Counter),
        members: &mut Buffer<u32>,
    ) {
        let World { device, model, .. } = *world;
        let MemberAdversary { networks, look_ahead } = chooser.adversary;
        let values = match (&mut self.ahead, look_ahead) {
            (Some(ahead), Some(reward_scale)) => ahead.score(world, networks, *reward_scale, now),
            _ => {
                value(device, networks, now.inputs, now.elapsed, &mut self.seen, &mut self.values);
                &self.values
            }
        };
        let exploration = stream.child("exploration");
        device.choose(values, model.members(), chooser.exploration, exploration, time, members);
    }
}

impl LookAhead {
    fn new(world: &World<'_>, networks: &Ensemble, rows: usize) -> Self {
        let World { device, model, .. } = *world;
        let (ds, da, members) = (model.state_dim(), model.action_dim(), model.members());
        let room = |width: usize| device.zeros(members * rows * width);
        LookAhead {
            observed: world.observation_buffers(members * rows),
            states: room(ds),
            actions: room(da),
            next: room(ds),
            next_actions: room(da),
            inputs: room(model.input_dim()),
            elapsed: room(1),
            seen: room(networks.shape.inputs()),
            values: room(networks.shape.members * networks.shape.outputs()),
            rewards: room(1),
            ended: room(1),
            returns: room(1),
            running: device.zeros(members * rows),
            status: device.zeros(members * rows),
            noise: device.zeros(rows * ds),
            scores: room(1),
        }
    }

    /// What each member is worth by where it leads, see [`MemberAdversary::look_ahead`].
    fn score(
        &mut self,
        world: &World<'_>,
        networks: &Ensemble,
        reward_scale: f32,
        now: &Now<'_>,
    ) -> &Buffer {
        let World { device, model, .. } = *world;
        let (states, actions) = (now.states.len(), now.actions.len());
        for member in 0..model.members() {
            device.copy_part(now.states, 0, &mut self.states, member * states, states);
            device.copy_part(now.actions, 0, &mut self.actions, member * actions, actions);
        }
        let step = Step::Own { noise: &self.noise };
        world.propagate(&step, now.outputs, &self.states, &mut self.observed, &mut self.next);
        device.evaluate(&world.reward, &self.states, &self.actions, &self.next, &mut self.rewards);
        let ended = world.termination.as_ref().map(|termination| {
            device.evaluate(termination, &self.states, &self.actions, &self.next, &mut self.ended);
            &self.ended
        });
        // What leaves the range of the logs ends there, and gets all that follows at once.
        let exit = Some(world.exit(&world.remaining));
        device.copy(&self.running, &mut self.status);
        device.fill(&mut self.returns, 0.0);
        device.end_step(
            (&world.discounts, now.time),
            &Outcome { next: &self.next, ended, exit },
            &mut self.rewards,
            &mut self.states,
            &mut self.returns,
            &mut self.status,
        );

        world.act(&self.next, &mut self.observed, None, &mut self.next_actions);
        world.inputs(&self.next, &self.next_actions, &mut self.observed, &mut self.inputs);
        device.fill_at(&world.next_fractions, now.time, &mut self.elapsed);
        let LookAhead { inputs, elapsed, seen, values, .. } = self;
        value(device, networks, inputs, elapsed, seen, values);
        device.look_ahead(
            reward_scale,
            (&world.next_discounts, now.time),
            (&self.rewards, &self.status),
            &self.values,
            model.members(),
            &mut self.scores,
        );
        &self.scores
    }
}

/// values `[networks, rows, members]` ← Q(s, a, t / T)
fn value(
    device: &Device,
    networks: &Ensemble,
    inputs: &Buffer,
    elapsed: &Buffer,
    seen: &mut Buffer,
    values: &mut Buffer,
) {
    let rows = elapsed.len();
    device.join([(inputs, inputs.len() / rows), (elapsed, 1)], seen);
    networks.infer(device, Input::Shared(seen), rows, values);
}
