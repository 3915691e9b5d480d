//! Every kernel of a device against the CPU's, on random numbers and odd sizes.

use crate::Result;
use crate::compute::{
    Activation, Adam, Buffer, Device, Gaussian, Input, Kernel, Power, Shape, Shift, Step, Svgd, Travel, Way,
};
use crate::dynamics::minibatches::Minibatches;
use crate::expression::{Program, Scope};
use crate::nn::{Ensemble, Optimiser, Trace};
use crate::rng::{Generator, Stream};

/// How far a device is from the CPU in one kind of work.
#[derive(Clone, Debug)]
pub struct Check {
    /// The kernel and its sizes.
    pub name: String,
    /// The difference: of single numbers, the largest, relative to 1 + the largest number of the result; in fast
    /// arithmetic, where units at the tip of a ReLU may turn over, of all numbers together in the mean square.
    pub worst: f64,
    /// What it may be.
    pub tolerance: f64,
}

impl Check {
    /// Whether the device computes what the CPU computes.
    pub fn passed(&self) -> bool {
        self.worst <= self.tolerance
    }
}

/// Runs all checks of `device`, hands each to `report`, and tells whether all passed.
pub fn selftest(device: &Device, mut report: impl FnMut(&Check)) -> Result<bool> {
    let cpu = Device::cpu(None)?;
    let mut all = true;
    let mut compare = |name: String, tolerance: f64, work: &dyn Fn(&Device) -> Vec<Vec<f64>>| -> Result<()> {
        let (expected, found) = (work(&cpu), work(device));
        device.check()?;
        let check = Check { name, worst: difference(&expected, &found), tolerance };
        all &= check.passed();
        report(&check);
        Ok(())
    };
    for case in NETWORKS {
        compare(format!("networks {case}"), 1e-4, &|d| case.run(d))?;
    }
    for (members, n) in [(1, 601), (2, 31), (5, 16_412), (7, 257), (9, 1000)] {
        for kernel in [Kernel::Rbf { length_scale: 10.0 }, Kernel::Median, Kernel::None] {
            compare(format!("SVGD of {members} × {n}, {kernel:?}"), 1e-4, &|d| svgd(d, members, n, kernel))?;
        }
    }
    for rows in [1, 31, 257] {
        for dims in [1, 3, 64] {
            compare(format!("trajectories of {rows} × {dims}"), 1e-4, &|d| trajectory(d, rows, dims))?;
            compare(format!("whole steps of {rows} × {dims}"), 1e-4, &|d| travels(d, rows, dims))?;
            compare(format!("values of {rows} × {dims}"), 1e-4, &|d| values(d, rows, dims))?;
        }
        compare(format!("expressions on {rows} rows"), 1e-4, &|d| expressions(d, rows))?;
        compare(format!("random numbers for {rows} rows"), 1e-4, &|d| random(d, rows))?;
    }
    for rows in [1, 257, 1000] {
        compare(format!("passes side by side on {rows} rows"), 1e-4, &|d| side_by_side(d, rows))?;
    }
    compare("a training of 1000 steps".to_owned(), 1e-2, &|d| training(d, SMALL, true))?;
    let tolerance = if matches!(device, Device::Cpu(_)) { 1e-2 } else { 0.1 };
    for case in NETWORKS {
        let worst = mean_difference(&case.run(&cpu), &case.run(&device.fast()));
        let check = Check { name: format!("networks {case}, fast"), worst, tolerance };
        all &= check.passed();
        report(&check);
    }
    for widths in [SMALL, PAPERS] {
        let fast = &device.fast();
        let first = training(fast, widths, true);
        for (name, there) in [("the same seed gives", true), ("rows that are sent when needed give", false)] {
            let again = training(fast, widths, there);
            let worst = if first == again { 0.0 } else { f64::INFINITY };
            let same = Check { name: format!("{name} the same bits, {widths:?}"), worst, tolerance: 0.0 };
            all &= same.passed();
            report(&same);
        }
    }
    device.check()?;
    Ok(all)
}

