//! Values and gradients against the same formulas in `f64`, and what the tape promises besides.

mod soft;
mod text;

use std::f64::consts::PI;

use super::*;
use crate::rng::Stream;

const STATE: usize = 3;
const ACTION: usize = 2;

fn program(text: &str) -> Program {
    Program::parse(&[text], STATE, ACTION, Scope::REWARD).unwrap()
}

/// The value at s = (3, −2, 0.5), a = (4, 0), n = (−1, 0, 7).
fn value(text: &str) -> f32 {
    let mut out = [0.0];
    let (s, a, n) = ([3.0, -2.0, 0.5], [4.0, 0.0], [-1.0, 0.0, 7.0]);
    program(text).evaluate(1, &s, &a, &n, &mut out, &mut Scratch::default()).unwrap();
    out[0]
}

/// The gradient of a function of the state, with unit weight.
fn state_gradient(text: &str, s: [f32; STATE]) -> [f32; STATE] {
    let mut d_s = [0.0; STATE];
    let none: &mut [f32] = &mut [];
    program(text)
        .gradient(1, [&s, &[], &[]], &[1.0], [&mut d_s, none, &mut []], &mut Scratch::default())
        .unwrap();
    d_s
}

#[test]
fn operators_bind_and_group_as_documented() {
    let (s, a, n) = ([3.0f32, -2.0, 0.5], [4.0f32, 0.0], [-1.0f32, 0.0, 7.0]);
    let cases = [
        ("1 + 2 * 3", 7.0),
        ("(1 + 2) * 3", 9.0),
        ("7 - 4 - 2", 1.0),
        ("16 / 4 / 2", 2.0),
        ("2 ^ 3 ^ 2", 512.0),
        ("-2^2", -4.0),
        ("(-2)^2", 4.0),
        ("2^-1", 0.5),
        ("2^-1*3", 1.5),
        ("2*3^2", 18.0),
        ("- -3", 3.0),
        ("3--2", 5.0),
        ("!0 + 1", 2.0),
        ("!s[0]", 0.0),
        ("-s[1]^2", -(s[1] * s[1])),
        ("s[0]^a[0]", s[0].powf(a[0])),
        ("s[0] - s[1] * s[2] / a[0]", s[0] - s[1] * s[2] / a[0]),
        ("s[0] + 1 < a[0] * 2", 1.0),
        ("1 < 2 && 2 < 1 || 1 < 2", 1.0),
        ("1 < 2 || 1 < 2 && 2 < 1", 1.0),
        ("(1 < 2 || 1 < 2) && 2 < 1", 0.0),
        ("n[0] < 0.7 || abs(n[1]) > 0.2", 1.0),
        ("5 && -3", 1.0),
        ("s[0] == 3", 1.0),
        ("s[0] != 3", 0.0),
        ("s[0] >= 3", 1.0),
        ("s[0] <= 2.9", 0.0),
        ("s[0] > 3", 0.0),
        ("s[0] < 3", 0.0),
        ("if(s[0] < 0, 1, 2)", 2.0),
        ("n[2] * n[0]", n[2] * n[0]),
        ("pi", std::f32::consts::PI),
        (" 1e-3*\t.5 +5.e2\n", 1e-3 * 0.5 + 500.0),
        ("2E+1", 20.0),
    ];
    for (text, expected) in cases {
        assert_eq!(value(text), expected, "{text}");
    }
}

