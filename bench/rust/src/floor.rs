//! How long the workloads would take on a card that did nothing but what they cannot do without: their products on
//! tensor cores at the rate, and their parameters out of the cache at the bandwidth, that tiny kernels reach on it.

use hambo::compute::Device;
use serde_json::{Map, Value, json};
use std::error::Error;

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
    let floor = device.floor().ok_or("--work floor is for --device cuda")??;
    let mut steps = Map::new();
    for (name, operations, bytes) in workloads() {
        let [products, parameters] = [operations / floor.products, bytes / floor.cache].map(|s| 1e6 * s);
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