/// The largest difference, relative to 1 + the largest number; infinite where one of two is not finite.
fn difference(expected: &[Vec<f64>], found: &[Vec<f64>]) -> f64 {
    let mut worst = if expected.len() == found.len() { 0.0f64 } else { f64::INFINITY };
    for (expected, found) in expected.iter().zip(found) {
        if expected.len() != found.len() {
            return f64::INFINITY;
        }
        let largest = expected.iter().filter(|x| x.is_finite()).fold(0.0f64, |m, x| m.max(x.abs()));
        for (e, f) in expected.iter().zip(found) {
            let same = e == f || (e.is_nan() && f.is_nan());
            let apart = if same { 0.0 } else { (e - f).abs() / (1.0 + largest) };
            worst = worst.max(if apart.is_nan() { f64::INFINITY } else { apart });
        }
    }
    worst
}

/// The largest of ‖expected − found‖ / ‖expected‖.
fn mean_difference(expected: &[Vec<f64>], found: &[Vec<f64>]) -> f64 {
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>().sqrt();
    let each = expected.iter().zip(found).map(|(e, f)| {
        let apart = norm(&mut e.iter().zip(f).map(|(e, f)| e - f)) / norm(&mut e.iter().copied());
        if apart.is_nan() { f64::INFINITY } else { apart }
    });
    each.fold(0.0, f64::max)
}

fn numbers(seed: u64) -> impl FnMut(usize) -> Vec<f32> {
    let mut generator: Generator = Stream::new(seed).generator();
    move |n| (0..n).map(|_| generator.normal() as f32).collect()
}

fn all(device: &Device, buffers: &[&Buffer]) -> Vec<Vec<f64>> {
    buffers.iter().map(|b| device.download(b).iter().map(|&x| f64::from(x)).collect()).collect()
}

struct Networks {
    members: usize,
    rows: usize,
    widths: &'static [usize],
    hidden: Activation,
    output: Activation,
    shared: bool,
}

impl std::fmt::Display for Networks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Networks { members, rows, widths, hidden, output, .. } = self;
        write!(f, "{members} × {widths:?} ({hidden:?}, {output:?}) on {rows} rows")
    }
}

const fn networks(
    members: usize,
    rows: usize,
    widths: &'static [usize],
    [hidden, output]: [Activation; 2],
    shared: bool,
) -> Networks {
    Networks { members, rows, widths, hidden, output, shared }
}

const NETWORKS: &[Networks] = {
    use Activation::{Linear, Relu, Tanh};
    &[
        networks(1, 1, &[1, 1], [Relu, Linear], true),
        networks(5, 256, &[14, 256, 256, 256, 256, 22], [Relu, Linear], true),
        networks(2, 1024, &[25, 256, 256, 1], [Relu, Linear], true),
        networks(1, 257, &[11, 256, 256, 3], [Relu, Tanh], false),
        networks(3, 31, &[64, 64, 64], [Tanh, Linear], false),
        networks(7, 31, &[3, 17, 17, 64], [Relu, Tanh], true),
        networks(4, 257, &[17, 300, 5], [Tanh, Linear], false),
        networks(6, 1, &[2, 128, 128, 40], [Relu, Linear], true),
        networks(2, 4000, &[6, 64, 64, 2], [Tanh, Tanh], false), // so many that ReLU would turn over somewhere
    ]
};

impl Networks {
    fn run(&self, device: &Device) -> Vec<Vec<f64>> {
        let Networks { members, rows, widths, hidden, output, shared } = *self;
        let Ok(shape) = Shape::new(members, widths.to_vec(), hidden) else { return vec![] };
        let shape = Shape { output, ..shape };
        let mut draw = numbers(1);
        let ensemble = Ensemble::random(device, shape.clone(), Stream::new(2));
        let x = device.upload(&draw(if shared { 1 } else { members } * rows * shape.inputs()));
        let input = if shared { Input::Shared(&x) } else { Input::PerMember(&x) };
        let mut outputs = device.zeros(members * rows * shape.outputs());
        ensemble.infer(device, input, rows, &mut outputs);
        let mut bounded = device.zeros(outputs.len());
        let bounds = [0.0, 1.0].map(|side| {
            device.adopt((0..shape.outputs()).map(|c| 1.5 * side - 0.1 * c as f32).collect::<Vec<f32>>())
        });
        let within = ([&bounds[0], &bounds[1]], 0.8);
        device.infer_within(&shape, &ensemble.params, input, rows, within, &mut bounded);
        let mut trace = Trace::new(device, &shape, rows);
        ensemble.forward(device, input, &mut trace);
        let again = all(device, &[trace.output().0]);
        device.copy(&device.upload(&draw(outputs.len())), trace.output().1);
        let mut gradient = device.zeros(ensemble.params.len());
        let mut d_input = device.zeros(members * rows * shape.inputs());
        ensemble.backward(device, input, &mut trace, Some(&mut gradient), Some(&mut d_input));
        [again, all(device, &[&outputs, &bounded, &gradient, &d_input])].concat()
    }
}