/// An expression, the same in `f64` over the inputs (s₀, s₁, s₂, a₀, n₀), and the range to try each in.
type Case = (&'static str, fn(&[f64; 5]) -> f64, (f64, f64));

/// Ranges stay away from kinks and poles, where finite differences mean nothing.
const CASES: [Case; 37] = [
    ("-s[0]", |x| -x[0], (-3.0, 3.0)),
    ("!s[0] + s[1]", |x| x[1], (1.0, 3.0)),
    ("abs(s[0])", |x| x[0].abs(), (0.1, 3.0)),
    ("abs(s[0])", |x| x[0].abs(), (-3.0, -0.1)),
    ("sqrt(s[0])", |x| x[0].sqrt(), (0.1, 9.0)),
    ("exp(s[0])", |x| x[0].exp(), (-3.0, 3.0)),
    ("log(s[0])", |x| x[0].ln(), (0.1, 9.0)),
    ("sin(s[0])", |x| x[0].sin(), (-4.0, 4.0)),
    ("cos(s[0])", |x| x[0].cos(), (-4.0, 4.0)),
    ("tan(s[0])", |x| x[0].tan(), (-1.2, 1.2)),
    ("asin(s[0])", |x| x[0].asin(), (-0.9, 0.9)),
    ("acos(s[0])", |x| x[0].acos(), (-0.9, 0.9)),
    ("atan(s[0])", |x| x[0].atan(), (-4.0, 4.0)),
    ("tanh(s[0])", |x| x[0].tanh(), (-2.0, 2.0)),
    ("sigmoid(s[0])", |x| 1.0 / (1.0 + (-x[0]).exp()), (-4.0, 4.0)),
    ("sign(s[0]) * s[1]", |x| x[0].signum() * x[1], (-3.0, -0.1)),
    ("floor(s[0]) * s[1]", |x| 2.0 * x[1], (2.1, 2.9)),
    ("wrap(s[0])", |x| x[0] - 2.0 * PI, (3.3, 9.0)),
    ("wrap(s[0])", |x| x[0] + 2.0 * PI, (-9.0, -3.3)),
    ("s[0] + s[1]", |x| x[0] + x[1], (-3.0, 3.0)),
    ("s[0] - a[0]", |x| x[0] - x[3], (-3.0, 3.0)),
    ("s[0] * n[0]", |x| x[0] * x[4], (-3.0, 3.0)),
    ("s[0] / s[1]", |x| x[0] / x[1], (0.3, 3.0)),
    ("s[0] ^ s[1]", |x| x[0].powf(x[1]), (0.3, 3.0)),
    ("s[0]^2 + s[1]^3 - s[2]^5", |x| x[0].powi(2) + x[1].powi(3) - x[2].powi(5), (-1.5, 1.5)),
    ("s[0]^-3", |x| x[0].powi(-3), (-3.0, -0.5)),
    ("s[0]^0.5 + s[1]^2.5", |x| x[0].sqrt() + x[1].powf(2.5), (0.3, 3.0)),
    ("atan2(s[0], s[1])", |x| x[0].atan2(x[1]), (-3.0, -0.3)),
    ("min(s[0], s[1] - 7, s[2])", |x| x[1] - 7.0, (-3.0, 3.0)),
    ("max(s[0] + 7, s[1], s[2])", |x| x[0] + 7.0, (-3.0, 3.0)),
    (
        "hypot(s[0], s[1], s[2], a[0])",
        |x| x[..4].iter().map(|v| v * v).sum::<f64>().sqrt(),
        (0.3, 3.0),
    ),
    ("clamp(s[0], -1, 1) * s[1]", |x| x[1], (1.1, 3.0)),
    ("clamp(s[0], -1, 1) * s[1]", |x| x[0] * x[1], (-0.9, 0.9)),
    ("if(s[0] > 0 && s[1] <= 5 || s[2] == 9, s[0]*s[1], s[2])", |x| x[0] * x[1], (0.1, 3.0)),
    ("if(s[0] > 0, s[1], s[2]^2)", |x| x[2] * x[2], (-3.0, -0.1)),
    (
        "-(atan2(s[1], s[0])^2 + 0.1*s[2]^2 + 0.001*clamp(a[0],-2,2)^2)",
        |x| -(x[1].atan2(x[0]).powi(2) + 0.1 * x[2] * x[2] + 0.001 * x[3] * x[3]),
        (0.2, 1.9),
    ),
    (
        "-hypot(s[0]-2, s[1]) - 50*sigmoid((1-hypot(s[0],s[1]))/0.5)",
        |x| -(x[0] - 2.0).hypot(x[1]) - 50.0 / (1.0 + (-(1.0 - x[0].hypot(x[1])) / 0.5).exp()),
        (0.2, 1.5),
    ),
];

#[test]
fn values_and_gradients_match_f64_formulas_and_their_finite_differences() {
    let mut random = Stream::new(5).child("cases").generator();
    let mut scratch = Scratch::default();
    for (text, formula, (low, high)) in CASES {
        let program = program(text);
        for _ in 0..50 {
            // Points that f32 holds exactly, so that both sides see the same one.
            let x: [f64; 5] = std::array::from_fn(|_| f64::from(random.range(low, high) as f32));
            let [s, a, n] = [
                vec![x[0] as f32, x[1] as f32, x[2] as f32],
                vec![x[3] as f32, 0.0],
                vec![x[4] as f32, 0.0, 0.0],
            ];
            let mut out = [0.0];
            program.evaluate(1, &s, &a, &n, &mut out, &mut scratch).unwrap();
            let expected = formula(&x);
            let error = (f64::from(out[0]) - expected).abs();
            assert!(
                error <= 2e-6 * (1.0 + expected.abs()),
                "{text} at {x:?}: {} ≠ {expected}",
                out[0]
            );

            let (mut d_s, mut d_a, mut d_n) = ([1.0f32; 3], [1.0f32; 2], [1.0f32; 3]);
            program
                .gradient(1, [&s, &a, &n], &[2.0], [&mut d_s, &mut d_a, &mut d_n], &mut scratch)
                .unwrap();
            let gradient = [d_s[0], d_s[1], d_s[2], d_a[0], d_n[0]];
            for (k, d) in gradient.into_iter().enumerate() {
                let step = 1e-6;
                let [mut above, mut below] = [x; 2];
                above[k] += step;
                below[k] -= step;
                // 1 was there before, and the weight is 2: gradients are added.
                let expected = 1.0 + 2.0 * (formula(&above) - formula(&below)) / (2.0 * step);
                let error = (f64::from(d) - expected).abs();
                assert!(
                    error <= 1e-5 * (1.0 + expected.abs()),
                    "{text}: derivative {k} at {x:?}: {d} ≠ {expected}"
                );
            }
        }
    }
}

#[test]
fn the_cases_above_reach_every_instruction() {
    let mut reached: Vec<String> = CASES
        .iter()
        .flat_map(|(text, ..)| program(text).instructions().to_vec())
        .map(|instruction| match instruction {
            Instruction::Unary(op, _) => format!("{op:?}"),
            Instruction::Binary(op, ..) => format!("{op:?}"),
            Instruction::Select(..) => "Select".into(),
            Instruction::Input(input, _) => format!("{input:?}"),
            Instruction::Constant(_) => "Constant".into(),
        })
        .collect();
    reached.sort();
    reached.dedup();
    assert_eq!(reached.len(), 17 + 13 + 1 + 3 + 1, "{reached:?}");
}

#[test]
fn wrap_stays_in_its_interval_and_keeps_the_angle() {
    let wrap = program("wrap(s[0])");
    let mut random = Stream::new(6).generator();
    let mut angles: Vec<f32> = (0..3000).map(|_| random.range(-100.0, 100.0) as f32).collect();
    for k in -2001..=2001 {
        let edge = (f64::from(k) * PI) as f32;
        angles.extend([edge.next_down(), edge, edge.next_up()]);
    }
    let states: Vec<f32> = angles.iter().flat_map(|&x| [x, 0.0, 0.0]).collect();
    let mut out = vec![0.0; angles.len()];
    wrap.evaluate(angles.len(), &states, &[], &[], &mut out, &mut Scratch::default()).unwrap();
    for (x, y) in angles.into_iter().zip(out) {
        assert!((-std::f32::consts::PI..std::f32::consts::PI).contains(&y), "wrap({x}) = {y}");
        let turns = (f64::from(x) - f64::from(y)) / (2.0 * PI);
        assert!(
            (turns - turns.round()).abs() < 2e-7 * (1.0 + f64::from(x.abs())),
            "wrap({x}) = {y}"
        );
    }
}

#[test]
fn gradients_at_kinks_are_those_of_the_branch_taken() {
    let at = [1.0, 1.0, 0.0];
    assert_eq!(state_gradient("max(s[0], s[1])", at), [1.0, 0.0, 0.0]);
    assert_eq!(state_gradient("min(s[1], s[0])", at), [0.0, 1.0, 0.0]);
    assert_eq!(state_gradient("clamp(s[0], -1, 1)", at), [1.0, 0.0, 0.0]);
    assert_eq!(state_gradient("clamp(s[0], -0.5, 0.5)", at), [0.0; 3]);
    assert_eq!(state_gradient("abs(s[2])", at), [0.0; 3]);
}

#[test]
fn gradients_stay_finite_where_derivatives_do_not() {
    let zero = [0.0; 3];
    assert_eq!(state_gradient("sqrt(s[0])", zero), zero);
    assert_eq!(state_gradient("hypot(s[0], s[1])", zero), zero);
    assert_eq!(state_gradient("atan2(s[0], s[1])", zero), zero);
    assert_eq!(state_gradient("s[0]^0.3", zero), zero);
    assert_eq!(state_gradient("(s[0] - 2)^s[1]", zero), zero);
    assert_eq!(state_gradient("asin(s[0] + 1) + acos(s[0] - 1)", zero), zero);
    assert_eq!(state_gradient("-hypot(s[0], s[1]) + 2*s[0]", zero), [2.0, 0.0, 0.0]);
    // The branch not taken is NaN or infinite, in value and in derivative.
    assert_eq!(state_gradient("if(s[0] > 0, log(s[0]) / s[0], 3*s[0])", zero), [3.0, 0.0, 0.0]);
    assert_eq!(
        state_gradient("if(s[0] >= 0, s[1], exp(100 - s[0]) * sqrt(s[0] - 1))", zero),
        [0.0, 1.0, 0.0]
    );
    assert_eq!(state_gradient("max(s[0], -exp(100 + s[1]) * exp(s[2]))", zero), [1.0, 0.0, 0.0]);
    assert_eq!(value("if(s[0] > 0, s[0], 1/0)"), 3.0);
    assert_eq!(value("if(s[0] > 0, s[0], log(-s[0]))"), 3.0);
}

#[test]
fn nan_is_not_clamped_away() {
    for text in [
        "clamp(log(s[1]), 0, 1)",
        "min(1, log(s[1]))",
        "max(log(s[1]), 1, 2)",
        "max(2, log(s[1]))",
        "sign(log(s[1]))",
    ] {
        assert!(value(text).is_nan(), "{text}");
    }
}

#[test]
fn any_number_of_rows_gives_what_single_rows_give() {
    let texts = [
        "atan2(s[1], s[0])^2 - a[1]",
        "if(n[2] < s[0], exp(a[0]), n[0]*s[2])",
        "a[1]",
        "s[0] < n[0]",
    ];
    let program = Program::parse(&texts, STATE, ACTION, Scope::REWARD).unwrap();
    let mut scratch = Scratch::default();
    for rows in [0, 1, 63, 64, 65, 1000] {
        let mut random = Stream::new(rows as u64).generator();
        let mut draw = |n: usize| -> Vec<f32> { (0..n).map(|_| random.normal() as f32).collect() };
        let (s, a, n, d_out) = (draw(rows * 3), draw(rows * 2), draw(rows * 3), draw(rows * 4));
        let (mut d_s, mut d_a, mut d_n) = (draw(rows * 3), draw(rows * 2), draw(rows * 3));
        let (mut e_s, mut e_a, mut e_n) = (d_s.clone(), d_a.clone(), d_n.clone());
        let (mut out, mut single) = (vec![0.0; rows * 4], vec![0.0; rows * 4]);
        program.evaluate(rows, &s, &a, &n, &mut out, &mut scratch).unwrap();
        program
            .gradient(rows, [&s, &a, &n], &d_out, [&mut d_s, &mut d_a, &mut d_n], &mut scratch)
            .unwrap();
        for r in 0..rows {
            let (three, two, four) = (r * 3..r * 3 + 3, r * 2..r * 2 + 2, r * 4..r * 4 + 4);
            let (s, a, n) = (&s[three.clone()], &a[two.clone()], &n[three.clone()]);
            program.evaluate(1, s, a, n, &mut single[four.clone()], &mut scratch).unwrap();
            let (e_s, e_n) = (&mut e_s[three.clone()], &mut e_n[three]);
            program
                .gradient(1, [s, a, n], &d_out[four], [e_s, &mut e_a[two], e_n], &mut scratch)
                .unwrap();
        }
        assert_eq!(out, single, "{rows} rows");
        assert_eq!((d_s, d_a, d_n), (e_s, e_a, e_n), "gradients of {rows} rows");
    }
}

#[test]
fn shared_terms_are_computed_once_and_constants_at_build_time() {
    let count = |texts: &[&str]| {
        Program::parse(texts, STATE, ACTION, Scope::REWARD).unwrap().instructions().len()
    };
    assert_eq!(count(&["s[0]*s[1] + s[1]*s[0]"]), 4); // two inputs, one product, one sum
    assert_eq!(count(&["2*3 + sin(0) - 6^0.5*4"]), 1);
    assert_eq!(count(&["1/0"]), 3); // not a number to be written down
    assert_eq!(count(&["s[0]^4"]), 3); // input, square, square of the square
    assert_eq!(count(&["hypot(s[0], s[1]) + s[0]^2"]), 7); // the square is shared
    assert_eq!(count(&["if(1 < 2, s[0], sin(s[1]))"]), 1); // the branch never taken is gone
    let energy = "(0.5*s[2]^2 + 9.81*(cos(s[0]) - 1))";
    let outputs = [format!("-{energy}*s[2]"), format!("sign({energy}) - s[1]")];
    let alone = count(&[&outputs[0]]);
    assert_eq!(count(&[&outputs[0], &outputs[1]]), alone + 3, "sign, s[1] and the difference");
    assert_eq!(count(&[&outputs[0], &outputs[0]]), alone);
}

#[test]
fn scratch_is_kept() {
    let (small, large) = (program("s[0]"), program("sin(s[0]) + exp(s[1])*s[2]"));
    let mut scratch = Scratch::default();
    let mut run = |program: &Program| {
        let (s, mut d_s, mut out) = (vec![1.0; 300], vec![0.0; 300], vec![0.0; 100]);
        program.evaluate(100, &s, &[], &[], &mut out, &mut scratch).unwrap();
        program
            .gradient(100, [&s, &[], &[]], &out, [&mut d_s, &mut [], &mut []], &mut scratch)
            .unwrap();
        (
            scratch.values.as_ptr(),
            scratch.adjoints.as_ptr(),
            scratch.values.len(),
            scratch.adjoints.len(),
        )
    };
    let first = run(&large);
    assert_eq!(run(&small), first);
    assert_eq!(run(&large), first);
}

#[test]
fn a_program_knows_what_it_uses_and_whether_it_has_a_gradient() {
    let about = |text: &str| {
        let p = program(text);
        [p.uses_state(), p.uses_action(), p.uses_next_state(), p.has_gradient()]
    };
    assert_eq!(about("s[0] < 0.7 || floor(n[1]) > 0.2"), [true, false, true, false]);
    assert_eq!(about("if(s[0] > 0, 1, -1) * sign(a[0]) + !n[0]"), [true, true, true, false]);
    assert_eq!(about("if(s[0] > 0, a[0], -1)"), [true, true, false, true]);
    assert_eq!(about("3"), [false; 4]);
    assert_eq!(about("if(0, n[0], 3)"), [false; 4]);
    let p = Program::parse(&["s[0] ", "a[1]"], STATE, ACTION, Scope::REWARD).unwrap();
    assert_eq!(p.texts(), ["s[0] ", "a[1]"]);
    assert_eq!(program("-s[0]^2").to_string(), "-s[0]^2");
    assert_eq!(p.outputs().len(), 2);
}

#[test]
fn slices_of_the_wrong_length_are_refused() {
    let p = program("s[0] + n[1]");
    let scratch = &mut Scratch::default();
    let message = |result: Result<()>| result.unwrap_err().to_string();
    assert_eq!(
        message(p.evaluate(2, &[0.0; 6], &[], &[], &mut [0.0; 2], scratch)),
        "the next state holds 0 values, expected 2 rows of 3"
    );
    assert_eq!(
        message(p.evaluate(2, &[0.0; 6], &[0.0; 3], &[0.0; 6], &mut [0.0; 2], scratch)),
        "the action holds 3 values, expected 2 rows of 2"
    );
    assert_eq!(
        message(p.evaluate(2, &[0.0; 6], &[], &[0.0; 6], &mut [0.0; 3], scratch)),
        "the output holds 3 values, expected 2 rows of 1"
    );
    let d_s = &mut [0.0; 5];
    assert_eq!(
        message(p.gradient(
            2,
            [&[0.0; 6], &[], &[0.0; 6]],
            &[1.0; 2],
            [d_s, &mut [], &mut []],
            scratch
        )),
        "the gradient of the state holds 5 values, expected 2 rows of 3"
    );
    assert!(p.evaluate(usize::MAX, &[0.0; 6], &[], &[0.0; 6], &mut [0.0; 2], scratch).is_err());
}
