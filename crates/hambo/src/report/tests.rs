//! Pages from answers that are made up: what a run cannot be asked for, the page must still tell right.

use super::*;
use crate::adversary::SearchConfig;
use crate::confidence::Evidence;
use crate::confidence::theory::TheoryReport;
use crate::dynamics::{GpReport, Layout, ModelReport};
use crate::evaluate::Score;
use crate::evaluate::{ConstraintBound, LoggedReturn, Truth};
use crate::evaluate::{Estimate, MONTE_CARLO_SHARE, Method};
use crate::explain::regions::{Bounds, Side};
use crate::explain::support::SupportReport;
use crate::explain::trace::Region;
use crate::task::{TaskSummary, Termination};
use serde_json::{Value, json};

fn estimate(method: Method, value: f64, lower_bound: Option<f64>) -> Estimate {
    Estimate {
        subtracted: 0.0,
        starts_margin: 0.0,
        floor: -15.0,
        evidence: Some(Evidence::Supported),
        enough_evidence: true,
        method,
        value,
        std_error: 0.5,
        lower_bound,
        neutral: None,
        risk: None,
        converged: None,
        diverged_rollouts: 0,
        left_rollouts: 0,
        far_rollouts: 0,
        rollouts: 200,
        particles: Vec::new(),
    }
}

fn setup() -> Setup {
    let fit = ModelReport::Gp(GpReport {
        hyperparameters: Vec::new(),
        learned_on: None,
        log_likelihood: 0.0,
        jitter: 0.0,
        rows: 600,
        data_rows: 600,
        subset: false,
        constant_targets: Vec::new(),
    });
    let layout = Layout { observed: 2, angles: Vec::new(), reward: false };
    Setup {
        schema: SCHEMA,
        version: "0.1.0",
        device: "cpu".to_owned(),
        task: "point-safety".to_owned(),
        declared: TaskSummary {
            reward: "-1".to_owned(),
            termination: Termination::None,
            initial: "logged".to_owned(),
            action_low: vec![-1.0],
            action_high: vec![1.0],
            angles: Vec::new(),
            worst_reward: -1.0,
        },
        data: DataSummary { transitions: 600, episodes: 40, sha256: Some("ab".to_owned()) },
        stochastic: false,
        policy_noise: 0.0,
        horizon: 15,
        discount: 1.0,
        delta: 0.05,
        monte_carlo_share: MONTE_CARLO_SHARE,
        risk: None,
        threshold: None,
        model: ModelSummary { kind: fit.kind(), fit, tau: Vec::new(), layout },
        search: SearchConfig::default(),
        names: EntryNames {
            state: vec!["x".to_owned(), "y".to_owned()],
            action: vec!["u".to_owned()],
        },
        settings: RunSettings {
            rollouts: 200,
            beta: "trajectory".to_owned(),
            model: json!({"gp": {}}),
        },
        seed: 0,
        seconds: 1.0,
        notes: Vec::new(),
        command: "hambo evaluate".to_owned(),
        page: None,
    }
}

fn support() -> SupportReport {
    SupportReport {
        trajectories: 200,
        steps: vec![0, 1],
        uncertainty: Vec::new(),
        distance: Vec::new(),
        outside: vec![0.25, 0.75],
        beyond_range: Vec::new(),
        mean_deviation: 0.0,
    }
}

fn answer(bound: f64) -> Answer {
    Answer {
        setup: setup(),
        policy: "builtin:waypoint".to_owned(),
        policy_sha256: None,
        policy_normalizer: None,
        estimates: vec![
            estimate(Method::Ca, -12.5, Some(bound)),
            estimate(Method::Ds, -11.0, None),
        ],
        lower_bound: Some(bound),
        evidence: Some(Evidence::Supported),
        level: Some(0.95),
        waterfall: Vec::new(),
        logged_return: LoggedReturn { value: -12.0, std_error: 0.25, episodes: 40, shorter: 0 },
        largest_threshold: Some(bound),
        delta_each: 0.05,
        constraints: Vec::new(),
        verdict: None,
        outcome: None,
        vacuous: false,
        truth: None,
        theory: None,
        support: support(),
        confidence_set: None,
        adversary: None,
        adversary_da1: None,
        explanation: None,
        curves: None,
        warnings: Vec::new(),
        warning_ranks: Vec::new(),
        summary: String::new(),
        why: None,
    }
}

