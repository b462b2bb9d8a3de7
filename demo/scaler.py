"""The daemon of the demo: `tidepool scale` as a child, ended with it."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tidepool.scaling.ports import Journal

_LEADS_S: Final = 30.0
#: An `up` that is under way may come to its end.
_ENDS_S: Final = 75.0
_LOOK_AGAIN_S: Final = 0.05


class ScalerError(Exception):
    """The daemon does not do its work. The text is for a person."""


@contextmanager
def scaler(tidepool: str, stack: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """It runs within; what it says is in ``log``.

    Raises:
        ScalerError: it did not end well.
    """
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with log.open("wb") as said:
        child = subprocess.Popen(
            [tidepool, "--stack", stack, "scale", "--listen", "none"],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
        )
        try:
            yield child
        except BaseException:
            _end(child)
            raise
        if code := _end(child):
            raise ScalerError(f"`tidepool scale` ended with exit code {code}:\n{tail(log)}")


def until_it_leads(child: subprocess.Popen[bytes], journal: Journal, since_s: float, log: Path) -> None:
    """Wait until somebody who leads has looked since ``since_s``, in seconds since the epoch.

    Raises:
        ScalerError: nobody does.
    """
    deadline = time.monotonic() + _LEADS_S
    while True:
        if (pause := journal.paused()) is not None:
            raise ScalerError(f"the scaler is paused by {pause.by}; `tidepool continue` lets it go on")
        look = journal.last_look()
        if look is not None and look.decision.at.timestamp() >= since_s:
            return
        if child.poll() is not None:
            raise ScalerError(f"`tidepool scale` ended with exit code {child.returncode}:\n{tail(log)}")
        if time.monotonic() > deadline:
            raise ScalerError(f"`tidepool scale` has not looked within {_LEADS_S:g} s:\n{tail(log)}")
        time.sleep(_LOOK_AGAIN_S)


def tail(log: Path, lines: int = 12) -> str:
    """The end of what it said."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def _end(child: subprocess.Popen[bytes]) -> int:
    child.terminate()
    try:
        return child.wait(_ENDS_S)
    except subprocess.TimeoutExpired:
        child.kill()
        return child.wait()
