//! Colors of verdicts in a terminal.

use hambo::report::Verdict;
use std::ffi::OsStr;
use std::io::{IsTerminal, stdout};

/// The text with its last line, which is the headline, in the color of the verdict.
pub fn headline_in_color(text: &str, verdict: Option<Verdict>, colors: bool) -> String {
    let code = match verdict.filter(|_| colors) {
        None => return text.to_owned(),
        Some(Verdict::Meets) => "32",
        Some(Verdict::NotShown) => "31",
        Some(Verdict::NotEnoughEvidence) => "33",
    };
    let (before, headline) = text.rsplit_once('\n').unwrap_or(("", text));
    let before = if before.is_empty() { String::new() } else { format!("{before}\n") };
    format!("{before}\u{1b}[1;{code}m{headline}\u{1b}[0m")
}

/// Whether standard output takes colors: it is a terminal, and nobody asked for none (<https://no-color.org>).
pub fn wanted() -> bool {
    let variable = |name: &str| std::env::var_os(name);
    allowed(stdout().is_terminal(), variable("NO_COLOR").as_deref(), variable("TERM").as_deref())
}

fn allowed(terminal: bool, no_color: Option<&OsStr>, term: Option<&OsStr>) -> bool {
    terminal && no_color.is_none_or(OsStr::is_empty) && term != Some(OsStr::new("dumb"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_headline_alone_has_the_color_of_the_verdict() {
        let text = "note: a\nMEETS the threshold";
        let colored = headline_in_color(text, Some(Verdict::Meets), true);
        assert_eq!(colored, "note: a\n\u{1b}[1;32mMEETS the threshold\u{1b}[0m");
        assert!(headline_in_color("x", Some(Verdict::NotShown), true).starts_with("\u{1b}[1;31mx"));
        assert_eq!(headline_in_color(text, Some(Verdict::Meets), false), text);
        assert_eq!(headline_in_color(text, None, true), text, "no threshold, no color");
    }

    #[test]
    fn no_color_is_honored() {
        let (set, empty, dumb) = (OsStr::new("1"), OsStr::new(""), OsStr::new("dumb"));
        assert!(allowed(true, None, None) && allowed(true, Some(empty), Some(OsStr::new("xterm"))));
        assert!(!allowed(true, Some(set), None));
        assert!(!allowed(true, None, Some(dumb)));
        assert!(!allowed(false, None, None), "a pipe");
    }
}