#[test]
fn the_line_for_a_log_says_what_was_decided() {
    let mut a = answer(-13.785);
    assert_eq!(a.headline(), "BOUND -13.79, confidence 95 %");
    a.setup.threshold = Some(-20.0);
    a.verdict = Some(Verdict::Meets);
    assert_eq!(a.headline(), "MEETS the threshold: bound -13.79 against -20.00, confidence 95 %");
    a.setup.threshold = Some(-10.0);
    a.verdict = Some(Verdict::NotShown);
    assert_eq!(a.headline(), "NOT SHOWN: bound -13.79 against -10.00, confidence 95 %");
    a.setup.threshold = Some(-20.0);
    a.estimates[0].converged = Some(false);
    a.verdict = Some(Verdict::NotEnoughEvidence);
    let unconverged =
        "NOT ENOUGH EVIDENCE: bound -13.79 against -20.00, not shown: the search had not converged";
    assert_eq!(a.headline(), unconverged);
    assert!(!html(&a).contains("confidence 95"), "nothing was shown");
    a.verdict = Some(Verdict::NotShown);
    a.estimates[0].converged = Some(true);
    a.delta_each = 0.025;
    a.constraints = vec![ConstraintBound {
        name: "speed".to_owned(),
        expression: "-s[0]".to_owned(),
        estimates: vec![estimate(Method::Ca, -2.0, Some(-3.0))],
        lower_bound: Some(-3.0),
        threshold: Some(-1.0),
        met: Some(false),
        set: None,
        search: None,
        search_members: None,
    }];
    assert_eq!(
        a.headline(),
        "NOT SHOWN for constraint speed: bound -3.00 against -1.00, confidence 97.5 %"
    );
    assert!(html(&a).contains("<b class=\"bad\">NOT SHOWN</b>"));
    assert!(markdown(&a).contains("| speed | -3.00 | -1.00 | not shown |"));
    assert!(a.to_string().ends_with(&a.headline()), "{a}");
    a.estimates = vec![estimate(Method::Ds, -11.0, None)];
    assert!(a.headline().starts_with("NO BOUND: ds is a neutral estimate, -11.00"));
}

#[test]
fn the_three_words_say_what_was_shown() {
    let supported = estimate(Method::Ca, -12.5, Some(-13.0));
    let of = |e: &Estimate, threshold| Verdict::of_one(e, threshold).words();
    assert_eq!((of(&supported, -14.0), of(&supported, -12.0)), ("MEETS", "NOT SHOWN"));
    let doubtful = [
        Estimate { converged: Some(false), ..supported.clone() },
        Estimate {
            evidence: Some(Evidence::Unsupported),
            enough_evidence: false,
            ..supported.clone()
        },
    ];
    for doubtful in doubtful {
        for threshold in [-14.0, -12.0] {
            assert_eq!(of(&doubtful, threshold), "NOT ENOUGH EVIDENCE", "{threshold}");
        }
        let mut a = answer(-13.0);
        a.estimates[0] = doubtful;
        for text in [a.headline(), html(&a), markdown(&a), a.to_string()] {
            assert!(!text.contains("confidence 95"), "{text}");
        }
    }
    let accepted = Estimate { evidence: Some(Evidence::Unsupported), ..supported.clone() };
    assert_eq!((of(&accepted, -14.0), of(&accepted, -12.0)), ("MEETS", "NOT SHOWN"));
    let mut a = answer(-13.0);
    (a.verdict, a.evidence, a.estimates[0]) = (Some(Verdict::Meets), accepted.evidence, accepted);
    assert!(!a.to_string().contains("the logs show that"), "an extrapolation that was accepted");
    assert!(a.to_string().contains("accepted as an extrapolation"), "{a}");
    // The words of the JSON's `verdict` stay as they were.
    let names = [Verdict::Meets, Verdict::NotShown, Verdict::NotEnoughEvidence];
    assert_eq!(json!(names), json!(["meets", "fails", "not enough evidence"]));
    assert_eq!(json!(names), json!(names.map(Verdict::name)));
}

