//! Learned rewards: the adversary lowers what is paid as well as where the state goes, by a known amount.

use super::*;
use crate::adversary::{DqnConfig, search_members};
use crate::adversary::{FoundBy, search_shifts};
use crate::confidence::{Evidence, replay};
use crate::data::{Fold, Split};
use crate::rollout::{Propagation, rollout};
use crate::run::Run;

const PAID_SPREAD: f64 = 0.05;

/// Two members that disagree by ± 0.1 on where s goes and by ± 0.05 on what is paid, r = s₀ − 2 s₁.
fn paying(device: &Device, held_out: Split) -> Bnn {
    let shape = Shape::new(2, vec![4, 6], Activation::Relu).unwrap();
    let member = |sign: f64| {
        let mut params = vec![0.0; shape.parameters()]; // weights [4 inputs, 6 outputs], biases [6]
        for dim in 0..2 {
            params[(2 + dim) * 6 + dim] = 1.0; // the change is the action
            params[24 + dim] = (sign * SPREAD) as f32;
        }
        (params[2], params[6 + 2]) = (1.0, -2.0);
        params[24 + 2] = (sign * PAID_SPREAD) as f32;
        params[24 + 3..24 + 6].fill(-3.0);
        params
    };
    let params = [member(1.0), member(-1.0)].concat();
    let ensemble = Ensemble { params: device.adopt(shape.spread(&params)), shape: shape.clone() };
    Bnn::by_hand_with_reward(2, 2, ensemble, 1e-3).holding_out(held_out)
}

fn nothing_held_out() -> Split {
    Split { by_episode: true, ..Split::default() }
}

fn learned() -> Task {
    Task { reward: Program::parse(&["r"], 2, 2, Scope::REWARD).unwrap(), ..task() }
}

fn discounted(step: f64) -> f64 {
    (0..HORIZON).map(|t| DISCOUNT.powi(t as i32) * step).sum()
}

#[test]
fn the_worst_shift_is_found_in_the_reward_too() {
    let device = Device::cpu(Some(2)).unwrap();
    let (model, task) = (paying(&device, nothing_held_out()), learned());
    let policy = Policy::read(&format!("builtin:proportional,gain={GAIN}")).unwrap();
    let setting = setting(&task, &policy, HORIZON, DISCOUNT);
    let set = ConfidenceSet::new(&model, BETA).unwrap();
    assert_eq!(set.reach.len(), 3);
    let config = SearchConfig {
        hidden: vec![32, 32],
        restarts: 1,
        iterations: 150,
        learning_rate: 1e-2,
        tolerance: 1e-3,
        ..Default::default()
    };
    let report = device.run(|| {
        let world = World::new(&device, &model, setting);
        search_shifts(
            &world,
            &set,
            None,
            (&config, &no_data()),
            Stream::new(3),
            (&Run::default(), ""),
        )
        .unwrap()
        .1
    });
    // Where the state goes, as with a known reward, and β σ_e of the reward itself in every step.
    let worst = worst_fall() + discounted(BETA * PAID_SPREAD);
    let fall = report.neutral - report.lowest;
    assert!(
        fall >= 0.98 * worst && fall <= worst * (1.0 + 1e-4),
        "lowered by {fall}, the worst is {worst}"
    );
}

#[test]
fn members_carry_their_own_reward() {
    let device = Device::cpu(Some(2)).unwrap();
    let (model, task) = (paying(&device, nothing_held_out()), learned());
    let policy = Policy::read("builtin:proportional,gain=0").unwrap();
    let setting = setting(&task, &policy, 5, 1.0);
    // Without actions member ± goes ± 0.1 a step in both entries: r = −(± 0.1 t) ± 0.05 from the origin.
    let starts = vec![0.0; 2 * 4000];
    let returns = rollout(
        &device,
        &model,
        &setting,
        Propagation::EachMember,
        &starts,
        Stream::new(1),
        &Run::default(),
    )
    .unwrap();
    for (k, sign) in [1.0, -1.0].into_iter().enumerate() {
        let mean = crate::evaluate::mean_return(&returns.of_member(k, 2));
        let expected = sign * (5.0 * PAID_SPREAD - SPREAD * (1.0 + 2.0 + 3.0 + 4.0));
        assert!(
            (mean.value - expected).abs() < 4.0 * mean.std_error,
            "{} instead of {expected}",
            mean.value
        );
    }
    // Choosing anew in every step is worse than either: the state goes up, and the least is paid.
    let learning = LearningConfig {
        rounds: 4,
        episodes: 200,
        updates: 200,
        batch: 128,
        hidden: vec![32],
        ..Default::default()
    };
    let dqn = DqnConfig { learning, ..Default::default() };
    let config = SearchConfig { dqn, ..Default::default() };
    let report = device.run(|| {
        let world = World::new(&device, &model, setting);
        search_members(&world, &config, &no_data(), Stream::new(3), (&Run::default(), ""))
            .unwrap()
            .1
    });
    assert!(report.lowest <= report.lowest_of(FoundBy::Constant), "{report:?}");
}

/// Held-out episodes that pay 0.02 less than the model says need β σ_e = 0.02 in the reward, where the state is sure.
#[test]
fn the_size_of_the_set_covers_the_reward() {
    let device = Device::cpu(Some(2)).unwrap();
    let (episodes, length) = (40, 20);
    let n = episodes * length;
    let mut c = Columns { state_dim: 2, action_dim: 2, ..Default::default() };
    for i in 0..n {
        let s = [(i % length) as f32 * 0.1, 0.5];
        c.states.extend(s);
        c.next_states.extend([s[0] + 0.1, s[1]]);
        c.actions.extend([0.1, 0.0]);
        c.rewards.push(s[0] - 2.0 * s[1] - 0.02);
        c.terminals.push(false);
        c.timeouts.push(i % length == length - 1);
        if i % length == 0 {
            c.episode_starts.push(i);
        }
    }
    let data = Transitions::new(c).unwrap();
    let rows: Vec<u32> = (0..n as u32).collect();
    let held_out = Split {
        folds: vec![Fold { held_out: rows, ..Fold::default() }],
        by_episode: true,
        ..Split::default()
    };
    let mut model = paying(&device, held_out);
    // Both members go where the log went.
    let mut params = device.download(&model.ensemble().params).unwrap();
    let each = params.len() / 2;
    params.chunks_exact_mut(each).for_each(|member| {
        member[24..26].fill(0.0);
        member[27..30].fill(-8.0); // hardly any noise
    });
    model.set_parameters(&device, params);
    let initial = Initial::Fixed(vec![0.0, 0.5]);
    let task = Task { initial, ..learned().with_action_bounds(-1.0, 1.0) };
    let policy = Policy::from_fn("as logged", 2, 2, |_, actions| {
        actions.chunks_exact_mut(2).for_each(|a| a.copy_from_slice(&[0.1, 0.0]));
    });
    let setting = setting(&task, &policy, 20, 1.0);
    let world = World::new(&device, &model, setting);
    let set = ConfidenceSet::new(&model, 1.0).unwrap();
    let (config, run) = (SearchConfig::default(), Run::default());
    let (worst, _) =
        search_shifts(&world, &set, None, (&config, &data), Stream::new(3), (&run, "")).unwrap();
    let found = replay(&world, &data, (&worst, 1.0), 0.1, Stream::new(4), &run).unwrap();
    let needed = 0.02 / PAID_SPREAD;
    assert!(found.beta >= needed && found.beta < 1.5 * needed, "{found:?}");
    assert_eq!((found.evidence, found.near, found.subtracted), (Evidence::Supported, 40, 0.0));
}
