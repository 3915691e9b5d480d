//! What a user should know about a task and its log before anything is computed.

use super::Task;
use crate::data::Transitions;

/// A remark if the task's rewards for the log are not the logged ones, or if there is nothing to learn from these.
pub(super) fn compare(task: &Task, paid: &[f32], data: &Transitions) -> Option<String> {
    let logged = data.rewards();
    if task.learns_reward() {
        let constant = logged.iter().all(|&r| r == logged[0]);
        return constant.then(|| {
            format!("every logged reward is {}: nothing else can be learned about it", logged[0])
        });
    }
    task.differs_from_log(paid, data).map(|[difference, size]| {
        format!(
            "the task's reward differs from the logged one by {difference:.4} per step (logged: {size:.4} on average); the \
             bound is on the task's reward"
        )
    })
}

/// A remark if there are rewards that a model cannot learn from.
pub(super) fn unknown_rewards(task: &Task, data: &Transitions) -> Option<String> {
    let (last, mean) = (data.last_rows(), |r: &[f32]| r.iter().sum::<f32>() / r.len() as f32);
    (task.learns_reward() && !last.is_empty()).then(|| {
        format!(
            "{} rewards of last rows are not learned, since their next states were not logged: {:.4} on average, {:.4} elsewhere",
            last.len(),
            mean(&last.rewards),
            mean(data.rewards())
        )
    })
}

/// A remark if a worst reward was declared that the log contradicts.
pub(super) fn broken(declared: f64, lowest: f32) -> Option<String> {
    (lowest < declared as f32).then(|| {
        format!(
            "a worst reward of {declared} was declared, but the log has one of {lowest}, which is taken"
        )
    })
}

/// A remark if terminal flags look like time limits: all episodes end in one, after the same number of steps.
pub(super) fn time_limits(data: &Transitions) -> Option<String> {
    let last = data.last_rows();
    let steps =
        |e: std::ops::Range<usize>| e.len() + usize::from(last.following(e.end - 1).is_some());
    let mut lengths = data.episodes().map(steps);
    let (count, first) = (data.episodes().len(), lengths.next()?);
    let all = data.episodes().all(|e| data.ended(&e));
    (count > 1 && first > 1 && all && lengths.all(|l| l == first)).then(|| {
        format!(
            "all {count} episodes end in a terminal state after exactly {first} steps: this is taken to be a time limit \
             unless a termination is given; flag time limits as timeouts"
        )
    })
}

/// A remark if episodes are too short to say anything about trajectories.
pub(super) fn short_episodes(data: &Transitions) -> Option<String> {
    let (count, short) = (data.episodes().len(), data.episodes().filter(|e| e.len() == 1).count());
    (2 * short > count).then(|| {
        format!(
            "{short} of {count} episodes have one step: their states count as initial ones, and the confidence set \
             cannot be measured on them; keep the order of the log, and flag the ends of episodes"
        )
    })
}