#[test]
fn a_bound_that_says_nothing_is_called_vacuous() {
    for (bound, vacuous) in [(-14.99, false), (-15.0, true), (-20.0, true)] {
        let mut a = answer(bound);
        a.vacuous = a.estimates[0].is_vacuous();
        assert_eq!(a.vacuous, vacuous, "{bound}");
        assert_eq!(a.headline().contains("vacuous: no better than the worst reward"), vacuous);
        assert_eq!(html(&a).contains("is vacuous: it is no better than the worst reward"), vacuous);
        assert_eq!(a.headline().contains("confidence"), !vacuous);
    }
    let below = estimate(Method::Ca, -18.0, Some(-20.0));
    assert!(!below.is_vacuous(), "where worse than the floor was simulated, it is none");
}

#[test]
fn a_bound_of_minus_infinity_is_told_as_such() {
    let mut a = answer(f64::NEG_INFINITY);
    a.setup.threshold = Some(-20.0);
    a.verdict = Some(Verdict::NotShown);
    assert_eq!(
        a.headline(),
        "NOT SHOWN: bound -∞ against -20.00, vacuous: no better than the worst reward at every step, -15.00"
    );
    let page = html(&a);
    assert!(page.contains("there is no finite bound") && page.contains("◄ -∞"));
    assert!(!page.contains("NaN"), "{page}");
    a.estimates[0].value = f64::NEG_INFINITY;
    assert!(html(&a).contains("◄ -∞"));
    assert!(markdown(&a).contains("| ca | conservative | -∞ | 0.50 | -∞ |"));
    let result = json!(a);
    assert_eq!((&result["lower_bound"], &result["verdict"]), (&Value::Null, &json!("fails")));
}

#[test]
fn nothing_is_said_of_a_truth_that_is_not_known() {
    let mut a = answer(-13.0);
    assert!(!html(&a).contains("truth is known"));
    a.truth = Some(Truth { value: -13.5, std_error: 0.1, episodes: 50 });
    assert!(html(&a).contains("The bound is above it: it does not hold here."));
    a.truth = Some(Truth { value: -12.0, std_error: 0.1, episodes: 50 });
    assert!(html(&a).contains("The bound holds."));
    assert!(markdown(&a).contains("True return: -12.00 ± 0.10, by simulation of 50 episodes."));
}

#[test]
fn names_are_text() {
    let mut a = answer(-13.0);
    let name = "</script><script>alert(1)</script>".to_owned();
    (a.policy, a.setup.task) = (name.clone(), name.clone());
    a.warnings = vec![crate::evaluate::Warning::Note(name.clone())];
    a.setup.names.state[0] = name.clone();
    let sides = vec![
        Side { coordinate: 0, low: None, high: Some(1.0) },
        Side { coordinate: 2, low: Some(0.5), high: None },
    ];
    a.explanation = Some(Explanation {
        method: Method::Ca,
        trajectories: 200,
        neutral: -10.0,
        hallucinated: -14.0,
        loss: 4.0,
        dimensions: Vec::new(),
        spans: Vec::new(),
        loss_alone: Vec::new(),
        worst: Vec::new(),
        regions: vec![Region {
            bounds: Bounds { sides },
            loss: 2.0,
            share: 0.5,
            visits: 0.1,
            logged: 6,
            least_known: (1, 4.0),
        }],
    });
    assert!(!html(&a).contains("<script>alert"));
    assert_eq!(html(&a).matches("</script>").count(), 3);
    assert!(!markdown(&a).contains("<script>"));
    let words = &a.regions_in_words()[0];
    assert!(
        words.starts_with(&format!("Log data where {name} is at most 1.00 and u is above 0.500. ")),
        "{words}"
    );
    assert!(
        words
            .contains("6 of the logged transitions (1 %) are; the model knows y least, 4.00 times"),
        "{words}"
    );
    a.estimates[0].std_error = 1.5; // 95 % of it are more than the 2 that the region costs
    assert!(a.regions_in_words().is_empty());
    assert!(html(&a).contains("costs more than the Monte-Carlo error"));
}

