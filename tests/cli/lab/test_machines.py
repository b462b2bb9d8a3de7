"""What a campaign does with its machines while another operation works on their stack."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.whole.cluster import until
from tidepool.cli.lab.machines import LabMachines
from tidepool.scaling.stack.turn import person_turn


def test_what_a_killed_campaign_has_begun_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its verb works on, and has the stack's turn."""
    verb, log = tmp_path / "verb", tmp_path / "machines.log"
    verb.write_text("#!/bin/sh\necho done\n")
    verb.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(verb))
    stack = SimpleNamespace(
        name="lab",
        data=tmp_path,
        project=SimpleNamespace(root=tmp_path),
        context=SimpleNamespace(env={"PATH": "/bin:/usr/bin"}),
    )
    unused = cast(Any, SimpleNamespace(pinning="none", machines=("lab-1",)))
    goes_on = threading.Thread(target=LabMachines(cast(Any, stack), unused, unused, log).up)
    with person_turn(tmp_path / "lab", lambda: None):
        goes_on.start()
        until(lambda: "waited for" in capsys.readouterr().err or None, "that it waits is told")
        assert not log.exists()
    goes_on.join()
    assert log.read_text().splitlines() == ["$ tidepool up --yes", "done"]
