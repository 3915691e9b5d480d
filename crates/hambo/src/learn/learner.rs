//! The learning itself: rounds of short rollouts against the adversary, and gradient steps of both.

use super::actor::{Actor, Units};
use super::config::LearnConfig;
use super::curve::{Checkpoint, CurvePoint};
use super::memory::Memory;
use super::opponent::Opponent;
use crate::evaluate::Problem;
use crate::policy::Policy;
use crate::rollout::{Propagation, Returns, Rollout, Setting, World};
use crate::run::Run;
use crate::run::checkpoint::{Arrays, restore_parts, store_parts};
use crate::{Error, Result};
use hambo_engine::backend::Buffer;
use hambo_engine::rng::Stream;

/// What unfinished work goes by.
const NAME: &str = "learning";

/// Policy and adversary between two rounds.
pub(super) struct Learner<'a, O: Opponent> {
    problem: &'a Problem<'a>,
    config: &'a LearnConfig,
    worst_reward: f32,
    /// 1 / deviation of the logged rewards, `[1]`, and −1 / that for the adversary.
    scales: [Buffer; 2],
    units: [[Buffer; 2]; 2],
    actor: Actor,
    opponent: O,
    memory: Memory<O::Choice>,
    /// Rollouts of a round: a multiple of the model's folds.
    starts: usize,
    rounds: usize,
    /// Updates of the policy, and of the adversary.
    updates: [u32; 2],
    /// Share of rollouts that left the range of the logs, summed over the rounds since the last checkpoint, and their number.
    left: [f64; 2],
    points: Vec<CurvePoint>,
    /// The actors at the checkpoints.
    kept: Vec<Vec<f32>>,
    stream: Stream,
}

impl<'a, O: Opponent> Learner<'a, O> {
    /// `reward_scale` is 1 / deviation of the logged rewards.
    pub fn new(
        problem: &'a Problem<'a>,
        config: &'a LearnConfig,
        opponent: O,
        reward_scale: f32,
        stream: Stream,
    ) -> Result<Self> {
        let Problem { device, data, model, task, .. } = *problem;
        let units = Units::of(task, data)?;
        let starts = config.starts.next_multiple_of(model.folds());
        let widths = [units.widths(), O::widths(model)];
        Ok(Learner {
            problem,
            config,
            worst_reward: task.lowest_reward(data)?,
            scales: [reward_scale, -reward_scale].map(|scale| device.upload(&[scale])),
            units: units.buffers(device),
            memory: Memory::new(device, widths, (config, starts), &units.logged(task, data)?)?,
            actor: Actor::new(device, units, config, stream.child("policy"))?,
            opponent,
            starts,
            rounds: 0,
            updates: [0; 2],
            left: [0.0; 2],
            points: Vec::new(),
            kept: Vec::new(),
            stream,
        })
    }

    /// Round after round to the end, going on where an interrupted run was. `keep` is told all checkpoints at every new one.
    pub fn learn(
        &mut self,
        run: &Run<'_>,
        keep: &mut (dyn FnMut(&[Checkpoint]) -> Result<()> + Send),
    ) -> Result<Vec<Checkpoint>> {
        if let Some(saved) = run.load(NAME)? {
            saved.read(|arrays| self.restore(arrays))?;
        }
        let (rounds, mut note) = (self.config.rounds(), String::new());
        while self.rounds < rounds {
            let round = self.stream.child("round").index(self.rounds as u64);
            let left = self.roll_out(round)?;
            self.left = [self.left[0] + left, self.left[1] + 1.0];
            self.improve(self.config.updates_of(self.rounds));
            self.rounds += 1;
            if self.config.is_due(self.rounds) {
                let point = self.measure()?;
                note = format!(
                    "in the model {:.1}, adversary takes {:.1}, {:.1} % left the data",
                    point.value,
                    point.gain,
                    100.0 * point.left
                );
                run.figures("learning", point.step, &point.figures());
                self.points.push(point);
                self.kept.push(self.actor.params(self.problem.device)?);
                keep(&self.checkpoints()?)?;
            }
            run.report("learning", self.updates[0] as usize, self.config.steps, &note);
            run.save(NAME, || self.store())?;
        }
        self.checkpoints()
    }

