//! Nothing is allocated inside a training step or a rollout step: long runs allocate as often as short ones.
//!
//! A test binary of its own, since its allocator counts for the whole process; one test, so that nothing else
//! allocates meanwhile.

#![allow(clippy::unwrap_used)] // the exemption for tests does not reach their helping functions

mod common;

use common::{fit, small, transitions};
use hambo::dynamics::BnnConfig;
use hambo::policy::Policy;
use hambo::rollout::MemberAdversary;
use hambo::rollout::{Chooser, Propagation, Setting, rollout};
use hambo::run::Run;
use hambo::task::Task;
use hambo_engine::backend::{Activation, Device, Shape, SteinKernel};
use hambo_engine::expression::{Program, Scope};
use hambo_engine::nn::Ensemble;
use hambo_engine::rl::{Dqn, DqnUpdate, ReplayBuffer, Sac, SacUpdate, Widths};
use hambo_engine::rng::Stream;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, with the number of times that it was asked by anything but a matrix product: the `gemm`
/// crate takes room for packing, aligned to cache lines, and a list of flags, zeroed bytes, and gives both back.
struct Counting;

fn count(layout: Layout, zeroed: bool) {
    let of_gemm = layout.align() >= 64 || (zeroed && layout.align() == 1);
    COUNT.fetch_add(usize::from(!of_gemm), Relaxed);
}

// SAFETY: everything is handed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout, false);
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout, true);
        // SAFETY: as the caller promised.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(layout, false);
        // SAFETY: as the caller promised.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of `run(steps)` beyond those of `run(few)`. A thread may meet its first work late and allocate its
/// own working memory then, so the least of several tries counts: what allocates in every step is in all of them.
fn allocations_of_steps(run: impl Fn(u32)) -> isize {
    let count = |steps| {
        let before = COUNT.load(Relaxed);
        run(steps);
        (COUNT.load(Relaxed) - before) as isize
    };
    run(20);
    (0..8).map(|_| -count(3) + count(103)).map(isize::abs).min().unwrap()
}

