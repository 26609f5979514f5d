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
    for verb in [
        "",
        "-run",
        "-once",
        "-ls",
        "-show",
        "-release",
        "-check",
        "-config",
        "-completions",
        "-man",
        "-top",
        "-reconfigure",
        "-verify",
        "-bench",
    ] {
        assert!(place.read(&format!("pages/fencepost{verb}.1")).starts_with(".ie"), "{verb}");
    }
    let run = place.read("pages/fencepost-run.1");
    assert!(run.contains("Exit codes") && run.contains("FENCEPOST_TOKEN"));
    assert!(place.read("pages/fencepost-once.1").contains("FENCEPOST_WINDOW"));
}

#[test]
fn the_page_of_the_handbook_has_every_command_and_the_exit_codes_once() {
    let place = Place::new();
    let page = place.fencepost(["man", "--markdown"]).end().with_code(0).stdout;
    for verb in ["run", "once", "elect", "ls", "release", "doctor", "man"] {
        assert!(page.contains(&format!("\n## fencepost {verb}\n")), "{verb}");
    }
    assert!(
        page.contains(
            "| `-w`, `--wait D` | Wait for at most this time, connecting included [default: until the lock is free] |"
        ),
        "{page}"
    );
    assert!(page.contains("| `FENCEPOST_TOKEN` | its fencing token"), "{page}");
    assert_eq!(page.matches("| `80` | run, once: the lock was lost").count(), 1, "{page}");
    place.fencepost(["man"]).end().with_code(2);
    place.fencepost(["man", "--markdown", "pages"]).end().with_code(2);
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
