//! `hambo completions` and `hambo man`: the command line, told to a shell and to `man`.

use super::Outcome;
use crate::args::{Arguments, Completions, Man};
use crate::output::print;
use clap::CommandFactory;
use hambo::Error;
use std::process::ExitCode;

pub fn completions(arguments: &Completions) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "hambo", &mut script);
    print(String::from_utf8(script)?.trim_end())?;
    Ok(ExitCode::SUCCESS)
}

pub fn man(arguments: &Man) -> Outcome {
    let mut all = Arguments::command();
    all.build();
    let command = match &arguments.command {
        None => all,
        Some(name) => match all.find_subcommand(name) {
            Some(command) => command.clone(),
            None => return Err(Error::setting("command", name, "a command of hambo").into()),
        },
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    print(String::from_utf8(page)?.trim_end())?;
    Ok(ExitCode::SUCCESS)
}
