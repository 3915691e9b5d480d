use super::*;
use crate::data::Columns;
use crate::stats::Mean;

/// A task for states of two entries and actions of one.
pub fn task(reward: &str, termination: Option<Program>) -> Task {
    let task = Task::new("test", [2, 1], reward).unwrap().with_action_bounds(-1.0, 1.0);
    Task { termination, ..task }
}

/// Starts in blocks: a lower limit by their means holds, and is closer than one of independent starts.
#[test]
fn even_starts_tell_a_mean_better() {
    let data = Transitions::new(Columns {
        state_dim: 2,
        action_dim: 1,
        states: vec![0.0; 4],
        actions: vec![0.0; 2],
        rewards: vec![0.0; 2],
        next_states: vec![0.0; 4],
        terminals: vec![false; 2],
        timeouts: vec![false, true],
        episode_starts: vec![0],
        ..Default::default()
    })
    .unwrap();
    let initial = Initial::Box { low: vec![-1.0, 0.0], high: vec![1.0, 2.0], map: None };
    // A cost with a jump, of which the expectation is 1/3 + 1/2.
    let cost = |x: &[f32]| x[0] * x[0] + f32::from(u8::from(x[1] > 1.0));
    let (mut above, mut errors) = (0, [0.0; 2]);
    for seed in 0..400 {
        let stream = Stream::new(seed);
        let even = initial.sample_evenly((3200, 2), &data, stream).unwrap();
        assert!(even.chunks(2).all(|x| x[0].abs() <= 1.0 && (0.0..=2.0).contains(&x[1])));
        let costs: Vec<f32> = even.chunks(2).map(cost).collect();
        let mean = Mean::of_blocks(&costs, 2);
        above += u32::from(mean.lower_limit(3200, 0.0, 0.1) > 5.0 / 6.0);
        errors[0] += mean.std_error;
        let drawn = initial.sample(3200, &data, stream).unwrap();
        errors[1] += Mean::of(drawn.chunks(2).map(|x| f64::from(cost(x)))).std_error;
    }
    assert!(above <= 40, "{above} of 400 limits are above the expectation at δ = 0.1");
    assert!(errors[0] < 0.6 * errors[1], "{errors:?}");
}

/// Random rows of a long log.
fn long_log(n: usize) -> Transitions {
    let mut generator = Stream::new(3).generator();
    let mut values = |n: usize| (0..n).map(|_| generator.normal() as f32).collect::<Vec<f32>>();
    Transitions::new(Columns {
        state_dim: 2,
        action_dim: 1,
        states: values(2 * n),
        actions: values(n),
        rewards: values(n),
        next_states: values(2 * n),
        terminals: vec![false; n],
        timeouts: vec![false; n],
        episode_starts: vec![0],
        ..Default::default()
    })
    .unwrap()
}

#[test]
fn a_long_log_is_seen_in_parts_and_every_row_once() {
    let data = long_log(AT_ONCE + 7);
    let found = Task::on_log(&task("s[0] + n[1] + r", None).reward, &data).unwrap();
    let expected = |row: usize| data.state(row)[0] + data.next_state(row)[1] + data.rewards()[row];
    assert_eq!(found.len(), AT_ONCE + 7);
    assert!(found.iter().enumerate().all(|(row, &value)| value == expected(row)));
}

#[test]
fn functions_come_before_expressions() {
    let data = long_log(100);
    let pays = |s: &[f32], a: &[f32], _: &[f32], out: &mut [f32]| {
        out.iter_mut().enumerate().for_each(|(row, out)| *out = s[2 * row] - a[row]);
    };
    let ends = |_: &[f32], _: &[f32], n: &[f32], out: &mut [f32]| {
        out.iter_mut().enumerate().for_each(|(row, out)| *out = (n[2 * row] > 1.0).into());
    };
    let [reward, termination] = [
        Function { name: "pays".to_owned(), function: std::sync::Arc::new(pays) },
        Function { name: "ends".to_owned(), function: std::sync::Arc::new(ends) },
    ];
    let functions = TaskFunctions { reward: Some(reward), termination: Some(termination) };
    let spec = TaskSpec { functions, reward: Some("1".to_owned()), ..TaskSpec::default() };
    let found = spec.resolve(&data, None).unwrap();
    assert!(found.task.calls_functions() && !found.learns_reward());
    assert_eq!(found.declared.reward, "pays");
    assert_eq!(found.declared.termination.to_string(), "ends");
    let (rewards, ended) = found.task.logged(&data).unwrap();
    assert_eq!(rewards[7], data.state(7)[0] - data.action(7)[0]);
    let over: Vec<bool> = (0..100).map(|row| data.next_state(row)[0] > 1.0).collect();
    assert_eq!(ended, over);
    assert!(over.contains(&true) && over.contains(&false));
    let nan = |_: &[f32], _: &[f32], _: &[f32], out: &mut [f32]| out.fill(f32::NAN);
    let reward = Function { name: "wrong".to_owned(), function: std::sync::Arc::new(nan) };
    let functions = TaskFunctions { reward: Some(reward), termination: None };
    let spec = TaskSpec { functions, ..TaskSpec::default() };
    let problem = spec.resolve(&data, None).unwrap_err().to_string();
    assert!(problem.contains("`wrong` is NaN in row 0"), "{problem}");
}
