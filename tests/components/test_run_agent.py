"""What a controller of a run's cluster has for its end: a program, which begins with credentials that are in no boot."""

from __future__ import annotations

from tests.components.stack import NODES, registered, spec_with
from tidepool.cluster.run_service import CREDENTIALS_FILE, RUN_FILES_PROGRAM, RUN_FOLDER, RUN_PROGRAM

BOOT = "tidepool:local:Boot {}"
SERVICE = {"url": "https://192.0.2.7:8443"}


def test_the_controller_of_a_run_has_the_program_and_nobody_else_does() -> None:
    graph = registered(spec_with(run_service=SERVICE), NODES)
    boot = graph[BOOT.format("ctl")].inputs
    last = boot["services"][-1]
    # What it begins with comes later, or never: nothing waits for it.
    assert (last["name"], last["begins"]) == ("run", f"path:{CREDENTIALS_FILE}")
    assert {RUN_PROGRAM, RUN_FILES_PROGRAM} <= boot["files"].keys()
    assert CREDENTIALS_FILE not in boot["files"]
    assert [each["mode"] for each in boot["folders"] if each["path"] == RUN_FOLDER] == ["0700"]
    for other in ("login", "cpu"):
        assert RUN_PROGRAM not in str(graph[BOOT.format(other)].inputs)


def test_a_cluster_that_is_no_run_s_has_nothing_of_it() -> None:
    graph = registered(spec_with(), NODES)
    assert RUN_PROGRAM not in str(graph[BOOT.format("ctl")].inputs)
