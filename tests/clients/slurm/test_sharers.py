"""Who uses a slurmdbd: only a machine that does not run has nobody for sure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.provider.calls import Calls, plainly
from tidepool.cli import sharers as verbs
from tidepool.clients.slurm import TimedOut, Unreachable
from tidepool.clients.slurm.sharers import sharers_up
from tidepool.clients.transport import Completed
from tidepool.infrastructures import connection
from tidepool.infrastructures.connection import InMachine
from tidepool.provider import databases
from tidepool.resources.kind import Refusal

SHARED = {"biology": "10.81.0.0/16", "chemistry": "10.82.0.0/16"}
SERVER = {"kind": "local", "stack": "physics", "machine": "dbd"}


@dataclass(frozen=True)
class Dbd:
    """The machine of slurmdbd, where a connection with an address ends as is said."""

    ends: Callable[[str], int]
    where = "on machine dbd"

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float) -> Completed:
        return Completed(self.ends(argv[-2]), "", "")

    def close(self) -> None: ...


def failed(error: type[Any]) -> Callable[[str], int]:
    def ends(_: str) -> int:
        raise error("it is away", where="dbd", remedy="see")

    return ends


def test_who_answers_at_one_of_its_addresses_uses_it() -> None:
    assert sharers_up(Dbd(lambda address: 0 if address == "10.82.0.3" else 124), SHARED) == ("chemistry",)
    assert sharers_up(Dbd(lambda _: 1), SHARED) == ()


def test_of_a_machine_that_does_not_run_nobody_uses_it(tmp_path: Path) -> None:
    assert sharers_up(InMachine(tmp_path, "physics", "dbd"), SHARED) == ()


@pytest.mark.parametrize("ends", [failed(Unreachable), failed(TimedOut), lambda _: 127, lambda _: -9])
def test_where_it_cannot_be_asked_it_stays(
    ends: Callable[[str], int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(Unreachable, match="--force"):
        sharers_up(Dbd(ends), SHARED)
    for module in (databases, connection):
        monkeypatch.setattr(module, "transport", lambda *_: Dbd(ends))
    calls = Calls(tmp_path, "tidepool:slurm:DatabaseServer")
    answer = calls.create(calls.checked({"server": SERVER, "cluster": "physics", "sharedWith": SHARED}))
    with pytest.raises(Refusal, match="cannot be asked which other clusters use it"):
        calls.delete(str(answer.resource_id), plainly(answer.properties))
    stack: Any = SimpleNamespace(name="physics", data=tmp_path)
    outputs = {"accounting": {"server": SERVER, "sharedWith": SHARED}}
    with pytest.raises(Unreachable):
        verbs.look_at_sharers(stack, outputs)
    verbs.look_at_sharers(stack, outputs, force=True)
    assert "cannot be asked" in capsys.readouterr().err
