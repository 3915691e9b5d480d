//! Everything that is needed to get the same numbers again.

use super::section;
use crate::report::answer::Answer;
use crate::report::ranking::Ranking;
use crate::report::setup::Setup;
use crate::report::text::{escape, shortened};

/// How an evaluation is repeated.
pub(super) fn repeat(answer: &Answer) -> String {
    let digest = answer.policy_sha256.as_deref().map(escape);
    let normalizer = answer.policy_normalizer.as_ref();
    let policy = [
        ("policy", Some(escape(&answer.policy))),
        ("policy’s observation normalizer", normalizer.map(|file| escape(&file.to_string_lossy()))),
        ("policy’s SHA-256", digest),
    ];
    fields(&answer.setup, &policy)
}

/// How a ranking is repeated.
pub(super) fn repeat_ranking(ranking: &Ranking) -> String {
    let policies: Vec<String> = ranking.policies.iter().map(|p| escape(&p.policy)).collect();
    fields(&ranking.setup, &[("policies", Some(policies.join("<br>")))])
}

/// The command and all that it depends on; `policy` is what is told of the policies.
fn fields(setup: &Setup, policy: &[(&str, Option<String>)]) -> String {
    let settings = shortened(&setup.settings).to_string();
    let fields = [
        &[
            ("version", Some(escape(setup.version))),
            ("task", Some(escape(&setup.task))),
            ("reward", Some(escape(&setup.declared.reward))),
        ],
        policy,
        &[
            ("data’s SHA-256", setup.data.sha256.as_deref().map(escape)),
            ("seed", Some(setup.seed.to_string())),
            ("horizon", Some(setup.horizon.to_string())),
            ("discount", Some(format!("{:?}", setup.discount))),
            ("δ", Some(format!("{:?}", setup.delta))),
            ("settings", Some(format!("<code>{}</code>", escape(&settings)))),
            ("device", Some(escape(&setup.device))),
            ("seconds", Some(format!("{:.1}", setup.seconds))),
        ],
    ];
    let known =
        fields.concat().into_iter().filter_map(|(name, value)| value.map(|value| (name, value)));
    let rows: String =
        known.map(|(name, value)| format!("<dt>{name}</dt><dd>{value}</dd>\n")).collect();
    let body = format!(
        "<pre><code>{}</code></pre>\n<dl>\n{rows}</dl>\n<p class=\"caption\">The same seed gives the same numbers on the same \
         device. What the bound guarantees, and what it does not: docs/guarantees.md.</p>\n",
        escape(&setup.command)
    );
    section("repeat", "How to repeat this", &body)
}
