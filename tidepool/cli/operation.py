"""An operation of the engine, and what it came to as one document."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tidepool.cli import errors, show
from tidepool.cli.errors import Failure
from tidepool.cli.stack import Stack
from tidepool.cluster.frozen import FrozenDict

_EVENTS: Final = "events.json"
_PARALLEL: Final = 256


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of an operation. ``changes`` counts resources by kind of change: create, update, same, ...

    ``result`` is the engine's: ``succeeded``, ``failed``, ``canceled``; ``declined`` where the person said no.
    ``diagnostics`` are the errors and warnings that it told. Without a summary, changes are empty.
    """

    code: int
    result: str
    changes: Mapping[str, int]
    diagnostics: tuple[Mapping[str, str], ...]
    duration_s: float

    @property
    def is_done(self) -> bool:
        """Everything was done: it neither failed nor was declined."""
        return self.code == errors.OK and self.result == "succeeded"

    def document(self, **more: Any) -> dict[str, Any]:
        """Return it as `--json` shows it."""
        return {
            "result": self.result,
            "changes": dict(self.changes),
            "diagnostics": list(self.diagnostics),
            "durationSeconds": round(self.duration_s, 3),
            **more,
        }


def carry_out(
    stack: Stack,
    verb: str,
    *words: str,
    counted: bool,
    aside: bool,
    settings: Mapping[str, str] = FrozenDict(),
) -> Outcome:
    """Run the engine's ``verb``, shown as it goes on; ``aside`` shows it on standard error. ``settings``: see `Stack.run`.

    Only where it is ``counted`` are there changes and diagnostics, and is a person who declined told apart: that takes
    the engine's own log of events, which both engines write.
    """
    began = time.monotonic()
    if not counted:
        code = stack.run(verb, *words, settings=settings)
        return Outcome(code, "succeeded" if code == 0 else "failed", {}, (), time.monotonic() - began)
    with tempfile.TemporaryDirectory(prefix="operation-", dir=stack.data) as folder:
        log = Path(folder) / _EVENTS
        code = stack.run(verb, *words, log=log, aside=aside, settings=settings)
        return _outcome(code, list(_events(log)), verb == "preview", time.monotonic() - began)


def turn(stack: Stack, *, after_persons: bool = False) -> AbstractContextManager[None]:
    """The person's turn on the stack: where the scaler is at work, its `up` is waited for, and it begins no other.

    ``after_persons``: other persons' operations are waited for as well.
    """
    from tidepool.scaling.stack.turn import person_turn

    whose = "" if after_persons else ", the scaler's say"
    told = f"an operation is under way on stack {stack.name}{whose}; its end is waited for"
    return person_turn(stack.data / stack.name, lambda: show.tell(told), after_persons=after_persons)


def parallel(number: int | None) -> tuple[str, ...]:
    """The flag for how many resources are worked on at once."""
    return ("--parallel", str(number or _PARALLEL))


def require_approval(stack: Stack, yes: bool, verb: str) -> None:
    """Require ``--yes`` where nobody can be asked.

    Raises:
        Failure: it is not.
    """
    if not yes and not stack.context.person:
        raise Failure(
            f"`{verb}` changes the cluster, and there is no terminal to ask at",
            remedy=f"`tidepool {verb} --yes`, or `tidepool preview` to look first",
            code=errors.USAGE,
        )


def exit_code(code: int) -> int:
    """Translate an exit code of the engine to one of ours."""
    return code if code in (errors.OK, errors.INTERRUPTED) else errors.FAILED


def _outcome(code: int, events: list[Mapping[str, Any]], is_preview: bool, duration_s: float) -> Outcome:
    summaries = [event["summaryEvent"] for event in events if "summaryEvent" in event]
    # An `up` that asks has a preview before it, with a summary of its own.
    ours = [each for each in summaries if bool(each.get("isPreview")) is is_preview]
    told = [event["diagnosticEvent"] for event in events if "diagnosticEvent" in event]
    diagnostics = tuple(
        {"severity": each["severity"], "urn": each.get("urn", ""), "message": each["message"].strip()}
        for each in told
        if each.get("severity") in ("error", "warning") and not each.get("ephemeral")
    )
    if ours:
        result = ours[-1].get("result") or ("succeeded" if code == 0 else "failed")
        return Outcome(code, result, ours[-1].get("resourceChanges") or {}, diagnostics, duration_s)
    return Outcome(code, "declined" if code == 0 else "failed", {}, diagnostics, duration_s)


def _events(log: Path) -> Iterator[Mapping[str, Any]]:
    if not log.exists():
        return
    with log.open(encoding="utf-8") as lines:
        for line in lines:
            if line.endswith("\n"):
                yield json.loads(line)
