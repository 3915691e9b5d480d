//! Controllers for the built-in environments, written as expressions with named gains.

use super::Policy;
use crate::{Error, Result};
use hambo_engine::expression::{Program, Scope};
use hambo_engine::spelling::edit_distance;

/// Letters that a name may be off by and still be meant.
const MISSPELLED: usize = 3;

/// A family of controllers.
struct Builtin {
    name: &'static str,
    state_dim: usize,
    /// Names of the gains, with their defaults.
    gains: &'static [(&'static str, f64)],
    /// Named subexpressions; each may use those before it.
    terms: &'static [(&'static str, &'static str)],
    /// One expression per action; `{name}` stands for a gain or a term.
    actions: &'static [&'static str],
}

const BUILTINS: [Builtin; 3] = [
    // π_y of the paper's PointSafety: in straight lines to (0, y), then to the goal (2, 0).
    Builtin {
        name: "waypoint",
        state_dim: 2,
        gains: &[("y", 1.6), ("speed", 0.5)],
        terms: &[
            ("dx", "if(s[0] < -0.02, 0, 2) - s[0]"),
            ("dy", "if(s[0] < -0.02, {y}, 0) - s[1]"),
            ("pace", "min(1, {speed} / max(1e-6, hypot({dx}, {dy})))"),
        ],
        actions: &["{dx} * {pace}", "{dy} * {pace}"],
    },
    // Straight to the origin.
    Builtin {
        name: "proportional",
        state_dim: 2,
        gains: &[("gain", 0.5)],
        terms: &[],
        actions: &["-{gain} * s[0]", "-{gain} * s[1]"],
    },
    // Pumps energy until the pendulum is near the top, where a linear controller balances it. The energy
    // θ̇²/2 + 15 cos θ of Pendulum-v1 (m = l = 1, g = 10) is 15 at rest on top.
    Builtin {
        name: "swing-up",
        state_dim: 3,
        gains: &[("energy", 0.3), ("angle", 8.0), ("rate", 2.0), ("switch", 0.7)],
        terms: &[
            ("missing", "15 - s[2]^2 / 2 - 15 * s[0]"),
            ("pump", "{energy} * s[2] * {missing}"),
            ("balance", "-({angle} * atan2(s[1], s[0]) + {rate} * s[2])"),
        ],
        actions: &["clamp(if(s[0] > {switch}, {balance}, {pump}), -2, 2)"],
    },
];

/// All names, for messages.
pub(super) fn names() -> String {
    let describe = |b: &Builtin| {
        let gains: Vec<String> =
            b.gains.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("{} (gains {})", b.name, gains.join(","))
    };
    BUILTINS.iter().map(describe).collect::<Vec<_>>().join(", ")
}

/// The built-in policy that may have been meant, for messages; empty where none is near.
pub(super) fn hint(name: &str) -> String {
    let name = name.split(',').next().unwrap_or_default();
    let near = BUILTINS.iter().find(|b| edit_distance(name, b.name) <= MISSPELLED);
    near.map_or(String::new(), |b| format!(" (did you mean builtin:{}?)", b.name))
}

/// `NAME` or `NAME,gain=value,…`
pub(super) fn read(spec: &str, text: &str) -> Result<Policy> {
    let problem = |message: String| Error::Mismatch(format!("policy {spec:?}: {message}"));
    let mut parts = text.split(',');
    let name = parts.next().unwrap_or_default();
    let builtin = BUILTINS.iter().find(|b| b.name == name).ok_or_else(|| {
        problem(format!("no built-in policy {name:?}{}; there are {}", hint(name), names()))
    })?;
    let mut gains = builtin.gains.to_vec();
    for part in parts {
        let (key, value) =
            part.split_once('=').ok_or_else(|| problem(format!("{part:?} is not gain=value")))?;
        let gain = gains
            .iter_mut()
            .find(|(name, _)| *name == key)
            .ok_or_else(|| problem(format!("{name} has no gain {key:?}; there are {}", names())))?;
        gain.1 = value
            .parse()
            .ok()
            .filter(|v: &f64| v.is_finite())
            .ok_or_else(|| problem(format!("{key} = {value:?}: expected a finite number")))?;
    }
    // Terms from the last to the first, since each may use those before it; then the gains.
    let terms = builtin.terms.iter().rev().map(|(name, text)| (*name, (*text).to_owned()));
    let gains = gains.iter().map(|(name, value)| (*name, format!("{value:?}")));
    let words: Vec<(&str, String)> = terms.chain(gains).collect();
    let write = |action: &&str| {
        words.iter().fold((*action).to_owned(), |text, (name, value)| {
            text.replace(&format!("{{{name}}}"), &format!("({value})"))
        })
    };
    let actions: Vec<String> = builtin.actions.iter().map(write).collect();
    let actions: Vec<&str> = actions.iter().map(String::as_str).collect();
    let program = Program::parse(&actions, builtin.state_dim, actions.len(), Scope::CONTROLLER)?;
    Ok(Policy::controller(spec, builtin.state_dim, program))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hambo_engine::backend::Device;

    fn act(spec: &str, state: &[f32]) -> Vec<f32> {
        let device = Device::cpu(Some(1)).unwrap();
        let policy = Policy::read(spec).unwrap();
        let mut action = device.zeros(policy.action_dim);
        policy.act(&device, &device.upload(state), &mut action);
        device.download(&action).unwrap()
    }

    #[test]
    fn waypoint_goes_in_two_straight_lines() {
        let norm = (4.0f32 + 1.1 * 1.1).sqrt();
        let first = act("builtin:waypoint,y=1.1", &[-2.0, 0.0]);
        assert!(
            (first[0] - 0.5 * 2.0 / norm).abs() < 1e-6
                && (first[1] - 0.5 * 1.1 / norm).abs() < 1e-6
        );
        assert_eq!(act("builtin:waypoint,y=1.1", &[-0.25, 1.1]), [0.25, 0.0], "does not overshoot");
        let second = act("builtin:waypoint,y=1.1", &[0.0, 1.1]);
        assert!((second[0] - first[0]).abs() < 1e-6 && (second[1] + first[1]).abs() < 1e-6);
        assert_eq!(act("builtin:waypoint", &[2.0, 0.0]), [0.0, 0.0], "rests at the goal");
    }

    #[test]
    fn swing_up_pumps_below_and_balances_above() {
        // Hanging and moving: torque along the motion, 0.3 · 1 · (15 + 15 − ½).
        assert_eq!(act("builtin:swing-up", &[-1.0, 0.0, 1.0]), [2.0]);
        assert_eq!(act("builtin:swing-up", &[-1.0, 0.0, -1.0]), [-2.0]);
        let (sin, cos) = 0.1f32.sin_cos();
        assert!((act("builtin:swing-up", &[cos, sin, 0.05])[0] + 0.9).abs() < 1e-5);
        assert!((act("builtin:swing-up,angle=4,rate=0", &[cos, sin, 0.05])[0] + 0.4).abs() < 1e-5);
    }

    #[test]
    fn mistakes_are_named() {
        for (spec, part) in [
            (
                "builtin:swingup",
                "no built-in policy \"swingup\" (did you mean builtin:swing-up?); there are",
            ),
            ("swing-up", "not a kind of policy that can be read (did you mean builtin:swing-up?)"),
            ("builtin:swing-up,kp=1", "no gain \"kp\""),
            ("builtin:swing-up,angle", "\"angle\" is not gain=value"),
            ("builtin:swing-up,angle=nan", "expected a finite number"),
            ("agent.bin", "not a kind of policy"),
        ] {
            let error = Policy::read(spec).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