#[test]
fn a_ranking_names_the_best() {
    let policy = |name: &str, bound: f64, verdict| RankedPolicy {
        policy: name.to_owned(),
        name: name.to_owned(),
        policy_sha256: None,
        policy_normalizer: None,
        lower_bound: Some(bound),
        verdict: Some(verdict),
        truth: Some(Truth { value: bound + 1.0, std_error: 0.1, episodes: 50 }),
        estimates: vec![estimate(Method::Ca, bound + 0.5, Some(bound))],
        constraints: Vec::new(),
        support: support(),
        confidence_set: None,
        adversary: None,
        adversary_da1: None,
        warnings: Vec::new(),
    };
    let ranking = Ranking {
        setup: Setup { delta: 0.06, threshold: Some(-5.0), ..setup() },
        policies: vec![policy("a<b>", -4.0, Verdict::Meets), policy("b", -6.0, Verdict::NotShown)],
        scores: vec![Score {
            method: Method::Ca,
            spearman: Some(1.0),
            regret_at_1: 0.0,
            violation_rate: 0.0,
            gap: 1.0,
        }],
        delta_each: Some(0.02),
        verdict: Some(Verdict::Meets),
        outcome: None,
        warnings: Vec::new(),
        warning_ranks: Vec::new(),
        summary: String::new(),
    };
    let expected = "MEETS: 1 of 2 policies reach -5.00; best bound: a<b>, -4.00, confidence 94 % for all together";
    assert_eq!(ranking.headline(), expected);
    let page = ranking_html(&ranking);
    assert!(page.contains("a&lt;b&gt;") && !page.contains("a<b>"));
    assert!(page.contains("<td>ca</td><td>1.000</td><td>0.00</td><td>0 %</td><td>1.00</td>"));
    assert!(ranking_markdown(&ranking).contains("| 2 | b | -6.00 | -5.50 | -5.00 | not shown |"));
    assert!(ranking.to_string().ends_with(expected));
}

#[test]
fn the_theory_says_what_it_needs() {
    let mut a = answer(-13.0);
    assert!(!html(&a).contains("What the theory says"));
    let theory = TheoryReport {
        all_data: false,
        information_gain: 12.5,
        information_rate: 800.0,
        posterior_norm: 3.0,
        norm_bound: None,
        beta: None,
        beta_literal: None,
        metric_constant: 0.25,
        deviation_constant: 0.5,
        dynamics_constant: None,
        lipschitz: None,
        barred: None,
        log10_gap_constant: None,
        mean_deviation: 0.1,
        log10_gap: None,
    };
    a.theory = Some(theory.clone());
    let page = html(&a);
    assert!(
        page.contains("<td>information gain</td><td>12.5</td>")
            && page.contains("<td>β_n(δ)</td><td>–</td>")
    );
    assert!(page.contains("no longer applies") && page.contains("needs B: --norm-bound"));
    a.theory = Some(TheoryReport { all_data: true, log10_gap: Some(7.25), ..theory });
    let page = html(&a);
    assert!(page.contains("<td>worst-case gap</td><td>10<sup>7.2</sup></td>"));
    assert!(!page.contains("no longer applies"));
}