#[test]
fn steps_do_not_allocate() {
    let device = Device::cpu(Some(2)).unwrap();
    let data = transitions::<2, 2>(2000, |s, a, noise| {
        [s[0] + 0.3 * a[0] + 0.05 * noise[0], s[1] * 0.9 + 0.3 * a[1] + 0.1 * noise[1]]
    });
    for kernel in [SteinKernel::Rbf { length_scale: 10.0 }, SteinKernel::Median, SteinKernel::None]
    {
        let base = BnnConfig {
            folds: Some(1),
            activation: Some(Activation::Relu),
            kernel,
            hidden: vec![140, 33],
            batch: 300,
            check_every: u32::MAX,
            ..small(3, 1)
        };
        let allocations = allocations_of_steps(|steps| {
            fit(&device, &data, &BnnConfig { steps: Some(steps), ..base.clone() });
        });
        assert_eq!(allocations, 0, "100 training steps with {kernel:?}");
    }

    let model = fit(&device, &data, &small(3, 20));
    let program = |text| Program::parse(&[text], 2, 2, Scope::REWARD).unwrap();
    let task =
        Task::new("test", [2, 2], "-hypot(s[0], n[1])").unwrap().with_action_bounds(-1.0, 1.0);
    let task = Task { termination: Some(program("n[0] > 0.9")), ..task };
    let starts = &data.states()[..2 * 700];
    let shape = Shape::new(2, vec![5, 33, 3], Activation::Relu).unwrap();
    let adversary = |look_ahead| MemberAdversary {
        networks: Ensemble::random(&device, shape.clone(), Stream::new(4)),
        look_ahead,
    };
    let [adversary, ahead] = [adversary(None), adversary(Some(-0.5))];
    let folder = common::Folder::new("no-allocation");
    let learned = fit(&device, &data, &BnnConfig { reward: true, angles: vec![1], ..small(3, 20) });
    let paid = Task { reward: program("r - n[1]^2"), ..task.clone() };
    for policy in [
        Policy::read("builtin:proportional").unwrap(),
        network(&folder.0.join("policy.safetensors")),
    ] {
        for propagation in [
            Propagation::Mean,
            Propagation::Moments,
            Propagation::DrawEveryStep,
            Propagation::EachMember,
            Propagation::Chosen(Chooser { adversary: &adversary, exploration: 0.3 }),
            Propagation::Chosen(Chooser { adversary: &ahead, exploration: 0.3 }),
        ] {
            let allocations = allocations_of_steps(|steps| {
                let setting = Setting {
                    task: &task,
                    policy: &policy,
                    horizon: steps as usize,
                    discount: 1.0,
                    worst_reward: -10.0,
                    tail: None,
                };
                rollout(
                    &device,
                    &model,
                    &setting,
                    propagation,
                    starts,
                    Stream::new(5),
                    &Run::default(),
                )
                .unwrap();
            });
            assert_eq!(allocations, 0, "100 rollout steps, {propagation:?}");
            if !matches!(propagation, Propagation::Moments) {
                continue; // what is seen of states does not depend on it
            }
            let allocations = allocations_of_steps(|steps| {
                let setting = Setting {
                    task: &paid,
                    policy: &policy,
                    horizon: steps as usize,
                    discount: 1.0,
                    worst_reward: -10.0,
                    tail: None,
                };
                rollout(
                    &device,
                    &learned,
                    &setting,
                    propagation,
                    starts,
                    Stream::new(5),
                    &Run::default(),
                )
                .unwrap();
            });
            assert_eq!(allocations, 0, "100 rollout steps with learned reward, {propagation:?}");
        }
    }
    let widths = Widths { observation: 3, context: 1, action: 2 };
    let settings = SacUpdate { hidden: vec![140, 33], batch: 300, ..Default::default() };
    let allocations = allocations_of_steps(|steps| {
        let mut sac = Sac::new(&device, widths, &settings, Stream::new(1)).unwrap();
        let mut replay = ReplayBuffer::new(&device, widths, 500, settings.batch);
        let rows: Vec<u32> = (0..500).collect();
        replay.set_transitions(&device, &rows, &rows);
        let scale = device.upload(&[1.0]);
        device.run(|| {
            for _ in 0..steps {
                sac.draw(&device, &mut replay, &scale, Stream::new(2));
                sac.update(&device);
            }
        });
    });
    assert_eq!(allocations, 0, "100 SAC updates");

    let widths = Widths { action: 1, ..widths };
    let settings = DqnUpdate { hidden: vec![140, 33], batch: 300, ..Default::default() };
    let allocations = allocations_of_steps(|steps| {
        let mut dqn = Dqn::new(&device, widths, 3, &settings, Stream::new(1)).unwrap();
        let mut replay = ReplayBuffer::new(&device, widths, 500, settings.batch);
        let rows: Vec<u32> = (0..500).collect();
        replay.set_transitions(&device, &rows, &rows);
        let scale = device.upload(&[1.0]);
        device.run(|| {
            for _ in 0..steps {
                dqn.draw(&device, &mut replay, &scale, Stream::new(2));
                dqn.update(&device);
            }
        });
    });
    assert_eq!(allocations, 0, "100 DQN updates");
}

/// A network with a normaliser, zeros all of it.
fn network(path: &std::path::Path) -> Policy {
    let weights = [0; 4 * 2 * 40];
    let tensor = |shape: &[usize]| {
        let bytes = &weights[..4 * shape.iter().product::<usize>()];
        safetensors::tensor::TensorView::new(safetensors::Dtype::F32, shape.to_vec(), bytes)
            .unwrap()
    };
    let tensors = [("layers.0.weight", tensor(&[40, 2])), ("layers.1.weight", tensor(&[2, 40]))];
    let header = [
        ("format", "hambo-policy/1"),
        ("activation", "relu"),
        ("squash", "tanh"),
        ("action_low", "[-1, -1]"),
        ("action_high", "[1, 1]"),
        ("observation_mean", "[0, 0]"),
        ("observation_var", "[1, 1]"),
    ];
    let header = header.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    safetensors::serialize_to_file(tensors, Some(header), path).unwrap();
    Policy::read(path.to_str().unwrap()).unwrap()
}
