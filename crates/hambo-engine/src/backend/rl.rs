//! Kernels of reinforcement learning: squashed Gaussian actions, choices among a few, temporal differences,
//! moving targets.

use crate::backend::{Buffer, Counter, Device, check};
use crate::rng::Stream;

/// Range to which an actor's log standard deviations are limited.
pub const LOG_STD: [f32; 2] = [-20.0, 2.0];

/// What [`Device::squash`] drew.
#[derive(Debug)]
pub struct SquashedActions<'a, F: ?Sized = Buffer> {
    /// Number of actions.
    pub rows: usize,
    /// The actor's outputs `[rows, 2·action]`.
    pub output: &'a F,
    /// Standard normal numbers `[rows, action]`.
    pub noise: &'a F,
    /// What came out, `[rows, width]`: the last columns are the actions.
    pub joined: &'a F,
}

impl<'a> SquashedActions<'a> {
    fn map<F: ?Sized>(&self, place: impl Fn(&'a Buffer) -> &'a F) -> SquashedActions<'a, F> {
        let [output, noise, joined] = [self.output, self.noise, self.joined].map(place);
        SquashedActions { rows: self.rows, output, noise, joined }
    }
}

/// What SAC's critics should have said, `[rows]`: y = r + γ · continues · (minₖ Qₖ(s', a') − α ln π(a')).
#[derive(Debug)]
pub struct TdTarget<'a, F: ?Sized = Buffer> {
    /// γ
    pub discount: f32,
    /// r, `[rows]`.
    pub rewards: &'a F,
    /// 0 after a terminal state, else 1, `[rows]`.
    pub continues: &'a F,
    /// The target critics' Qₖ(s', a'), `[critics, rows]`.
    pub values: &'a F,
    /// ln π(a'), `[rows]`.
    pub log_probs: &'a F,
    /// ln α, `[1]`.
    pub log_temperature: &'a F,
}

impl<'a> TdTarget<'a> {
    fn map<F: ?Sized>(&self, place: impl Fn(&'a Buffer) -> &'a F) -> TdTarget<'a, F> {
        TdTarget {
            discount: self.discount,
            rewards: place(self.rewards),
            continues: place(self.continues),
            values: place(self.values),
            log_probs: place(self.log_probs),
            log_temperature: place(self.log_temperature),
        }
    }
}

impl Device {
    /// Draws from a Gaussian squashed by tanh. Of the actor's `output` `[rows, 2·action]` the first half are
    /// the means μ, the second half ln σ, limited to \[−20, 2\]; with standard normal `noise` ε `[rows, action]`
    ///
    /// u = μ + σ ε, action = tanh u, ln π = Σ −½ ε² − ln σ − ½ ln 2π − ln(1 − tanh² u).
    ///
    /// Into `joined` go the actions, after the columns of up to two matrices that critics see besides them.
    pub fn squash<const N: usize>(
        &self,
        output: &Buffer,
        noise: &Buffer,
        before: [(&Buffer, usize); N],
        joined: &mut Buffer,
        log_probs: &mut Buffer,
    ) {
        let seen: usize = before.iter().map(|(_, width)| width).sum();
        check("actor's outputs", output.len(), 2 * noise.len());
        check(
            "actions and what stands before them",
            joined.len(),
            log_probs.len() * seen + noise.len(),
        );
        match self {
            Device::Cpu(cpu) => cpu.pool.squash(
                output.cpu(),
                noise.cpu(),
                before.map(|(data, width)| (data.cpu(), width)),
                joined.cpu_mut(),
                log_probs.cpu_mut(),
            ),
            Device::Cuda(gpu) => gpu.cuda.squash(
                output.gpu(),
                noise.gpu(),
                &before.map(|(data, width)| (data.gpu(), width)),
                joined.gpu(),
                log_probs.gpu(),
            ),
        }
    }

    /// Back through [`Device::squash`]: dL/d(output) of L = f(actions) + α · mean ln π, where α is e to the
    /// power of `log_temperature` `[1]`, and df/d(actions) is the sum over critics of the last columns of `d_joined`
    /// `[critics, rows, width]`.
    pub fn squash_gradient(
        &self,
        drawn: &SquashedActions<'_>,
        d_joined: &Buffer,
        log_temperature: &Buffer,
        d_output: &mut Buffer,
    ) {
        check("actor's outputs", drawn.output.len(), 2 * drawn.noise.len());
        check("gradient of the actor's outputs", d_output.len(), drawn.output.len());
        match self {
            Device::Cpu(cpu) => {
                let (drawn, temperature) = (drawn.map(Buffer::cpu), log_temperature.cpu()[0].exp());
                cpu.pool.squash_gradient(&drawn, d_joined.cpu(), temperature, d_output.cpu_mut());
            }
            Device::Cuda(gpu) => {
                let (drawn, log_temperature) = (drawn.map(Buffer::gpu), log_temperature.gpu());
                gpu.cuda.squash_gradient(&drawn, d_joined.gpu(), log_temperature, d_output.gpu());
            }
        }
    }