    /// Short rollouts from logged states, in which the policy and the adversary try things out; the share that left the range
    /// of the logs.
    fn roll_out(&mut self, stream: Stream) -> Result<f64> {
        let Problem { device, data, model, .. } = *self.problem;
        let mut generator = stream.child("starts").generator();
        let mut anywhere = || data.state(generator.below(data.len()));
        let starts: Vec<f32> = (0..self.starts).flat_map(|_| anywhere().iter().copied()).collect();
        let policy =
            self.actor.policy(device, &self.actor.params(device)?, "learning")?.sampling()?;
        let steps = self.config.rollout_steps;
        let horizon = self.problem.config.horizon.max(steps);
        let setting = self.setting(&policy, horizon, self.config.discount);
        let world = World::new(device, model, setting).timeless().far_from_the_end();

        let n = self.starts;
        let (mut seen, nothing) = (device.zeros(n * data.state_dim()), device.zeros(0));
        let mut observations = device.zeros(n * data.state_dim());
        let mut actions = device.zeros(n * data.action_dim());
        let mut statuses: Buffer<u32> = device.zeros((steps + 2) * n);
        let [[mean, std], [middle, half]] = &self.units;
        let firsts = [self.memory.first_of_policy(), self.memory.first()];
        let Memory { policy: of_policy, adversary: of_adversary, .. } = &mut self.memory;
        self.opponent.trying(device, |propagation| {
            let mut rollout = Rollout::new(&world, propagation, &starts);
            let widths = [data.state_dim(), data.action_dim()];
            // One step more than are learned from: it says what follows the last one.
            world.repeat(steps + 1, || {
                world.observe(&rollout.states, &mut seen);
                device.standardize((&seen, widths[0]), (&nothing, 0), mean, std, &mut observations);
                rollout.step(stream.child("rollouts")); // the time is now that after the step
                let taken = (&rollout.actions, widths[1]);
                device.standardize((&nothing, 0), taken, middle, half, &mut actions);
                let (time, rewards) = (&rollout.time, &rollout.rewards);
                let of = [&observations, &nothing, rewards];
                of_policy.store_at(device, firsts[0], time, of, &actions);
                let of = [&rollout.inputs, &rollout.elapsed, rewards];
                of_adversary.store_at(device, firsts[1], time, of, O::choices(&rollout));
                device.store_at(&rollout.status, time, 0, 0, &mut statuses);
            });
        });
        let statuses = device.download(&statuses)?;
        Ok(self.memory.remember(device, &statuses, stream.child("real")))
    }

    /// Gradient steps: the adversary's, then the policy's.
    fn improve(&mut self, updates: usize) {
        let device = &self.problem.device.fast();
        let streams = ["policy updates", "adversary updates"].map(|name| self.stream.child(name));
        let plays = !self.opponent.is_idle() && !self.memory.adversary.is_empty();
        let Learner { actor, opponent, memory, scales, .. } = self;
        device.repeat(updates, || {
            if plays {
                opponent.update(device, &mut memory.adversary, &scales[1], streams[1]);
            }
            actor.sac.draw(device, &mut memory.policy, &scales[0], streams[0]);
            actor.sac.update(device);
        });
        self.updates[0] += updates as u32;
        self.updates[1] += if plays { updates as u32 } else { 0 };
    }