fn svgd(device: &Device, members: usize, n: usize, kernel: Kernel) -> Vec<Vec<f64>> {
    let svgd = Svgd { kernel, prior_temperature: 0.1, likelihood_scale: 3.0 };
    let mut draw = numbers(3);
    let near = (10.0 / n as f32).sqrt(); // so near that all kernels act
    let start: Vec<f32> = draw(members * n).iter().map(|x| near * x).collect();
    let Ok(shape) = Shape::new(members, vec![n - 1, 1], Activation::Relu) else { return vec![] };
    let mut ensemble = Ensemble { shape, params: device.upload(&start) };
    let mut optimiser = Optimiser::new(device, Adam::cosine(0.01, 20), members * n);
    let mut direction = device.zeros(members * n);
    for _ in 0..3 {
        let gradient = device.upload(&draw(members * n));
        device.svgd_direction(&svgd, members, &ensemble.params, &gradient, &mut direction);
        optimiser.svgd_step(device, &svgd, &mut ensemble, &gradient);
        optimiser.step(device, &mut ensemble.params, &gradient);
    }
    let mut unclipped = draw(members * n);
    unclipped[n / 2] = f32::INFINITY; // the first member's
    let mut clipped = device.adopt(unclipped);
    device.clip_norm(members, 1.0, &mut clipped);
    all(device, &[&direction, &ensemble.params, &clipped])
}

