//! Errors to the letter, and text that means harm.

use super::*;
use crate::expression::parse::{MAX_DEPTH, MAX_LENGTH};

fn error(text: &str, scope: Scope) -> (usize, String) {
    match Program::parse(&[text], STATE, ACTION, scope) {
        Err(Error::Expression { position, message, .. }) => (position, message),
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn errors_say_where_and_what_was_expected() {
    let cases = [
        ("", 0, "expected a value, found the end"),
        ("1 +", 3, "expected a value, found the end"),
        ("1 + * 2", 4, "expected a value, found `*`"),
        ("(1 + 2", 6, "expected `)`, found the end"),
        ("1 + 2)", 5, "expected an operator or the end, found `)`"),
        ("2 s[0]", 2, "expected an operator or the end, found `s`"),
        ("s[3]", 2, "`s[3]`: the state has 3 entries, s[0] to s[2]"),
        (
            "1 + a[99999999999999999999]",
            6,
            "`a[99999999999999999999]`: the action has 2 entries, a[0] to a[1]",
        ),
        ("s[1.5]", 2, "expected a whole number, found `1.5`"),
        ("s[-1]", 2, "expected a whole number, found `-`"),
        ("s[", 2, "expected a whole number, found the end"),
        ("s[0", 3, "expected `]`, found the end"),
        ("s + 1", 2, "expected `[`, found `+`"),
        ("2*atn2(1, 2)", 2, "unknown function `atn2`: did you mean `atan2`?"),
        ("sigmiod(1)", 0, "unknown function `sigmiod`: did you mean `sigmoid`?"),
        ("x", 0, "unknown name `x`: expected s[i], a[i], n[i], r, pi or a function"),
        ("sin", 3, "expected `(`, found the end"),
        ("sin(1, 2)", 0, "`sin` takes 1 argument, found 2"),
        ("1+atan2(1)", 2, "`atan2` takes 2 arguments, found 1"),
        ("if(1, 2)", 0, "`if` takes 3 arguments, found 2"),
        ("min()", 0, "`min` takes 2 or more arguments, found 0"),
        ("hypot(1)", 0, "`hypot` takes 2 or more arguments, found 1"),
        ("max(1, 2", 8, "expected `,` or `)`, found the end"),
        ("0 < s[0] < 1", 9, "comparisons do not chain: write `x < y && y < z`, or use parentheses"),
        ("s[0] = 1", 5, "`=` is not an operator: write `==`"),
        ("1 & 2", 2, "`&` is not an operator: write `&&`"),
        ("1 + é", 4, "'é' has no meaning here"),
        ("1e", 0, "`1e` is not a number"),
        ("2 * .", 4, "`.` is not a number"),
        ("1e99", 0, "`1e99` is too large"),
    ];
    for (text, position, message) in cases {
        assert_eq!(error(text, Scope::REWARD), (position, message.to_string()), "{text}");
    }
    let no_next = Scope { next_state: false, ..Scope::REWARD };
    assert_eq!(
        error("a[0] + n[0]", no_next),
        (7, "`n`, the next state, cannot be used here".into())
    );
    assert_eq!(
        error("s[0]*a[0]", Scope::CONTROLLER),
        (5, "`a`, the action, cannot be used here".into())
    );
    assert_eq!(
        Program::parse(&["s[1]"], 1, 1, Scope::REWARD).unwrap_err().to_string(),
        "`s[1]`: the state has 1 entry, s[0] (at position 2 of \"s[1]\")"
    );
}

#[test]
fn the_learned_reward_is_the_change_of_what_was_paid() {
    let program = Program::parse(&["2*r - s[1]"], 2, 1, Scope::REWARD).unwrap();
    assert!(program.uses_reward(2) && program.has_gradient());
    let mut out = [0.0];
    let (s, n) = ([0.0, 3.0, 10.0], [0.0, 0.0, 10.5]); // what was paid so far stands behind the state
    program.evaluate(1, &s, &[], &n, &mut out, &mut crate::expression::Scratch::default()).unwrap();
    assert_eq!(out, [2.0 * 0.5 - 3.0]);
    assert!(!Program::parse(&["s[1]"], 2, 1, Scope::REWARD).unwrap().uses_reward(2));
    assert_eq!(
        error("r", Scope::CONTROLLER),
        (0, "`r`, the learned reward, cannot be used here".into())
    );
    assert_eq!(error("r[0]", Scope::REWARD).0, 1);
}

#[test]
fn deep_and_long_text_is_refused_before_it_does_harm() {
    let deep = format!("nested more than {MAX_DEPTH} levels deep");
    for opening in ["(", "-", "!", "2^", "sin(", "min(1,", "2^-("] {
        let text = opening.repeat(MAX_LENGTH / opening.len());
        assert_eq!(error(&text, Scope::REWARD).1, deep, "{opening}");
    }
    let text = "é(".repeat(100_000);
    assert_eq!(error(&text, Scope::REWARD).1, "300000 bytes: an expression may have 16384");
    let nested = |levels: usize| format!("{}1{}", "(".repeat(levels), ")".repeat(levels));
    assert_eq!(value(&nested(MAX_DEPTH - 1)), 1.0);
    assert_eq!(error(&nested(MAX_DEPTH), Scope::REWARD), (MAX_DEPTH, deep));
    // Long and flat is fine: only nesting costs stack, and what was nested and closed is forgotten.
    assert_eq!(value(&format!("0{}", "+((1))".repeat(2000))), 2000.0);
}

#[test]
fn no_text_makes_it_panic() {
    const TOKENS: [&str; 40] = [
        "s[0]", "a[1]", "n[2]", "s", "[", "]", "(", ")", ",", "+", "-", "*", "/", "^", "<", "<=",
        ">", ">=", "==", "!=", "&&", "||", "!", "0", "1", "1e-3", "0.5", "7", "pi", "if(", "min(",
        "hypot(", "clamp(", "wrap(", "log(", "sqrt(", "atan2(", "é", " ", "1e38",
    ];
    const TEMPLATES: [&str; 14] = [
        "(X) ^ 2.5",
        "(X) ^ -3",
        "a[0] ^ (X)",
        "s[2] / (X)",
        "(X) - n[0] * s[2]",
        "log(X)",
        "hypot(X, a[1], 1)",
        "sqrt(X)",
        "wrap(X)",
        "if(a[0] < s[1], X, n[2])",
        "if(X, s[1], a[0])",
        "clamp(X, a[0], -1)",
        "atan2(X, n[2])",
        "exp(X) < 3",
    ];
    let mut random = Stream::new(11).child("fuzz").generator();
    let mut scratch = Scratch::default();
    let mut accepted = 0;
    for round in 0..60_000 {
        let length = random.below(12);
        let text = match round % 3 {
            0 => (0..length).map(|_| TOKENS[random.below(TOKENS.len())]).collect(),
            1 => {
                let bytes: Vec<u8> = (0..length * 2).map(|_| random.bits() as u8).collect();
                String::from_utf8_lossy(&bytes).into_owned()
            }
            // Well-formed, so that wild values reach every instruction.
            _ => (0..length).fold("s[0]".to_string(), |text, _| {
                TEMPLATES[random.below(TEMPLATES.len())].replace('X', &text)
            }),
        };
        match Program::parse(&[&text], STATE, ACTION, Scope::REWARD) {
            Ok(program) => {
                accepted += 1;
                let (s, a, n) = ([0.0, -1.0, f32::INFINITY], [f32::NAN, 1.0], [1e30, 0.5, -0.0]);
                let (mut d_s, mut d_a, mut out) = ([0.0; 3], [0.0; 2], [0.0]);
                program.evaluate(1, &s, &a, &n, &mut out, &mut scratch).unwrap();
                program
                    .gradient(1, [&s, &a, &n], &[1.0], [&mut d_s, &mut d_a, &mut []], &mut scratch)
                    .unwrap();
            }
            Err(Error::Expression { position, .. }) => {
                assert!(text.is_char_boundary(position), "{text}")
            }
            Err(other) => panic!("{text}: {other}"),
        }
    }
    assert!(accepted > 20_000, "only {accepted} texts were read to the end: the test tests little");
}
