//! What the paper's theory of Gaussian processes says of the run.

use super::{finite, section};
use crate::report::answer::Answer;
use crate::report::text::brief;

/// The constants, and which assumption each of them rests on; nothing where the model is no Gaussian process.
pub(super) fn theory(answer: &Answer) -> String {
    let Some(theory) = &answer.theory else { return String::new() };
    let of = |value: Option<f64>, meaning: &str| {
        let text = value.and_then(finite).map_or("–".to_owned(), brief);
        (text, meaning.to_owned())
    };
    let power = |value: Option<f64>, meaning: &str| {
        let text =
            value.and_then(finite).map_or("–".to_owned(), |x| format!("10<sup>{x:.1}</sup>"));
        (text, meaning.to_owned())
    };
    let [bound, given] =
        ["needs B: --norm-bound", "needs B, L_r and L_π: --norm-bound, --lipschitz"]
            .map(|need| format!("<span class=\"caption\">({need})</span>"));
    let rows = [
        (
            "information gain",
            of(
                Some(theory.information_gain),
                "½ ln det(I + σ⁻²K) of the data, the largest over entries",
            ),
        ),
        (
            "γ_n",
            of(
                Some(theory.information_rate),
                "growth of the largest information gain that n points can have, up to a constant (Table 1)",
            ),
        ),
        (
            "B",
            of(theory.norm_bound, &format!("bound on the norm of the dynamics, as given {bound}")),
        ),
        (
            "norm of the posterior mean",
            of(Some(theory.posterior_norm), "the size that B will have, to which noise adds"),
        ),
        (
            "β_n(δ)",
            of(
                theory.beta,
                &format!("size of the confidence set that is proven (Lemma 3.6) {bound}"),
            ),
        ),
        (
            "β_n(δ), literally",
            of(
                theory.beta_literal,
                "with the paper’s factor σ_ε, which belongs to another regulariser",
            ),
        ),
        ("L_k", of(Some(theory.metric_constant), "Lipschitz constant of the kernel metric")),
        ("L_f", of(theory.dynamics_constant, &format!("of the dynamics (Lemma 3.7) {bound}"))),
        ("L_σ", of(Some(theory.deviation_constant), "of the deviation (Lemma 3.7)")),
        ("L_r", of(theory.lipschitz.map(|l| l.reward), "of the reward, as given")),
        ("L_π", of(theory.lipschitz.map(|l| l.policy), "of the policy, as given")),
        ("L̄_f", of(theory.barred.map(|barred| barred[0]), &format!("L_f (1 + L_π) {given}"))),
        ("L̄_σ", of(theory.barred.map(|barred| barred[1]), "L_σ (1 + L_π)")),
        ("L̄_r", of(theory.barred.map(|barred| barred[2]), "L_r (1 + L_π)")),
        ("C_n", power(theory.log10_gap_constant, &format!("constant of Theorem 3.5 {given}"))),
        (
            "E‖σ_n‖",
            of(
                Some(theory.mean_deviation),
                "mean deviation along the policy’s trajectories in the model, in the place of those in the world",
            ),
        ),
        (
            "worst-case gap",
            power(
                theory.log10_gap,
                "C_n E‖σ_n‖, which J − J̃ cannot exceed (Theorem 3.5); it grows exponentially with the horizon",
            ),
        ),
    ];
    let rows: String = rows
        .iter()
        .map(|(name, (value, meaning))| {
            format!("<tr><td>{name}</td><td>{value}</td><td class=\"words\">{meaning}</td></tr>\n")
        })
        .collect();
    let scope = match theory.all_data {
        true => "",
        false => {
            " <b>The model is conditioned on a part of the data: these are the constants of that part, and the exact theory of \
              all data no longer applies.</b>"
        }
    };
    let body = format!(
        "<p>What the paper proves for Gaussian processes, in numbers. It holds for given hyper-parameters and for dynamics whose \
         norm in the kernel’s Hilbert space is at most B, which data cannot show.{scope}</p>\n<div class=\"scroll\"><table>\
         <thead><tr><th>constant</th><th>value</th><th></th></tr></thead><tbody>\n{rows}</tbody></table></div>\n"
    );
    section("theory", "What the theory says", &body)
}