/// Everything that a trajectory and the way back along it are made of.
fn trajectory(device: &Device, rows: usize, ds: usize) -> Vec<Vec<f64>> {
    const MEMBERS: usize = 5;
    let (mut draw, da, head) = (numbers(4), 2, Gaussian { dims: ds, floor: 1e-3 });
    let mut results = Vec::new();
    let output = device.upload(&draw(MEMBERS * rows * 2 * ds));
    let (states, actions) = (device.upload(&draw(rows * ds)), device.upload(&draw(rows * da)));
    let positive = |values: Vec<f32>| values.iter().map(|x| x.abs() + 0.1).collect::<Vec<f32>>();
    let (mean, std) = (device.upload(&draw(ds + da)), device.adopt(positive(draw(ds + da))));
    let (scale, offset) = (device.adopt(positive(draw(ds))), device.upload(&draw(ds)));
    let noise = device.upload(&draw(rows * ds));
    let amount = device.upload(&draw(rows * ds));
    let chosen = device.adopt((0..rows as u32).map(|r| r % MEMBERS as u32).collect());

    let mut inputs = device.zeros(rows * (ds + da));
    device.standardize((&states, ds), (&actions, da), &mean, &std, &mut inputs);
    let mut moments: [Buffer; 3] = std::array::from_fn(|_| device.zeros(rows * ds));
    let [m, e, a] = &mut moments;
    device.moments(&head, MEMBERS, &output, m, e, a);
    results.extend(all(device, &[&inputs, m, e, a]));

    let shifted = |power| Step::Shifted(Shift { amount: &amount, power, noise: &noise });
    let steps = [
        Step::Mean,
        Step::Moments { noise: &noise },
        Step::Chosen { members: &chosen, noise: &noise },
        shifted(Power::Deviation),
        shifted(Power::Variance),
    ];
    let mut next = device.zeros(rows * ds);
    for (step, relative) in steps.iter().zip([true, false, true, false, true]) {
        device.propagate(&head, MEMBERS, step, &output, (&scale, &offset), relative, &states, &mut next);
        results.extend(all(device, &[&next]));
    }
    let d_next = device.upload(&draw(rows * ds));
    let (mut d_output, mut d_amount) = (device.zeros(output.len()), device.zeros(rows * ds));
    for power in [Power::Deviation, Power::Variance] {
        let shift = Shift { amount: &amount, power, noise: &noise };
        device.shift_gradient(&head, MEMBERS, &shift, &output, &scale, &d_next, &mut d_output, &mut d_amount);
        results.extend(all(device, &[&d_output, &d_amount]));
    }
    let d_inputs = device.upload(&draw(MEMBERS * rows * (ds + da)));
    let (mut d_states, mut d_actions) = (device.upload(&draw(rows * ds)), device.upload(&draw(rows * da)));
    device.standardize_gradient(&d_inputs, &std, (&mut d_states, ds), (&mut d_actions, da));

    // Trajectories that go on, end, and leave the numbers.
    let mut rewards = draw(rows);
    rewards.iter_mut().step_by(7).for_each(|r| *r = f32::INFINITY);
    let mut bad = draw(rows * ds);
    bad.iter_mut().step_by(11).for_each(|r| *r = f32::NAN);
    let ended = device.adopt((0..rows).map(|r| f32::from(u8::from(r % 5 == 0))).collect());
    let (rewards, bad) = (device.adopt(rewards), device.adopt(bad));
    let mut current = device.upload(&draw(rows * ds));
    let (mut returns, mut status) = (device.zeros(rows), device.zeros(rows));
    let (discounts, mut step) = (device.upload(&[1.0, 0.9, 0.81]), device.counter());
    for next in [&bad, &next, &next] {
        let discount = (&discounts, &step);
        device.account(discount, &rewards, Some(&ended), &mut current, next, &mut returns, &mut status);
        device.advance(&mut step);
    }
    let mut running = device.upload(&draw(rows * ds));
    device.still_running(&status, &mut running);
    results.extend(all(device, &[&d_states, &d_actions, &current, &returns, &running]));

    // Policies.
    let (low, high) = (device.upload(&vec![-0.5; ds]), device.upload(&vec![0.7; ds]));
    let mut limited = device.upload(&draw(rows * ds));
    device.clamp(&low, &high, &mut limited);
    let mut slopes = device.upload(&draw(rows * ds));
    device.clamp_gradient(&low, &high, &limited, &mut slopes);
    let raw = device.upload(&draw(rows * ds));
    let mut squashed = device.upload(&device.download(&raw));
    device.squash_to_bounds(&low, &high, 1.5, &mut squashed);
    device.squash_to_bounds_gradient(&low, &high, 1.5, &raw, &mut slopes);
    let wide = |values: Vec<f32>| values.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>();
    let (mean64, std64) = (device.adopt(wide(draw(ds))), device.adopt(wide(positive(draw(ds)))));
    let mut normal = device.zeros(rows * ds);
    device.normalize(&raw, (&mean64, &std64), 2.0, &mut normal);
    device.normalize_gradient(&normal, &std64, 2.0, &raw, &mut slopes);
    device.scale_columns(&scale, &mut normal);
    device.add(&raw, &mut normal);
    results.extend(all(device, &[&limited, &squashed, &normal, &slopes]));

    let targets = device.upload(&draw(rows * ds));
    let mut losses: Buffer<f64> = device.zeros(MEMBERS);
    for weight in [0.0, 0.5] {
        device.gaussian_nll(&head, &output, &targets, Some((&mut d_output, weight)), &mut losses);
        results.extend(all(device, &[&d_output]));
    }
    results.push(device.download(&losses));
    results
}