    /// The policy without its noise in the model, without and with the adversary.
    fn measure(&mut self) -> Result<CurvePoint> {
        let Problem { device, data, model, task, config, .. } = *self.problem;
        let step = self.updates[0] as usize;
        let losses = self.actor.sac.losses(device)?;
        if !(losses.critics.is_finite() && losses.actor.is_finite()) {
            return Err(Error::Numeric(format!(
                "the losses are no longer finite after {step} steps: lower policy_rate, critic_rate and adversary_rate in \
                 --learn-config"
            )));
        }
        let policy = self.actor.policy(device, &self.actor.params(device)?, "learning")?;
        let stream = self.stream.child("measure");
        let n = self.config.measured.next_multiple_of(model.folds());
        let starts = task.initial.sample(n, data, stream.child("initial states"))?;
        let setting = self.setting(&policy, config.horizon, config.discount);
        let world = World::new(device, model, setting).timeless();
        let follow = |propagation: Propagation<'_>| {
            let mut rollout = Rollout::new(&world, propagation, &starts);
            world.repeat(config.horizon, || rollout.step(stream));
            rollout.returns(device)
        };
        let (neutral, worst) =
            (follow(Propagation::Moments)?, self.opponent.at_its_best(device, follow)?);
        let [value, under_it] = [mean(&neutral), mean(&worst)];
        let [left, rounds] = std::mem::take(&mut self.left);
        Ok(CurvePoint {
            step,
            value,
            worst: under_it,
            gain: value - under_it,
            left: worst.left_count() as f64 / n as f64,
            left_learning: left / rounds,
            critic_loss: losses.critics,
            entropy: losses.entropy,
            temperature: device.download(&self.actor.sac.log_temperature)?[0].exp().into(),
        })
    }

    fn setting<'p>(&self, policy: &'p Policy, horizon: usize, discount: f64) -> Setting<'p>
    where
        'a: 'p,
    {
        let (task, worst_reward) = (self.problem.task, self.worst_reward);
        Setting { task, policy, horizon, discount, worst_reward, tail: None }
    }

    /// The policies that were kept so far.
    fn checkpoints(&self) -> Result<Vec<Checkpoint>> {
        let policy = |(point, params): (&CurvePoint, &Vec<f32>)| {
            let name = format!("step-{}", point.step);
            let policy = self.actor.policy(self.problem.device, params, &name)?;
            Ok(Checkpoint { point: *point, policy })
        };
        self.points.iter().zip(&self.kept).map(policy).collect()
    }

    /// All that the next round builds on.
    fn store(&mut self) -> Result<Arrays> {
        let device = self.problem.device;
        let (mut arrays, mut policy) = (Arrays::default(), Arrays::default());
        store_parts(device, self.actor.sac.parts(), &mut policy)?;
        arrays.put_part("policy", policy);
        arrays.put_part("adversary", self.opponent.store(device)?);
        arrays.put_part("memory", self.memory.store(device)?);
        arrays.put("counts", &[self.rounds as u32, self.updates[0], self.updates[1]]);
        arrays.put("left", &self.left);
        let points: Vec<f64> = self.points.iter().flat_map(|p| p.numbers()).collect();
        arrays.put("points", &points);
        arrays.put("kept", &self.kept.concat());
        Ok(arrays)
    }

    /// Goes on from what was stored, which is not trusted.
    fn restore(&mut self, arrays: &Arrays) -> std::result::Result<(), String> {
        let device = self.problem.device;
        let counts: Vec<u32> = arrays.get_exactly("counts", 3)?;
        if counts[0] as usize > self.config.rounds() {
            return Err(format!("{} rounds of {}", counts[0], self.config.rounds()));
        }
        restore_parts(device, self.actor.sac.parts(), &arrays.part("policy"))?;
        self.actor.sac.set_updates(device, counts[1]);
        self.opponent.restore(device, &arrays.part("adversary"), counts[2])?;
        self.memory.restore(device, &arrays.part("memory"))?;
        (self.rounds, self.updates) = (counts[0] as usize, [counts[1], counts[2]]);
        let left: Vec<f64> = arrays.get_exactly("left", 2)?;
        self.left = [left[0], left[1]];
        let points: Vec<f64> = arrays.get("points")?;
        self.points = points.chunks(CurvePoint::WIDTH).map_while(CurvePoint::of).collect();
        let size = self.actor.sac.actor.params.len();
        let kept: Vec<f32> = arrays.get_exactly("kept", self.points.len() * size)?;
        self.kept = kept.chunks_exact(size).map(<[f32]>::to_vec).collect();
        Ok(())
    }
}

/// Mean return; −∞ where one left the finite numbers.
fn mean(returns: &Returns) -> f64 {
    returns.values.iter().map(|&r| f64::from(r)).sum::<f64>() / returns.values.len() as f64
}
