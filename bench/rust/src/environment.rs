//! Steps per second of an environment under random actions, on one thread or on several at once.

use hambo::Result;
use hambo_engine::rng::Stream;
use hambo_envs::{EnvName, EnvSpec};
use std::time::Instant;

/// The rate of all threads together, from one stretch a thread of `seconds`.
pub fn measure(env: EnvName, seconds: f64, threads: usize) -> Result<Vec<f64>> {
    let env = &env.spec()?;
    let rates = std::thread::scope(|scope| {
        let start = |thread| scope.spawn(move || rate(env, seconds, Stream::new(thread)));
        let running: Vec<_> = (0..threads as u64).map(start).collect();
        running
            .into_iter()
            .map(|thread| thread.join().unwrap_or(Ok(0.0)))
            .collect::<Result<Vec<f64>>>()
    });
    Ok(vec![rates?.iter().sum()])
}

fn rate(env: &EnvSpec, seconds: f64, stream: Stream) -> Result<f64> {
    let mut generator = stream.generator();
    let mut simulator = env.make()?;
    let mut state = vec![0.0; env.task.state_dim];
    let mut action = vec![0.0; env.task.action_dim];
    let (start, mut steps) = (Instant::now(), 0u32);
    while start.elapsed().as_secs_f64() < seconds {
        simulator.reset(&mut generator);
        for _ in 0..env.time_limit {
            action.iter_mut().for_each(|a| *a = generator.range(-1.0, 1.0) as f32);
            steps += 1;
            let outcome = simulator.step(&action);
            simulator.observe(&mut state);
            if outcome.is_none_or(|o| o.terminal) {
                break;
            }
        }
    }
    Ok(f64::from(steps) / start.elapsed().as_secs_f64())
}