/// What follows the networks in a step of trajectories, in every way that a step can be drawn, with and without angles
/// and an end, and with rows that leave the numbers.
fn travels(device: &Device, rows: usize, ds: usize) -> Vec<Vec<f64>> {
    const MEMBERS: usize = 5;
    let program = |texts: &[&str], scope| Program::parse(texts, ds, 2, scope);
    let angles: Vec<String> =
        (0..ds).map(|i| if i == 0 { "wrap(s[0])".to_owned() } else { format!("s[{i}]") }).collect();
    let angles: Vec<&str> = angles.iter().map(String::as_str).collect();
    let (Ok(reward), Ok(termination), Ok(settled)) = (
        program(&["s[0] * a[1] - n[0]^2 / (1 + abs(a[0]))"], Scope::REWARD),
        program(&["n[0] > 1.5 || a[1] > 2"], Scope::REWARD),
        program(&angles, Scope::CONTROLLER),
    ) else {
        return vec![vec![f64::INFINITY]];
    };
    let (mut draw, head) = (numbers(13), Gaussian { dims: ds, floor: 1e-3 });
    let mut outputs = draw(MEMBERS * rows * 2 * ds);
    outputs.iter_mut().skip(4 * ds).step_by(60 * ds).for_each(|x| *x = f32::NAN);
    let outputs = device.adopt(outputs);
    let own = device.upload(&draw(rows * 2 * ds));
    let [starts, shifts] = [0, 1].map(|_| draw(rows * ds));
    let actions = device.upload(&draw(rows * 2));
    let units = [device.adopt(draw(ds).iter().map(|x| x.abs()).collect()), device.upload(&draw(ds))];
    let reach = device.upload(&draw(ds));
    let chosen = device.adopt((0..rows as u32).map(|r| r % MEMBERS as u32).collect());
    let discounts = device.upload(&[1.0, 0.9, 0.81]);
    let mut results = Vec::new();
    for kind in 0..6 {
        let [mut states, mut amount] = [&starts, &shifts].map(|values| device.upload(values));
        let [mut next, mut room] = [0, 1].map(|_| device.zeros(rows * ds));
        let [mut rewards, mut ended, mut returns] = [0; 3].map(|_| device.zeros(rows));
        // Fewer rows of noise than trajectories, where that is allowed.
        let mut noise = device.zeros(if kind > 3 && rows.is_multiple_of(31) { 31 * ds } else { rows * ds });
        let (mut status, mut time) = (device.zeros(rows), device.counter());
        for _ in 0..3 {
            device.travel(Travel {
                head: &head,
                members: MEMBERS,
                outputs: if kind == 5 { &own } else { &outputs },
                way: match kind {
                    0 => Way::Mean,
                    1 => Way::Moments,
                    2 => Way::Chosen(&chosen),
                    3 => Way::Shifted { amount: &mut amount, reach: &reach, power: Power::Variance },
                    4 => Way::Shifted { amount: &mut amount, reach: &reach, power: Power::Deviation },
                    _ => Way::Own,
                },
                luck: Stream::new(14),
                noise: &mut noise,
                units: &units,
                relative: kind % 2 == 0,
                settled: (kind % 3 == 0).then_some((&settled, &mut room)),
                reward: &reward,
                termination: (kind != 1).then_some(&termination),
                discounts: &discounts,
                time: &mut time,
                states: &mut states,
                actions: &actions,
                next: &mut next,
                rewards: &mut rewards,
                ended: &mut ended,
                returns: &mut returns,
                status: &mut status,
            });
        }
        results.extend(all(device, &[&states, &next, &amount, &rewards, &returns]));
        results.push(device.download(&status).iter().map(|&s| f64::from(s)).collect());
    }
    results
}

/// Reinforcement learning.
fn values(device: &Device, rows: usize, dims: usize) -> Vec<Vec<f64>> {
    let mut draw = numbers(5);
    let mut results = Vec::new();
    let output = device.upload(&draw(rows * 2 * dims));
    let noise = device.upload(&draw(rows * dims));
    let (mut actions, mut log_probs) = (device.zeros(rows * dims), device.zeros(rows));
    device.squash(&output, &noise, [], &mut actions, &mut log_probs);
    let width = dims + 3;
    let (seen, context) = (device.upload(&draw(2 * rows)), device.upload(&draw(rows)));
    let mut inputs = device.zeros(rows * width);
    device.squash(&output, &noise, [(&seen, 2), (&context, 1)], &mut inputs, &mut log_probs);
    let d_inputs = device.upload(&draw(2 * rows * width));
    let log_temperature = device.upload(&[-0.7]);
    let mut d_output = device.zeros(output.len());
    device.squash_gradient(rows, &output, &noise, &inputs, &d_inputs, &log_temperature, &mut d_output);
    let (rewards, values) = (device.upload(&draw(rows)), device.upload(&draw(2 * rows)));
    let goes_on: Vec<f32> = (0..rows).map(|r| f32::from(u8::from(r % 3 > 0))).collect();
    let continues = device.upload(&goes_on);
    let mut targets = device.zeros(rows);
    device.td_target(0.9, &rewards, &continues, &values, &log_probs, &log_temperature, &mut targets);
    let (mut d_values, mut losses): (Buffer, Buffer<f64>) = (device.zeros(2 * rows), device.zeros(2));
    device.squared_error(&values, &targets, &mut d_values, &mut losses);
    results.push(device.download(&losses));
    results.extend(all(device, &[&actions, &inputs, &log_probs, &d_output, &targets, &d_values]));
    device.actor_loss(&values, &log_probs, &log_temperature, &mut d_values, &mut losses);
    let mut gradient = device.zeros(1);
    device.temperature_gradient(-1.5, &losses, &log_temperature, &mut gradient);
    results.push(device.download(&losses));
    results.extend(all(device, &[&d_values, &gradient]));

    // Choices among `dims`.
    let options = device.upload(&draw(2 * rows * dims));
    let (mut choices, mut step) = (device.zeros(rows), device.counter());
    device.advance(&mut step);
    device.choose(&options, dims, 0.3, Stream::new(6), &step, &mut choices);
    let mut y = device.zeros(rows);
    device.double_q_target(0.9, &rewards, &continues, [&options, &options], dims, &mut y);
    let mut d_options = device.zeros(options.len());
    device.choice_error(&options, &choices, &y, &mut d_options, &mut losses);
    let ahead = device.upload(&draw(2 * rows * dims * dims));
    let (rewards, ended) = (device.upload(&draw(rows * dims)), device.adopt(goes_on.repeat(dims)));
    let mut scores = device.zeros(rows * dims);
    let discounts = device.upload(&[1.0, 0.9]);
    device.look_ahead(-0.5, (&discounts, &step), [&rewards, &ended], &ahead, dims, &mut scores);
    let mut target = device.upload(&draw(rows * dims));
    device.polyak(0.1, &actions, &mut target);
    let mut joined = device.zeros(rows * (2 * dims + 1));
    device.join([(&actions, dims), (&y, 1), (&noise, dims)], &mut joined);
    results.push(device.download(&losses));
    results.push(device.download(&choices).iter().map(|&c| f64::from(c)).collect());
    results.extend(all(device, &[&y, &d_options, &scores, &target, &joined]));
    results
}

