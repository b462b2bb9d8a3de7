"""Reads of slurmdbd and of slurmctld for accounts: none waits for another."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from tidepool.clients.transport import Completed
from tidepool.provider import accounting


class Silent:
    """A machine whose slurmdbd answers, while its slurmctld takes its time to say that it does not."""

    where = "here"

    def __init__(self, beside: ThreadPoolExecutor) -> None:
        self.beside = beside
        self.database = accounting.Database(self, "physics", threading.Lock())
        self.asked = 0

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float) -> Completed:
        if "scontrol" in argv:
            self.asked += 1
            # Only what would wait for ever comes to its end by this time.
            assert self.beside.submit(self.database.read).result(timeout=20) == {}
            return Completed(1, "", "Unable to contact slurm controller (connect failure)")
        columns = argv[-1].removeprefix("format=").split(",")
        return Completed(0, "".join(f"{column}|" for column in columns) + "\n", "")

    def close(self) -> None: ...


def test_a_slurmctld_that_is_away_is_asked_once_and_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadPoolExecutor(1) as beside:
        silent = Silent(beside)
        monkeypatch.setattr(accounting, "_FRESH_S", 0.0)
        assert silent.database.in_use() == {}
        assert silent.database.in_use() == {}
    assert silent.asked == 1