    /// targets ← y of every row.
    pub fn td_target(&self, of: &TdTarget<'_>, targets: &mut Buffer) {
        check("rewards", of.rewards.len(), targets.len());
        check("log probabilities", of.log_probs.len(), targets.len());
        match self {
            Device::Cpu(cpu) => cpu.pool.td_target(&of.map(Buffer::cpu), targets.cpu_mut()),
            Device::Cuda(gpu) => gpu.cuda.td_target(&of.map(Buffer::gpu), targets.gpu()),
        }
    }

    /// Mean squared error of each critic's `values` `[critics, rows]` into `losses` `[critics]`, and its
    /// gradient 2 (Q − y) / rows.
    pub fn squared_error(
        &self,
        values: &Buffer,
        targets: &Buffer,
        d_values: &mut Buffer,
        losses: &mut Buffer<f64>,
    ) {
        check("values", values.len(), losses.len() * targets.len());
        check("gradient of values", d_values.len(), values.len());
        match self {
            Device::Cpu(cpu) => cpu.pool.squared_error(
                values.cpu(),
                targets.cpu(),
                d_values.cpu_mut(),
                losses.cpu_mut(),
            ),
            Device::Cuda(gpu) => {
                gpu.cuda.squared_error(values.gpu(), targets.gpu(), d_values.gpu(), losses.gpu())
            }
        }
    }

    /// The actor's loss, mean (α ln π − minₖ Qₖ), and the mean ln π into `losses` `[2]`; the gradient by the
    /// values, −1 / rows at the lowest of each row and 0 elsewhere, into `d_values` `[critics, rows]`.
    pub fn actor_loss(
        &self,
        values: &Buffer,
        log_probs: &Buffer,
        log_temperature: &Buffer,
        d_values: &mut Buffer,
        losses: &mut Buffer<f64>,
    ) {
        check("gradient of values", d_values.len(), values.len());
        check("actor's losses", losses.len(), 2);
        match self {
            Device::Cpu(cpu) => {
                let temperature = log_temperature.cpu()[0].exp();
                cpu.pool.actor_loss(
                    values.cpu(),
                    log_probs.cpu(),
                    temperature,
                    d_values.cpu_mut(),
                    losses.cpu_mut(),
                );
            }
            Device::Cuda(gpu) => {
                let temperature = log_temperature.gpu();
                gpu.cuda.actor_loss(
                    values.gpu(),
                    log_probs.gpu(),
                    temperature,
                    d_values.gpu(),
                    losses.gpu(),
                );
            }
        }
    }

    /// Gradient by ln α of the temperature's loss −α (mean ln π + target entropy); `losses` are those of
    /// [`Device::actor_loss`].
    pub fn temperature_gradient(
        &self,
        target_entropy: f32,
        losses: &Buffer<f64>,
        log_temperature: &Buffer,
        gradient: &mut Buffer,
    ) {
        match self {
            Device::Cpu(_) => {
                let temperature = log_temperature.cpu()[0].exp();
                gradient.cpu_mut()[0] = -temperature * (losses.cpu()[1] as f32 + target_entropy);
            }
            Device::Cuda(gpu) => {
                gpu.cuda.temperature_gradient(
                    target_entropy,
                    losses.gpu(),
                    log_temperature.gpu(),
                    gradient.gpu(),
                );
            }
        }
    }

    /// One of the choices for every row, ε-greedy: the one of the highest sum of the networks' `values`
    /// `[networks, rows, choices]`, the first of equals; with probability `epsilon` any, a function of
    /// (stream, counter) alone.
    pub fn choose(
        &self,
        values: &Buffer,
        options: usize,
        epsilon: f32,
        stream: Stream,
        step: &Counter,
        choices: &mut Buffer<u32>,
    ) {
        let rows = choices.len();
        check("values of choices", values.len() % (rows * options), 0);
        match self {
            Device::Cpu(cpu) => cpu.pool.choose(
                values.cpu(),
                options,
                epsilon,
                stream.key(),
                step.0.cpu()[0],
                choices.cpu_mut(),
            ),
            Device::Cuda(gpu) => gpu.cuda.choose(
                values.gpu(),
                options,
                epsilon,
                stream.key(),
                step.0.gpu(),
                choices.gpu(),
            ),
        }
    }

