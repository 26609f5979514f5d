//! Help, manual and completions.

use crate::support::Place;

#[test]
fn help_has_the_exit_codes() {
    let place = Place::new();
    for arguments in [vec!["--help"], vec!["run", "--help"], vec!["once", "--help"]] {
        let done = place.fencepost(arguments).end().with_code(0);
        assert!(done.stdout.contains("80    run, once: the lock was lost"), "{}", done.stdout);
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let place = Place::new();
    place.fencepost(["man", "pages"]).end().with_code(0);
    for verb in ["", "-run", "-once", "-ls", "-show", "-release", "-check", "-config", "-completions", "-man"] {
        assert!(place.read(&format!("pages/fencepost{verb}.1")).starts_with(".ie"), "{verb}");
    }
    let run = place.read("pages/fencepost-run.1");
    assert!(run.contains("Exit codes") && run.contains("FENCEPOST_TOKEN"));
    assert!(place.read("pages/fencepost-once.1").contains("FENCEPOST_WINDOW"));
}

#[test]
fn every_shell_gets_completions() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let done = place.fencepost(["completions", shell]).end().with_code(0);
        assert!(done.stdout.contains("on-lost"), "{shell}");
    }
    place.fencepost(["completions", "tcsh"]).end().with_code(2);
}