/// Every operation of the language, and its gradient.
fn expressions(device: &Device, rows: usize) -> Vec<Vec<f64>> {
    const TEXTS: [&str; 4] = [
        "sin(s[0]) + cos(s[1]) * tan(0.3*s[2]) - s[0]^3 / (1 + abs(s[1])) + exp(-n[0]^2)",
        "tanh(a[0]) + sigmoid(a[1]) + sqrt(abs(s[0])) + log(1 + s[1]^2) + wrap(3*s[2]) + floor(n[1])",
        "if(s[0] < s[1] && !(n[2] <= 0), min(s[0], a[0]), max(n[1], a[1])) + sign(s[2]) * atan2(s[0], s[1])",
        "asin(tanh(s[0])) + acos(tanh(s[1])) + atan(s[2]) + abs(n[0])^1.5 + (s[0] > 0 || a[0] == a[1])",
    ];
    let mut draw = numbers(7);
    let [states, next] = [0, 1].map(|_| device.upload(&draw(rows * 3)));
    let actions = device.upload(&draw(rows * 2));
    let mut results = Vec::new();
    for text in TEXTS {
        let Ok(program) = Program::parse(&[text], 3, 2, Scope::REWARD) else {
            results.push(vec![f64::INFINITY]);
            continue;
        };
        let mut out = device.zeros(rows);
        device.evaluate(&program, &states, &actions, &next, &mut out);
        let weights = device.upload(&draw(rows));
        let [mut ds, mut dn] = [0, 1].map(|_| device.zeros(rows * 3));
        let mut da = device.zeros(rows * 2);
        let gradients = [&mut ds, &mut da, &mut dn];
        device.evaluate_gradient(&program, [&states, &actions, &next], &weights, gradients);
        results.extend(all(device, &[&out, &ds, &da, &dn]));
    }
    results
}

fn random(device: &Device, rows: usize) -> Vec<Vec<f64>> {
    let mut step = device.counter();
    device.set(&mut step, 17);
    let mut normals = device.zeros(rows * 3);
    device.normals(Stream::new(8), &step, &mut normals);
    let mut indices = device.zeros(rows);
    device.uniform_indices(Stream::new(9), &step, rows, &mut indices);
    let mut gathered = device.zeros(rows * 3);
    device.gather(&normals, 3, &indices, &mut gathered);
    let mut results = all(device, &[&normals, &gathered]);
    results.push(device.download(&indices).iter().map(|&i| f64::from(i)).collect());
    results
}

const SMALL: &[usize] = &[2, 64, 64, 2];
const PAPERS: &[usize] = &[2, 256, 256, 256, 256, 2];

