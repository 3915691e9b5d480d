//! Figure 2: HAMBO with a Gaussian process approaches the true return from below as the data grow.
//!
//! The environments are PointEnv and Pendulum, the kernel is RBF, and the transitions have uniformly drawn states and
//! actions. The paper gives neither horizon nor hyperparameters nor β.
//!
//! The kernel is given, and was chosen after a first attempt had failed. With hyperparameters learned by marginal
//! likelihood for every data set, the figure did not come out: on Pendulum the gap was 25 times |J| at n = 400, on
//! PointEnv it did not fall steadily. (The search for them stopped too early at the bound of the noise then; this has
//! been fixed, but the attempt was not repeated.) The figure uses one kernel for both environments and every n, as the
//! theorem requires; its length scale is the better of two, 3 and 6, that were tried on other seeds. So the figure
//! shows that the bound approaches the truth if the kernel fits, not that it does with a kernel learned from the data.
//!
//! β is that of the posterior's credible set at δ (the normal quantile with a union bound over dimensions). β_n(δ) of
//! Lemma 3.6 needs a bound on the norm of the dynamics in the kernel's Hilbert space, and there is none: that of an RBF
//! kernel does not even contain s + a.

mod config;
mod experiment;
mod output;

use super::{Picture, Reproduced};
use crate::args::Scale;
use config::Fig2Config;
use hambo::Result;
use hambo::run::Run;
use hambo_engine::backend::Device;
use serde_json::json;

/// Runs the experiment and draws its figure.
pub fn run(device: &Device, scale: Scale, work: &Run<'_>) -> Result<Reproduced> {
    let config = match scale {
        Scale::Quick => Fig2Config::quick(),
        Scale::Paper => Fig2Config::paper(),
    };
    let figure = experiment::run(device, &config, work)?;
    Ok(Reproduced {
        text: output::text(&figure, config.seeds),
        numbers: json!(figure),
        claims: output::claims(&figure),
        picture: Picture::Charts(output::plot(&figure)),
    })
}
