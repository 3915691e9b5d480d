//! When a search has converged depends on what its adversary achieves, not on where rewards have their 0 or on their unit.

use super::*;

fn paying(reward: &str) -> SearchReport {
    let reward = Program::parse(&[reward], 2, 2, Scope::REWARD).unwrap();
    run_on(&Task { reward, ..task() }, BETA, &small(Optimizers::Pathwise))
}

#[test]
fn a_constant_added_to_the_reward_shifts_the_values_and_nothing_else() {
    let plain = paying("s[0] - 2 * s[1]");
    assert!(plain.converged && plain.iterations < 150, "{plain:?}");
    for constant in [1000.0, -1000.0] {
        let shifted = paying(&format!("s[0] - 2 * s[1] + {constant:?}"));
        let by = (0..HORIZON).map(|t| DISCOUNT.powi(t as i32) * constant).sum::<f64>();
        assert_eq!((shifted.converged, shifted.iterations), (true, plain.iterations));
        assert!((shifted.std_error - plain.std_error).abs() < 1e-3 * plain.std_error);
        for (shifted, plain) in [(shifted.neutral, plain.neutral), (shifted.lowest, plain.lowest)] {
            assert!((shifted - by - plain).abs() < 0.02, "{shifted} − {by}, not {plain}");
        }
    }
}

#[test]
fn the_unit_of_rewards_does_not_matter() {
    let plain = paying("s[0] - 2 * s[1]");
    for factor in [1000.0, 0.001] {
        let scaled = paying(&format!("{factor:?} * (s[0] - 2 * s[1])"));
        assert_eq!((scaled.converged, scaled.iterations), (plain.converged, plain.iterations));
        for (scaled, plain) in [(scaled.neutral, plain.neutral), (scaled.lowest, plain.lowest)] {
            let scaled = scaled / factor;
            assert!((scaled - plain).abs() < 1e-2 * plain.abs(), "{scaled}, not {plain}");
        }
    }
}

#[test]
fn reports_keep_what_slack_is_made_of() {
    let report = paying("s[0] - 2 * s[1]");
    let mut arrays = crate::run::checkpoint::Arrays::default();
    report.store(&mut arrays);
    assert_eq!(SearchReport::restore(&arrays).unwrap(), report);
    assert!(report.std_error > 0.0);
}