    /// What each choice is worth by where it leads, scores `[rows, choices]`:
    ///
    /// scale · r + discounts\[step\] · maxⱼ Q(next, j), the latter for those that still run, with the mean Q of the networks'
    /// `values` `[networks, choices, rows, choices]`, and `rewards` and [`Status`](super::Status) `[choices, rows]`.
    pub fn look_ahead(
        &self,
        scale: f32,
        (discounts, step): (&Buffer, &Counter),
        (rewards, status): (&Buffer, &Buffer<u32>),
        values: &Buffer,
        options: usize,
        scores: &mut Buffer,
    ) {
        check("rewards", rewards.len(), scores.len());
        check("status", status.len(), scores.len());
        check("values of choices", values.len() % (scores.len() * options), 0);
        match self {
            Device::Cpu(cpu) => {
                let steps = (rewards.cpu(), status.cpu());
                let discount = discounts.cpu()[step.0.cpu()[0] as usize];
                cpu.pool.look_ahead(
                    (scale, discount),
                    steps,
                    values.cpu(),
                    options,
                    scores.cpu_mut(),
                );
            }
            Device::Cuda(gpu) => {
                let steps = [rewards.gpu(), status.gpu()];
                let discount = (discounts.gpu(), step.0.gpu());
                gpu.cuda.look_ahead(scale, discount, steps, values.gpu(), options, scores.gpu());
            }
        }
    }

    /// What networks should have said, `[rows]`, by clipped double Q-learning:
    /// y = r + γ · continues · minⱼ Q'ⱼ(s', a*), a* = argmaxₐ Q₁(s', a), from the `online` and the `target`
    /// networks' values `[networks, rows, choices]` of what came next.
    pub fn double_q_target(
        &self,
        discount: f32,
        rewards: &Buffer,
        continues: &Buffer,
        [online, target]: [&Buffer; 2],
        options: usize,
        targets: &mut Buffer,
    ) {
        check("rewards", rewards.len(), targets.len());
        check("target values", target.len(), online.len());
        check("values of choices", target.len() % (targets.len() * options), 0);
        match self {
            Device::Cpu(cpu) => {
                let steps = [rewards.cpu(), continues.cpu()];
                cpu.pool.double_q_target(
                    discount,
                    steps,
                    [online.cpu(), target.cpu()],
                    options,
                    targets.cpu_mut(),
                );
            }
            Device::Cuda(gpu) => {
                let steps = [rewards.gpu(), continues.gpu()];
                gpu.cuda.double_q_target(
                    discount,
                    steps,
                    [online.gpu(), target.gpu()],
                    options,
                    targets.gpu(),
                );
            }
        }
    }

    /// Mean squared error of each network's value of what was chosen into `losses` `[networks]`, and its
    /// gradient by all `values` `[networks, rows, choices]`: 2 (Q − y) / rows at the choice, 0 elsewhere.
    pub fn choice_error(
        &self,
        values: &Buffer,
        choices: &Buffer<u32>,
        targets: &Buffer,
        d_values: &mut Buffer,
        losses: &mut Buffer<f64>,
    ) {
        check("choices", choices.len(), targets.len());
        check("gradient of values", d_values.len(), values.len());
        match self {
            Device::Cpu(cpu) => {
                let (values, choices, targets) = (values.cpu(), choices.cpu(), targets.cpu());
                cpu.pool.choice_error(
                    values,
                    choices,
                    targets,
                    d_values.cpu_mut(),
                    losses.cpu_mut(),
                );
            }
            Device::Cuda(gpu) => {
                let (values, choices, targets) = (values.gpu(), choices.gpu(), targets.gpu());
                gpu.cuda.choice_error(values, choices, targets, d_values.gpu(), losses.gpu());
            }
        }
    }

    /// target ← target + rate · (params − target)
    pub fn polyak(&self, rate: f32, params: &Buffer, target: &mut Buffer) {
        check("target parameters", target.len(), params.len());
        match self {
            Device::Cpu(cpu) => cpu.pool.polyak(rate, params.cpu(), target.cpu_mut()),
            Device::Cuda(gpu) => gpu.cuda.polyak(rate, params.gpu(), target.gpu()),
        }
    }

    /// out `[rows, Σ widths]` ← the columns of several matrices side by side.
    pub fn join<const N: usize>(&self, parts: [(&Buffer, usize); N], out: &mut Buffer) {
        match self {
            Device::Cpu(cpu) => {
                cpu.pool.join(parts.map(|(data, width)| (data.cpu(), width)), out.cpu_mut())
            }
            Device::Cuda(gpu) => {
                gpu.cuda.join(&parts.map(|(data, width)| (data.gpu(), width)), out.gpu())
            }
        }
    }
}
