//! How long the workloads would take on a card that did nothing but what they cannot do without: their products on
//! tensor cores at the rate, and their parameters out of the cache at the bandwidth, that tiny kernels reach on it.

use hambo_engine::backend::{Buffer, Device, KernelArgument};
use serde_json::{Map, Value, json};
use std::error::Error;
use std::time::Instant;

const THREADS: u32 = 512;
/// Bytes of a copy in the card's memory, far more than its cache holds.
const COPIED: usize = 1 << 30;
/// Bytes that stay in the cache: about the weights of five networks.
const CACHED: usize = 4 << 20;
/// How often each thing is done.
const TIMES: usize = 64;

/// What a card was seen to do at best, each by a kernel that does nothing else.
struct Floor {
    /// Bytes a second read and written in its memory.
    memory: f64,
    /// Bytes a second that come from the second-level cache.
    cache: f64,
    /// Multiplications and additions a second on tensor cores, TF32 by `mma.sync`.
    products: f64,
    /// Kernels a second, each waiting for the one before it.
    kernels: f64,
}

impl Floor {
    fn measure(device: &Device) -> Result<Self, Box<dyn Error>> {
        let [from, mut to]: [Buffer; 2] = [0, 1].map(|_| device.zeros(COPIED / size_of::<f32>()));
        let (out, mut counter) = (device.zeros(1), device.counter());
        let seconds = |work: &mut dyn FnMut()| {
            device.repeat(16, &mut *work); // compiled and recorded
            device.check()?;
            let start = Instant::now();
            device.repeat(TIMES, work);
            device.check().map(|()| start.elapsed().as_secs_f64() / TIMES as f64)
        };
        let launch = |kernel, arguments: &[KernelArgument<'_>]| {
            // SAFETY: the arguments are those in `floor.cu`; what is read lies within `from`.
            unsafe { device.launch_source((include_str!("floor.cu"), kernel), THREADS, arguments) }
        };
        use KernelArgument::{Buffer as At, Number};
        let (numbers, reads, rounds) = ((CACHED / 16) as u32, 8, 4096);
        let mut blocks = 0;
        let copied = seconds(&mut || device.copy(&from, &mut to))?;
        let read = seconds(&mut || {
            blocks = launch("floor_read", &[At(&from), Number(numbers), Number(reads), At(&out)]);
        })?;
        let multiplied = seconds(&mut || {
            launch("floor_multiply", &[Number(rounds), At(&out)]);
        })?;
        let counted = seconds(&mut || device.advance(&mut counter))?;
        let [blocks, warps] = [blocks, blocks * THREADS / 32].map(f64::from);
        Ok(Floor {
            memory: 2.0 * COPIED as f64 / copied,
            cache: blocks * f64::from(reads) * CACHED as f64 / read,
            products: warps * f64::from(rounds) * 8.0 * f64::from(2 * 16 * 8 * 8) / multiplied,
            kernels: 1.0 / counted,
        })
    }
}

/// Weights of a network, without biases.
fn weights(widths: &[usize]) -> f64 {
    widths.windows(2).map(|w| (w[0] * w[1]) as f64).sum()
}

const MODEL: &[usize] = &[14, 256, 256, 256, 256, 22];
const ACTOR: &[usize] = &[14, 256, 256, 22];
const CRITIC: &[usize] = &[25, 256, 256, 1];
const POLICY: &[usize] = &[11, 256, 256, 3];
const ADVERSARY: &[usize] = &[14, 256, 256, 11];

/// Name, multiplications and additions, bytes of parameters that must be read or written, of one step.
fn workloads() -> [(&'static str, f64, f64); 4] {
    let first = |widths: &[usize]| (widths[0] * widths[1]) as f64;
    let [model, actor, critic] = [MODEL, ACTOR, CRITIC].map(weights);
    let [policy, adversary] = [POLICY, ADVERSARY].map(weights);
    // There, and back to the weights and to all inputs but the first.
    let training = |widths: &[usize]| 3.0 * weights(widths) - first(widths);
    let w3 = actor + training(ACTOR)                      // of the next states; the actor's own update
        + 2.0 * (critic + training(CRITIC) + 2.0 * critic); // targets; their update; there and back for the actor's
    // Gradients are written and read once, parameters read for each pass and, with two moments, read and written.
    let update = 8.0;
    [
        ("w1", 2.0 * 256.0 * 5.0 * training(MODEL), 4.0 * 5.0 * model * (3.0 + update)),
        ("w2", 2.0 * 1000.0 * 5.0 * model, 4.0 * 5.0 * model),
        ("w3", 2.0 * 1024.0 * w3, 4.0 * (actor * (3.0 + update) + 2.0 * critic * (7.0 + update))),
        (
            "rollout",
            2.0 * 1000.0 * (5.0 * model + policy + adversary),
            4.0 * (5.0 * model + policy + adversary),
        ),
    ]
}

pub fn measure(device: &Device) -> Result<Value, Box<dyn Error>> {
    device.free_memory().ok_or("--work floor is for --device cuda")?; // a CPU has none of its own
    let floor = Floor::measure(device)?;
    let mut steps = Map::new();
    for (name, operations, bytes) in workloads() {
        let [products, parameters] =
            [operations / floor.products, bytes / floor.cache].map(|s| 1e6 * s);
        let step = json!({
            "gigaflop": operations / 1e9,
            "megabytes": bytes / 1e6,
            "products_us": products,
            "parameters_us": parameters,
            "floor_us": products.max(parameters),
        });
        steps.insert(name.to_owned(), step);
    }
    Ok(json!({
        "peer": "hambo",
        "work": "floor",
        "memory_gb_per_second": floor.memory / 1e9,
        "cache_gb_per_second": floor.cache / 1e9,
        "tf32_teraflop_per_second": floor.products / 1e12,
        "kernel_us": 1e6 / floor.kernels,
        "steps": steps,
    }))
}
