"""Answers of a real Flux, recorded while tests ran against it, and a transport that gives them again.

A recording is of one test: ``{"at": seconds since the epoch, "calls": [...], "processes": {job: {file: text}}}``. A call is what Flux was
asked, by its arguments and stdin, and its answer. Made anew by `test_real.py` with TIDEPOOL_RECORD_FLUX=1.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tidepool.clients.transport import Completed, Transport
from tidepool.lab.schedulers.flux.brokers import FLUX

FOLDER: Final = Path(__file__).with_name("recordings")
RECORD: Final = "TIDEPOOL_RECORD_FLUX"
#: Looks may be more or fewer than they were; everything else is asked again as it was.
_LOOKS: Final = ("list", "list-inactive")

#: Brokers start and end without a recording: it is of what comes in between.
_BEGIN: Final[Mapping[str, str]] = {
    "keygen": "",
    "uptime": " 15:50:11 run 1.2s,  owner root,  depth 0,  size 3\n",
    "overlay": "full\n",
}


def asked(argv: Sequence[str], stdin: str) -> dict[str, Any]:
    """What Flux is asked, as recordings have it: without the program that submits several, and when a look begins."""
    words = list(argv[argv.index(FLUX) + 1 :])
    if words[0] == "python":
        words = words[:1]
    words = [word.split("=")[0] if word.startswith("--since=") else word for word in words]
    return {"words": words, "stdin": json.loads(stdin) if stdin else None}


@dataclass
class Recorder:
    """A transport that keeps what Flux was asked and what it answered."""

    way: Transport
    at: float = field(default_factory=time.time)
    calls: list[dict[str, Any]] = field(default_factory=list)

    @property
    def where(self) -> str:
        return self.way.where

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float) -> Completed:
        ended = self.way.run(argv, stdin=stdin, timeout_s=timeout_s)
        if FLUX in argv and argv[argv.index(FLUX) + 1] not in _BEGIN:
            self.calls.append({**asked(argv, stdin), "answer": [ended.exit_code, ended.stdout, ended.stderr]})
        return ended

    def close(self) -> None:
        self.way.close()

    def begin(self) -> None:
        """Forget what was recorded so far."""
        self.at, self.calls = time.time(), []

    def write(self, path: Path, records: Path) -> None:
        """Write what was recorded, with the records of processes of jobs that were submitted meanwhile."""
        names = {name for call in self.calls for name in _names(call["stdin"])}
        processes = {
            folder.name: {file.name: file.read_text() for file in sorted(folder.iterdir())}
            for folder in sorted(records.iterdir())
            if folder.is_dir() and folder.name in names
        }
        calls: list[dict[str, Any]] = []
        for call in (_without_others(call, names) for call in self.calls):
            # Looks that are alike one after the other say nothing new.
            if call not in calls[-2:]:
                calls.append(call)
        said = {"at": self.at, "calls": calls, "processes": processes}
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(said, indent=1) + "\n")


def _is_look(call: Mapping[str, Any]) -> bool:
    return call["words"][:1] == ["job"] and call["words"][1] in _LOOKS


def _without_others(call: dict[str, Any], names: set[str]) -> dict[str, Any]:
    """Leave jobs of other tests out of a look's answer."""
    if not _is_look(call):
        return call
    code, stdout, stderr = call["answer"]
    kept = [line for line in stdout.splitlines(keepends=True) if json.loads(line)["name"] in names]
    return {**call, "answer": [code, "".join(kept), stderr]}


def _names(stdin: Any) -> list[str]:
    if not isinstance(stdin, dict):
        return []
    if "jobs" in stdin:
        return [job["name"] for job in stdin["jobs"]]
    return [stdin["attributes"]["system"]["job"]["name"]]


class Replay:
    """A transport to a Flux that answers as it did.

    A look is answered by the next one that was recorded before the next request of another kind; by the last, when there is no other.
    """

    def __init__(self, calls: Sequence[Mapping[str, Any]]) -> None:
        self._calls = calls
        self._at = 0
        self._last: dict[str, Completed] = {}

    @property
    def where(self) -> str:
        return "in a recording"

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float) -> Completed:
        if FLUX not in argv:
            return Completed(0, "ctl\n", "")
        wanted = asked(argv, stdin)
        if wanted["words"][0] in _BEGIN:
            return Completed(0, _BEGIN[wanted["words"][0]], "")
        for index in range(self._at, len(self._calls)):
            call = self._calls[index]
            if all(call[key] == wanted[key] for key in ("words", "stdin")):
                self._at = index + 1
                answer = Completed(*call["answer"])
                self._last[str(wanted)] = answer
                return answer
            if _is_look(wanted) and not _is_look(call):
                break
        assert str(wanted) in self._last, f"this was not asked when it was recorded: {wanted}"
        return self._last[str(wanted)]

    def close(self) -> None:
        """Nothing is open."""
