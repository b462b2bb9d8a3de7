"""A measurement of several sizes: its exit code tells of a target that was missed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from bench.decide_pools import measure, missed
from bench.sizes import BySize


@dataclass(frozen=True)
class Took:
    seconds: float


@pytest.mark.parametrize(("seconds", "says"), [(0.9, ""), (1.1, "targets that were missed:\n1.1 s")])
def test_a_target_that_is_missed_is_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, says: str
) -> None:
    script = tmp_path / "measures.py"
    script.write_text(f"print('{{\"seconds\": {seconds}}}')\n")
    monkeypatch.setattr("sys.argv", [str(script)])
    bench = BySize(
        str(script),
        None,
        "7",
        1,
        lambda *_: Took(0),
        Took,
        str,
        missed=lambda found: [f"{each.seconds} s" for each in found if each.seconds > 1],
    )
    if not says:
        bench.main()
        return
    with pytest.raises(SystemExit) as ended:
        bench.main()
    # A text is written, and the code is 1.
    assert ended.value.code == says


def test_decisions_about_pools_are_of_what_a_fake_slurm_and_kubernetes_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gc.disable", lambda: None)
    found = measure(40, 1, "unlike")
    assert (found.pods, found.jobs) == (200, 200)
    assert found.moves > 0
    slow = replace(found, machines=1000, both_p99_s=1.2)
    assert missed([found]) == []
    assert len(missed([slow, replace(slow, both_p99_s=0.8)])) == 1
