//! `hambo rank`: many policies on one model.

use super::describe::{
    command_line, met, names, policy_digest, settings, short_names, verdict, warnings_of_several,
};
use super::evaluate::{Prepared, prepare};
use super::{Outcome, SCHEMA, describe};
use crate::arguments::Evaluate;
use crate::output::{number, print, table};
use hambo::Error;
use hambo::checkpoint::Checkpoints;
use hambo::estimate::MONTE_CARLO_SHARE;
use hambo::rank::{Ranked, Score, rank, scores};
use hambo::report::{ranking_headline, ranking_html, ranking_markdown};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::Instant;

pub fn run(arguments: &Evaluate) -> Outcome {
    let start = Instant::now();
    if arguments.curves {
        let expected = "no such setting here: the curves of one policy are for `hambo evaluate --curves`";
        return Err(Error::setting("curves", true, expected).into());
    }
    let mut prepared = prepare(arguments)?;
    let out = prepared.out.take();
    let Prepared { question, declaration, policies, simulator, device, loaded, asked, .. } = &prepared;
    let (model, progress) = (prepared.model.as_ref(), &prepared.progress);
    let (data, task) = (&loaded.transitions, &asked.task);
    let truth = |policy| simulator.as_ref().map(|s| s.truth(&arguments.machine, policy, question, progress));
    let truths = policies.iter().filter_map(truth).collect::<hambo::Result<Vec<_>>>()?;
    let ranked = rank(device, data, model, task, &asked.constraints, policies, &truths, question, progress)?;
    let scores = scores(&ranked);

    let specs: Vec<&str> = policies.iter().map(|policy| policy.spec.as_str()).collect();
    let short = short_names(&specs);
    let met = |r: &Ranked| met(&r.evaluation, arguments.threshold);
    let one = |r: &Ranked| -> hambo::Result<Value> {
        let (policy, evaluation) = (&policies[r.index], &r.evaluation);
        Ok(json!({
            "policy": policy.spec,
            "name": short[r.index],
            "policy_sha256": policy_digest(&policy.spec)?,
            "lower_bound": evaluation.lower_bound(),
            "verdict": verdict(met(r)),
            "truth": r.truth,
            "estimates": evaluation.estimates,
            "constraints": evaluation.constraints,
            "support": evaluation.support,
            "confidence_set": evaluation.set,
            "adversary": evaluation.search,
            "adversary_da1": evaluation.search_members,
            "warnings": evaluation.warnings,
        }))
    };
    let best = ranked.first().map(|r| &r.evaluation);
    // One that meets all that was asked is enough to go on with.
    let any = ranked.iter().filter_map(met).reduce(|some, one| some || one);
    let mut result = json!({
        "schema": SCHEMA,
        "version": env!("CARGO_PKG_VERSION"),
        "device": prepared.device.kind(),
        "task": task.name,
        "declared": asked.declared,
        "data": {"transitions": data.len(), "episodes": data.episodes().len(), "sha256": prepared.sha256},
        "stochastic": arguments.acting.stochastic,
        "policy_noise": arguments.acting.policy_noise,
        "horizon": question.horizon,
        "discount": question.discount,
        "policies": ranked.iter().map(one).collect::<hambo::Result<Vec<_>>>()?,
        "scores": scores,
        "delta": question.delta,
        "delta_each": best.map(|evaluation| evaluation.delta_each),
        "monte_carlo_share": MONTE_CARLO_SHARE,
        "threshold": arguments.threshold,
        "verdict": verdict(any),
        "model": best.map(|evaluation| describe::model(evaluation, model)),
        "search": question.search,
        "names": names(task, declaration.env.as_deref()),
        "settings": settings(question, model),
        "warnings": warnings(&ranked, &short, loaded.notes.iter().chain(&asked.notes)),
        "seed": question.seed,
        "seconds": start.elapsed().as_secs_f64(),
    });
    result["summary"] = ranking_headline(&result).into();
    if let Some(folder) = out {
        progress.bars.check()?;
        let file = |name: &str, text: String| (folder.path().join(name), text.into_bytes());
        let mut files = vec![
            file("result.json", format!("{result:#}\n")),
            file("report.html", ranking_html(&result, &command_line())),
            file("summary.md", ranking_markdown(&result)),
        ];
        files.extend(model.files(device, folder.path())?);
        folder.write(&files)?;
    }
    progress.checkpoints.as_ref().map_or(Ok(()), Checkpoints::finish)?;
    print(&match (arguments.json, arguments.markdown) {
        (true, _) => result.to_string(),
        (_, true) => ranking_markdown(&result).trim_end().to_owned(),
        _ => text(&result, &ranked, &scores, arguments),
    })?;
    Ok(if any == Some(false) { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn warnings<'a>(ranked: &[Ranked], names: &[String], notes: impl Iterator<Item = &'a String>) -> Vec<String> {
    let each: Vec<(&str, &[String])> =
        ranked.iter().map(|r| (names[r.index].as_str(), r.evaluation.warnings.as_slice())).collect();
    notes.cloned().chain(warnings_of_several(&each)).chain(unsure_truth(ranked)).collect()
}

/// Scores against a truth that is hardly known say little.
fn unsure_truth(ranked: &[Ranked]) -> Option<String> {
    let unsure = |r: &&Ranked| match (&r.truth, r.evaluation.lower_bound()) {
        (Some(truth), Some(bound)) => (truth.value - bound).abs() < 2.0 * truth.std_error,
        _ => false,
    };
    let count = ranked.iter().filter(unsure).count();
    let truth = ranked.first()?.truth.as_ref()?;
    (count > 0).then(|| {
        format!(
            "{count} of {} bounds are within two standard errors of the simulated truth ({} episodes): violations and \
             gaps say little there; give more --truth-episodes",
            ranked.len(),
            truth.episodes
        )
    })
}

fn text(result: &Value, ranked: &[Ranked], scores: &[Score], arguments: &Evaluate) -> String {
    let missing = || "–".to_owned();
    let rows = ranked.iter().zip(result["policies"].as_array().into_iter().flatten()).map(|(r, value)| {
        let mut row = vec![value["name"].as_str().unwrap_or("?").to_owned()];
        row.push(value["verdict"].as_str().map_or_else(missing, str::to_owned));
        row.push(r.evaluation.lower_bound().map_or_else(missing, number));
        row.extend(r.evaluation.estimates.iter().map(|e| number(e.value)));
        row.push(r.truth.as_ref().map_or_else(missing, |truth| number(truth.value)));
        row
    });
    let methods = ranked.first().map_or(&[][..], |r| &r.evaluation.estimates).iter().map(|e| e.method.name());
    let header: Vec<&str> =
        ["policy", "verdict", "lower bound"].into_iter().chain(methods).chain(["truth"]).collect();
    let mut lines = vec![table(&header, &rows.collect::<Vec<_>>()), String::new()];
    if !scores.is_empty() {
        let rows = scores.iter().map(|s| {
            let kind = if s.method.is_conservative() { "conservative" } else { "neutral" };
            let spearman = s.spearman.map_or_else(missing, |x| format!("{x:.3}"));
            let violations = format!("{:.0} %", 100.0 * s.violation_rate);
            let words = [s.method.name(), kind].map(str::to_owned);
            [words.to_vec(), vec![spearman, number(s.regret_at_1), violations, number(s.gap)]].concat()
        });
        let header = ["method", "kind", "Spearman", "regret@1", "violations", "gap"];
        lines.extend([table(&header, &rows.collect::<Vec<_>>()), String::new()]);
    }
    let warnings = result["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str);
    lines.extend(warnings.map(|warning| format!("note: {warning}")));
    if let Some(out) = &arguments.out {
        lines.push(format!("report: {}", out.join("report.html").display()));
    }
    lines.push(ranking_headline(result));
    lines.join("\n")
}
