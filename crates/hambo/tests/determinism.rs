//! Same seed, same bits, whatever the number of threads.

#![allow(clippy::unwrap_used)] // the exemption for tests does not reach their helping functions

mod common;

use common::{fit, small, transitions};
use hambo::dynamics::{BnnConfig, Dynamics};
use hambo::policy::Policy;
use hambo::rollout::{Propagation, Setting, rollout};
use hambo::run::Run;
use hambo::task::Task;
use hambo_engine::backend::{Device, SteinKernel};
use hambo_engine::rng::Stream;

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let data = transitions::<2, 2>(1500, |s, a, noise| {
        [s[0] + 0.3 * a[0] + 0.05 * noise[0], s[1] * 0.9 + 0.3 * a[1] + 0.1 * s[0].abs() * noise[1]]
    });
    let task =
        Task::new("test", [2, 2], "-hypot(s[0], n[1])").unwrap().with_action_bounds(-1.0, 1.0);
    let policy = Policy::read("builtin:proportional").unwrap();
    let setting = Setting {
        task: &task,
        policy: &policy,
        horizon: 8,
        discount: 0.99,
        worst_reward: -10.0,
        tail: None,
    };
    let starts = &data.states()[..2 * 700];

    for kernel in [SteinKernel::Rbf { length_scale: 10.0 }, SteinKernel::Median, SteinKernel::None]
    {
        // Widths and batches of several blocks, none of them full.
        let config = BnnConfig { kernel, hidden: vec![140, 33], batch: 300, ..small(3, 25) };
        let run = |threads| {
            let device = Device::cpu(Some(threads)).unwrap();
            let model = fit(&device, &data, &config);
            let mut numbers = device.download(&model.ensemble().params).unwrap();
            numbers.extend(model.tau());
            let prediction = model.predict(&device, starts, starts).unwrap();
            numbers.extend(
                [prediction.mean, prediction.epistemic_std, prediction.aleatoric_std].concat(),
            );
            for propagation in [
                Propagation::Mean,
                Propagation::Moments,
                Propagation::DrawEveryStep,
                Propagation::EachMember,
            ] {
                let returns = rollout(
                    &device,
                    &model,
                    &setting,
                    propagation,
                    starts,
                    Stream::new(5),
                    &Run::default(),
                )
                .unwrap();
                numbers.extend(returns.values);
            }
            let bits: Vec<u32> = numbers.iter().map(|v| v.to_bits()).collect();
            (bits, model.report().clone())
        };
        let one = run(1);
        for threads in [2, 3, 4] {
            let several = run(threads);
            assert!(one.0 == several.0, "{kernel:?}: 1 and {threads} threads differ");
            assert_eq!(one.1, several.1, "{kernel:?}, {threads} threads");
        }
    }
}
