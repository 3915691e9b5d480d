//! Where there is no answer, none is given: nothing here may say that a threshold is met.

use super::*;

/// The result of an evaluation whose threshold, however low, must not be met.
fn fails(place: &Place, line: &str) -> Value {
    let run = place.hambo(&format!("{line} --threshold=-1e30 --json"));
    assert_eq!((run.code, run.stderr.as_str()), (Some(1), ""), "hambo {line}\n{}", run.stdout);
    let result = object(&run.stdout);
    assert_eq!(result["verdict"], "fails");
    result
}

#[test]
fn a_model_of_other_data_is_refused_by_every_method() {
    let place = Place::with_data();
    place.succeeds(&format!("{EVALUATE} --out run"));
    // As many rows of the same system, and not one of them the same.
    place.succeeds(&COLLECT.replace("--seed 1", "--seed 2"));
    for methods in ["ca", "da1", "dainf", "ds", "mean"] {
        let line =
            EVALUATE.replace("--model-config small.json", "--fitted run").replace(METHODS, methods);
        place.refuses(&line, &["the model was fitted on other data", "SHA-256", "fit a new one"]);
    }
    place.succeeds(COLLECT);
    let line = EVALUATE.replace("--model-config small.json", "--fitted run");
    place.succeeds(&line);
    place.refuses(
        &format!("{line} --model gp"),
        &["run: the fitted model is of another kind than --model"],
    );
    // Another order of the same rows is other data: those held out are told by their numbers.
    place.refuses(&format!("{line} --subsample rows:599"), &["the model was fitted on other data"]);
}

#[test]
fn a_set_so_large_that_nothing_is_finite_has_no_bound() {
    let place = Place::with_data();
    for beta in ["1e3", "1e6", "1e12", "1e30", "1e38"] {
        let line = EVALUATE.replace(METHODS, "ca");
        let result = fails(&place, &format!("{line} --beta {beta}"));
        let estimate = &result["estimates"][0];
        assert!(
            estimate["lower_bound"].is_null() || estimate["converged"] == false,
            "{beta}: {estimate}"
        );
    }
}

#[test]
fn rewards_that_are_not_defined_everywhere_have_no_bound() {
    let place = Place::with_data();
    // The logs stay below y = 2, the policy is to go above 2.5.
    let line = EVALUATE
        .replace(METHODS, "ca,dainf,ds")
        .replace("builtin:waypoint", "builtin:waypoint,y=4");
    let undefined = ["log(2.5-s[1])", "sqrt(2.5-s[1])", "1/max(0,2.5-s[1])"];
    for reward in undefined {
        let result = fails(&place, &format!("{line} --reward {reward}"));
        for e in result["estimates"].as_array().unwrap() {
            assert!(e["value"].is_null() && e["lower_bound"].is_null(), "{reward}: {e}");
            assert!(e["diverged_rollouts"].as_u64() > Some(0), "{reward}: {e}");
        }
        let text =
            place.hambo(&format!("{line} --reward {reward} --threshold=-1e30 --out run")).stdout;
        assert!(
            text.contains("-∞") && text.contains("left the finite numbers, so there is no bound"),
            "{text}"
        );
    }
}