/// Passes in all orders in which a GPU's kernels may overtake each other: beside another one, after a kernel that changes
/// weights, after one that leaves them. What they say is what they see in the next round.
fn side_by_side(device: &Device, rows: usize) -> Vec<Vec<f64>> {
    const MEMBERS: usize = 5;
    const DIMS: usize = 3;
    const ROUNDS: usize = 24;
    let shape =
        |members, outputs| Shape::new(members, vec![3 * DIMS, 256, 256, 256, outputs], Activation::Relu);
    let (Ok(one), Ok(many)) = (shape(1, DIMS), shape(MEMBERS, 2 * DIMS)) else { return vec![] };
    let one = Ensemble::random(device, one, Stream::new(20));
    let [mut many, target] = [21, 22].map(|seed| Ensemble::random(device, many.clone(), Stream::new(seed)));
    let mut draw = numbers(23);
    let mut inputs = device.upload(&draw(rows * 3 * DIMS));
    let (offset, scale) = (device.upload(&draw(3 * DIMS)), device.upload(&[2.0; 3 * DIMS]));
    let room = |width| device.zeros::<f32>(rows * width);
    let (mut alone, mut joined, nothing) = (room(DIMS), room(3 * DIMS), room(0));
    let mut outputs = [(); 2].map(|()| room(MEMBERS * 2 * DIMS));
    let mut moments = [(); 2].map(|()| [(); 3].map(|()| room(DIMS)));
    let head = Gaussian { dims: DIMS, floor: 1e-2 };
    device.repeat(ROUNDS, || {
        let [before, after] = &mut outputs;
        let input = Input::Shared(&inputs);
        device.sparingly(|| one.infer(device, input, rows, &mut alone));
        device.beside(|| many.infer(device, input, rows, before));
        device.polyak(0.05, &target.params, &mut many.params);
        many.infer(device, input, rows, after);
        for (output, [mean, epistemic, aleatoric]) in outputs.iter().zip(&mut moments) {
            device.moments(&head, MEMBERS, output, mean, epistemic, aleatoric);
        }
        let [[before, ..], [after, ..]] = &moments;
        device.join([(&alone, DIMS), (before, DIMS), (after, DIMS)], &mut joined);
        device.standardize((&joined, 3 * DIMS), (&nothing, 0), &offset, &scale, &mut inputs);
    });
    let [[before, epistemic, _], [after, ..]] = &moments;
    all(device, &[&alone, before, epistemic, after, &inputs])
}

/// The loss along a training of a Bayesian network, recorded and replayed where the device can, with all rows on the
/// device or on the host.
fn training(device: &Device, widths: &[usize], there: bool) -> Vec<Vec<f64>> {
    const ROWS: usize = 2000;
    const BATCH: usize = 256;
    const PARTICLES: usize = 5;
    let Ok(shape) = Shape::new(PARTICLES, widths.to_vec(), Activation::Relu) else { return vec![] };
    let mut draw = numbers(10);
    let x = draw(ROWS * 2);
    let noise = draw(ROWS);
    let truth = |(row, e): (&[f32], &f32)| (2.0 * row[0]).sin() + 0.5 * row[1] + 0.1 * e;
    let y: Vec<f32> = x.chunks_exact(2).zip(&noise).map(truth).collect();
    let mut batches = Minibatches::keep(device, [x, y], [2, 1], BATCH, there);
    let (head, stream) = (Gaussian { dims: 1, floor: 1e-2 }, Stream::new(12));
    let svgd = Svgd { kernel: Kernel::Median, prior_temperature: 1e-4, likelihood_scale: 1.0 };
    let mut ensemble = Ensemble::random(device, shape.clone(), Stream::new(11));
    let mut optimiser = Optimiser::new(device, Adam::cosine(1e-3, 1000), ensemble.params.len());
    let mut trace = Trace::new(device, &shape, BATCH);
    let (mut gradient, mut losses) = (device.zeros(ensemble.params.len()), device.zeros(PARTICLES));
    let mut curve = Vec::new();
    for part in 0..10 {
        batches.prepare(device, stream, 100 * part, 100);
        device.repeat(100, || {
            batches.draw(device, stream, optimiser.counter());
            let [batch_x, batch_y] = &batches.now;
            let input = Input::Shared(batch_x);
            ensemble.forward(device, input, &mut trace);
            let (output, d_output) = trace.output();
            device.gaussian_nll(&head, output, batch_y, Some((d_output, 0.0)), &mut losses);
            ensemble.backward(device, input, &mut trace, Some(&mut gradient), None);
            optimiser.svgd_step(device, &svgd, &mut ensemble, &gradient);
        });
        curve.push(device.download(&losses));
    }
    curve
}
