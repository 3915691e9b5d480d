//! `hambo doctor`, `hambo completions` and `hambo man`

use clap::Args;
use clap_complete::Shell;

pub const DOCTOR_EXAMPLES: &str = "\
Example:
  hambo doctor

Exit codes: 0 nothing is broken, 1 something is; what is absent is optional.";

pub const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  hambo completions bash > ~/.local/share/bash-completion/completions/hambo
  hambo completions zsh > ~/.zfunc/_hambo
  hambo completions fish > ~/.config/fish/completions/hambo.fish";

pub const MAN_EXAMPLES: &str = "\
Examples:
  hambo man > ~/.local/share/man/man1/hambo.1
  hambo man evaluate | man -l -";

#[derive(Args)]
pub struct Doctor {}

#[derive(Args)]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

#[derive(Args)]
pub struct Man {
    /// Command whose page is printed [default: the page of hambo itself]
    pub command: Option<String>,
}
