//! Softened conditions against the same formulas in `f64`.

use super::*;

const WIDTH: f32 = 0.3;

fn soft(text: &str) -> Option<Program> {
    let program = program(text);
    let comparisons = program.margins().map_or(0, |margins| margins.outputs().len());
    program.softened(&vec![WIDTH; comparisons])
}

fn sigmoid(margin: f64) -> f64 {
    1.0 / (1.0 + (-margin / f64::from(WIDTH)).exp())
}

fn either(p: f64, q: f64) -> f64 {
    1.0 - (1.0 - p) * (1.0 - q)
}

/// A condition, and its probability over (s₀, s₁, n₀).
type Case = (&'static str, fn([f64; 3]) -> f64);

const CASES: [Case; 15] = [
    ("s[0] < 0.5", |[x, ..]| sigmoid(0.5 - x)),
    ("s[0] > 0.5", |[x, ..]| sigmoid(x - 0.5)),
    ("!(s[0] >= 0.5)", |[x, ..]| sigmoid(0.5 - x)),
    ("n[0] < 0.7 || abs(s[1]) > 0.2", |[_, y, n]| either(sigmoid(0.7 - n), sigmoid(y.abs() - 0.2))),
    ("!(n[0] > 0.7 && s[1] < 0.2)", |[_, y, n]| either(sigmoid(0.7 - n), sigmoid(y - 0.2))),
    ("s[0] < 1 && n[0] < s[1]", |[x, y, n]| sigmoid(1.0 - x) * sigmoid(y - n)),
    ("(s[0] < 1) * (n[0] < 1)", |[x, _, n]| sigmoid(1.0 - x) * sigmoid(1.0 - n)),
    ("(s[0] < 1) + (n[0] < 1)", |[x, _, n]| either(sigmoid(1.0 - x), sigmoid(1.0 - n))),
    ("min(s[0] < 1, n[0] < 1)", |[x, _, n]| sigmoid(1.0 - x) * sigmoid(1.0 - n)),
    ("max(s[0] < 1, n[0] < 1)", |[x, _, n]| either(sigmoid(1.0 - x), sigmoid(1.0 - n))),
    ("if(s[0] < 1, n[0] < 1, 0)", |[x, _, n]| sigmoid(1.0 - x) * sigmoid(1.0 - n)),
    ("if(s[0] < 1, 0, 1)", |[x, ..]| sigmoid(x - 1.0)),
    // What is no comparison of order stays as it is, on either side of 0.
    ("s[0] < 1 || s[1] == 9", |[x, ..]| sigmoid(1.0 - x)),
    ("s[0] < 1 && s[1] != 9", |[x, ..]| sigmoid(1.0 - x)),
    ("s[0] < 1 && floor(s[1] / 9)", |[x, y, _]| if y < 0.0 { sigmoid(1.0 - x) } else { 0.0 }),
];

#[test]
fn conditions_are_probabilities_with_the_gradient_of_their_finite_differences() {
    let mut generator = Stream::new(12).generator();
    for (text, formula) in CASES {
        let program = soft(text).unwrap_or_else(|| panic!("{text} stays hard"));
        for _ in 0..20 {
            let x: [f64; 3] = std::array::from_fn(|_| generator.range(0.1, 1.5));
            let x = if generator.range(0.0, 1.0) < 0.5 { x } else { x.map(|x| -x) };
            let (s, n) = ([x[0] as f32, x[1] as f32, 0.0], [x[2] as f32, 0.0, 0.0]);
            let mut scratch = Scratch::default();
            let mut p = [0.0];
            program.evaluate(1, &s, &[0.0; 2], &n, &mut p, &mut scratch).unwrap();
            assert!((f64::from(p[0]) - formula(x)).abs() < 1e-5, "{text} at {x:?}: {}", p[0]);

            let ([mut d_s, mut d_n], none) = ([[0.0; STATE]; 2], &mut [] as &mut [f32]);
            let inputs: [&[f32]; 3] = [&s, &[0.0; 2], &n];
            let gradients = [&mut d_s[..], none, &mut d_n[..]];
            program.gradient(1, inputs, &[1.0], gradients, &mut scratch).unwrap();
            for (k, found) in [d_s[0], d_s[1], d_n[0]].into_iter().enumerate() {
                let moved = |h: f64| {
                    let mut x = x;
                    x[k] += h;
                    formula(x)
                };
                let expected = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                assert!(
                    (f64::from(found) - expected).abs() < 1e-4,
                    "{text}, input {k} at {x:?}: {found}, not {expected}"
                );
            }
        }
    }
}

#[test]
fn margins_say_how_far_each_comparison_is_from_turning() {
    let margins = program("n[0] < 0.7 || !(abs(n[2]) <= 0.2)").margins().unwrap();
    let mut out = [0.0; 2];
    let n = [0.5, 0.0, -0.5];
    margins.evaluate(1, &[], &[], &n, &mut out, &mut Scratch::default()).unwrap();
    assert!((out[0] - 0.2).abs() < 1e-6 && (out[1] + 0.3).abs() < 1e-6, "{out:?}");
    assert!(program("s[0] == 1").margins().is_none());
}

/// However an end is written, the gradient points to it from far inside.
#[test]
fn a_condition_far_from_turning_still_has_a_gradient() {
    for text in ["s[0] < 0", "!(s[0] >= 0)", "!(s[0] >= 0 && s[1] < 99)", "s[0] < 0 || s[1] > 99"] {
        let (mut d_s, none) = ([0.0; STATE], &mut [] as &mut [f32]);
        let s = [60.0 * WIDTH, 0.0, 0.0];
        soft(text)
            .unwrap()
            .gradient(1, [&s, &[], &[]], &[1.0], [&mut d_s, none, &mut []], &mut Scratch::default())
            .unwrap();
        let expected = -(-60.0f64).exp() / f64::from(WIDTH);
        assert!((f64::from(d_s[0]) / expected - 1.0).abs() < 1e-3, "{text}: {d_s:?}");
    }
}

#[test]
fn what_cannot_be_softened_stays_hard() {
    for text in ["s[0]", "s[0] - 1", "s[0] == 1", "!s[0]", "1", "floor(s[0]) < 1"] {
        assert!(soft(text).is_none(), "{text}");
    }
    let program = program("s[0] < 1 || s[1] < 1");
    for no_width in [0.0, -1.0, f32::NAN, 1e-45] {
        assert!(program.softened(&[no_width; 2]).is_none());
        let one = program.softened(&[no_width, 0.3]).unwrap();
        let mut d_s = [0.0; STATE];
        let inputs: [&[f32]; 3] = [&[1.5, 1.0, 0.0], &[], &[]];
        let gradients = [&mut d_s[..], &mut [], &mut []];
        one.gradient(1, inputs, &[1.0], gradients, &mut Scratch::default()).unwrap();
        assert!(d_s[0] == 0.0 && d_s[1] < 0.0, "{d_s:?}");
    }
    let long: Vec<String> = (0..200).map(|k| format!("s[0] > {k}")).collect();
    assert!(soft(&long.join(" || ")).is_none(), "no GPU takes such a tape");
}
