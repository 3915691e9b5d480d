//! Where kernels come from: the files of CUDA code, and what each is compiled for.

use crate::Result;
use crate::backend::cuda::compiler::Compiler;
use crate::backend::cuda::mlp::MOST_TILES;
use std::collections::HashMap;
use std::sync::LazyLock;

/// A file of kernels that are not products, with what all of them share.
macro_rules! kernels {
    ($file:literal) => {
        concat!(include_str!("common.cu"), include_str!("shared.cu"), include_str!($file))
    };
}
const STEIN: &str = kernels!("stein.cu");
const PASSES: &str =
    concat!(include_str!("common.cu"), include_str!("products.cu"), include_str!("mlp.cu"));
const WEIGHTS: &str =
    concat!(include_str!("common.cu"), include_str!("products.cu"), include_str!("weights.cu"));

/// A kernel and where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Kernel {
    pub name: &'static str,
    pub source: Source,
}

/// A file of kernels that are not products. Each is compiled for itself, since together they would take four times as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Section {
    Moving,
    Optimizers,
    Muon,
    Heads,
    Trajectories,
    Programs,
    Rl,
}

impl Section {
    pub const ALL: [Section; 7] = [
        Section::Moving,
        Section::Optimizers,
        Section::Muon,
        Section::Heads,
        Section::Trajectories,
        Section::Programs,
        Section::Rl,
    ];

    fn source(self) -> &'static str {
        match self {
            Section::Moving => kernels!("moving.cu"),
            Section::Optimizers => kernels!("optimizers.cu"),
            Section::Muon => kernels!("muon.cu"),
            Section::Heads => kernels!("heads.cu"),
            Section::Trajectories => kernels!("trajectories.cu"),
            Section::Programs => kernels!("programs.cu"),
            Section::Rl => kernels!("rl.cu"),
        }
    }

    /// Names of its kernels.
    pub fn kernels(self) -> impl Iterator<Item = &'static str> {
        self.source().split("\nKERNEL ").skip(1).filter_map(|text| text.split('(').next())
    }
}

/// A source, and what it is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Source {
    /// Kernels that are not products.
    Kernels(Section),
    /// `stein.cu`
    Stein {
        /// Number of networks.
        particles: u32,
    },
    /// A text that is no part of this library.
    Foreign(&'static str),
    /// `mlp.cu`
    Passes {
        /// Which of the two kernels.
        backward: bool,
        /// Rows of a block in units of 16.
        tiles: u32,
        /// Whether products are as good as f32.
        precise: bool,
        /// Width of the hidden layers, or 0.
        width: u32,
        /// Distance of rows in shared memory.
        pitch: u32,
    },
    /// `weights.cu`
    Weights {
        /// As above.
        precise: bool,
        /// As above.
        width: u32,
    },
}

impl Source {
    /// Back-propagation through the same networks: where arithmetic is that of training, it is asked for next.
    pub fn backward_passes(self) -> Vec<Source> {
        match self {
            Source::Passes { backward: false, tiles, precise: false, width, pitch }
                if width > 0 =>
            {
                vec![
                    Source::Passes { backward: true, tiles, precise: false, width, pitch },
                    Source::Weights { precise: false, width },
                ]
            }
            _ => vec![],
        }
    }

    /// Passes of the same networks on more rows and fewer, which may be asked for later. The largest, which take longest,
    /// come first.
    pub fn other_sizes(self) -> Vec<Source> {
        match self {
            Source::Passes { backward: false, tiles, precise, width, pitch } if width > 0 => (1
                ..=MOST_TILES)
                .rev()
                .filter(|&other| other != tiles)
                .map(|tiles| Source::Passes { backward: false, tiles, precise, width, pitch })
                .collect(),
            _ => vec![],
        }
    }

    /// Whether its kernels may write networks' parameters.
    pub fn writes_parameters(self) -> bool {
        matches!(
            self,
            Source::Kernels(Section::Moving | Section::Optimizers | Section::Muon)
                | Source::Stein { .. }
        )
    }

    pub fn compile(self, compiler: &Compiler) -> Result<Vec<u8>> {
        match self {
            Source::Kernels(section) => {
                compiler.compile(&format!("{section:?}").to_lowercase(), section.source(), &[])
            }
            Source::Stein { particles } => {
                compiler.compile("stein", STEIN, &[("PARTICLES", particles)])
            }
            Source::Foreign(text) => compiler.compile(
                "foreign",
                &[include_str!("common.cu"), include_str!("products.cu"), text].concat(),
                &[("PRECISE", 0)],
            ),
            Source::Passes { backward, tiles, precise, width, pitch } => {
                let (backward, precise) = (backward.into(), precise.into());
                let defines = [
                    ("BACKWARD", backward),
                    ("TILES", tiles),
                    ("PRECISE", precise),
                    ("WIDTH", width),
                    ("PITCH", pitch),
                ];
                compiler.compile("mlp", PASSES, &defines)
            }
            Source::Weights { precise, width } => compiler.compile(
                "weights",
                WEIGHTS,
                &[("PRECISE", precise.into()), ("WIDTH", width)],
            ),
        }
    }
}

impl From<&'static str> for Kernel {
    fn from(name: &'static str) -> Self {
        static SECTIONS: LazyLock<HashMap<&str, Section>> = LazyLock::new(|| {
            Section::ALL
                .into_iter()
                .flat_map(|section| section.kernels().map(move |name| (name, section)))
                .collect()
        });
        // A kernel that is in none is reported when it is looked for.
        let section = SECTIONS.get(name).copied().unwrap_or(Section::Moving);
        Kernel { name, source: Source::Kernels(section) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kernels are found by their names alone.
    #[test]
    fn every_kernel_that_is_started_is_there() {
        let started = [
            include_str!("heads.rs"),
            include_str!("mlp.rs"),
            include_str!("moving.rs"),
            include_str!("muon.rs"),
            include_str!("optimize.rs"),
            include_str!("programs.rs"),
            include_str!("rl.rs"),
            include_str!("rollout_step.rs"),
            include_str!("sampling.rs"),
            include_str!("trajectories.rs"),
        ];
        let known: Vec<&str> = Section::ALL.into_iter().flat_map(Section::kernels).collect();
        let mut names = 0;
        for text in started.iter().flat_map(|file| file.split("launch!(").skip(1)) {
            let Some(kernel) = text.split(',').nth(1) else { continue };
            let Some(name) =
                kernel.trim().strip_prefix('"').and_then(|name| name.strip_suffix('"'))
            else {
                continue; // named elsewhere
            };
            assert!(known.contains(&name), "there is no kernel {name}");
            names += 1;
        }
        assert!(names > 30, "{names}");
    }

    /// A kernel that does not wait first would run beside the one before it.
    #[test]
    fn every_kernel_begins_in_order() {
        let sections = Section::ALL.map(Section::source);
        for source in [STEIN, PASSES, WEIGHTS].into_iter().chain(sections) {
            let mut kernels = 0;
            let beginnings = ["\nKERNEL ", "__global__ void "];
            for declaration in
                beginnings.iter().flat_map(|beginning| source.split(beginning).skip(1))
            {
                let Some((signature, body)) = declaration.split_once('{') else { continue };
                if signature.starts_with('\n') {
                    continue; // the definition of KERNEL itself
                }
                let name = signature.split('(').next().unwrap_or_default();
                let first = body.trim_start_matches([' ', '\n', '\\']);
                let first = first.trim_start_matches("if (order == FIRST) ");
                assert!(first.starts_with("in_order();"), "{name} does not begin with in_order()");
                kernels += 1;
            }
            assert!(kernels >= 1);
        }
    }
}
