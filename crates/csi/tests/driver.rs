//! The program, as far as it goes without a machine to mount on; `tests/cases/csi.sh` has the rest.

use std::process::Command;

fn ends_with(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_weir-csi")).args(args).env_clear().output();
    let output = output.expect("weir-csi runs");
    assert!(!output.status.success(), "{args:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn it_says_what_is_wrong_with_its_arguments() {
    let dir = tempfile::tempdir().unwrap();
    let state = format!("--state={}", dir.path().display());
    for (args, wanted) in [
        (&[&*state, "--node-id=a"][..], "--endpoint"),
        (&[&state, "--endpoint=unix:/nowhere/s"], "--node-id"),
        (&[&state, "--node-id=a", "--endpoint=tcp://127.0.0.1:1"], "no Unix socket"),
        (&[&state, "--controller", "--endpoint=unix:/nowhere/s"], "/nowhere/s"),
    ] {
        let said = ends_with(args);
        assert!(said.contains(wanted), "{args:?}: {said}");
    }
}
