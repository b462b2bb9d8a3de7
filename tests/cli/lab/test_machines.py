"""What a campaign does with its machines while a verb of an earlier one works on."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.whole.cluster import until
from tidepool.cli.lab.machines import LabMachines


def test_what_a_killed_campaign_has_begun_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its verb works on; where the verb has ended as well, what that has forked."""
    verb, log, ends = tmp_path / "verb", tmp_path / "machines.log", tmp_path / "ends"
    verb.write_text(
        "#!/bin/sh\n"
        f"if test -e {ends}; then echo second\n"
        f"else ( until test -e {ends}; do sleep 0.02; done; echo forked ) & echo first\n"
        "fi\n"
    )
    verb.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(verb))
    stack = SimpleNamespace(
        name="lab",
        data=tmp_path,
        project=SimpleNamespace(root=tmp_path),
        context=SimpleNamespace(env={"PATH": "/bin:/usr/bin"}),
    )
    unused = cast(Any, SimpleNamespace(pinning="none", machines=("lab-1",)))
    machines = LabMachines(cast(Any, stack), unused, unused, log)
    machines.up()
    goes_on = threading.Thread(target=machines.up)
    goes_on.start()
    try:
        until(lambda: "waited for" in capsys.readouterr().err or None, "that it waits is told")
        assert log.read_text().splitlines() == ["$ tidepool up --yes", "first"]
    finally:
        ends.touch()
        goes_on.join()
    assert log.read_text().splitlines()[2:] == ["forked", "$ tidepool up --yes", "second"]
