"""A run's cluster ends its own run where who began it is gone: its outputs are kept, and then its end is asked for.

This file is on controllers of runs, where there is Python and nothing else of Tidepool's; there it is run as ``python3 -I -S``:

    run.py serve      look whether there is nothing left to do but that, again and again
    run.py credentials    take the credentials that come on standard input, in place of any before

It has two tokens for the service of runs (`tidepool.runs.service`) and no other right anywhere. Files are read by a process of the
run's user: a link in the run's folder leads to nothing that the user could not read.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

CREDENTIALS = "/var/spool/slurmctld/run/credentials.json"
FILES = "/usr/local/lib/tidepool/run_files.py"
#: Between two looks, in seconds.
LOOK_S = 15.0
_SQUEUE_S = 60.0
_FILES_S = 3600.0
_ANSWER_S = 120.0
#: As the results have it (`tidepool.runs.results.store`).
_PART = 8 * 2**20
_MOST_PARTS = 10_000
#: Jobs that do nothing more, or nothing until somebody drives the run.
_ENDED = frozenset(
    (
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "TIMEOUT",
    )
)
_WAITS_FOR_OTHERS = ("JobHeld", "Dependency")


class Unanswered(Exception):
    """The service does not answer, or not now."""


class Conflict(Unanswered):
    """Somebody drives the run."""


def serve() -> None:
    """Look again and again."""
    while True:
        told = look()
        if told:
            # Names of files need not be UTF-8.
            print(told.encode(errors="backslashreplace").decode(), flush=True)  # noqa: T201 - the boot log
        time.sleep(LOOK_S)


def look() -> str:
    """Do what can be done now, and say what came of it; nothing while jobs run."""
    run = json.loads(Path(CREDENTIALS).read_text(encoding="utf-8"))
    if not is_over(run, time.time()):
        return ""
    try:
        kept, failed = upload(run)
        call(run, "POST", "end", run["end"])
    except Conflict:
        return ""
    except Unanswered as error:
        return f"run: {error}"
    return f"run: {kept} outputs are kept{''.join(f'; {each}' for each in failed)}; its end was asked for"


def is_over(run: Mapping[str, Any], now: float) -> bool:
    """Return whether no job does anything more, as far as Slurm says; or its deadline has passed."""
    if run["ends_at"] is not None and now >= run["ends_at"]:
        return True
    asked = ["squeue", "--noheader", "--all", "--array", "--states=all", "--format=%T %r"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, timeout=_SQUEUE_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    if done.returncode:
        return False
    return all(_is_still(*line.split(" ", 1)) for line in done.stdout.splitlines() if line.strip())


def upload(run: Mapping[str, Any]) -> tuple[int, list[str]]:
    """Have the results hold all outputs that are there; returns how many they hold, and which they do not, and why."""
    try:
        found = ask_files(run, "find", globs=run["globs"], without=run["inputs"])
    except Unanswered as error:
        return 0, [str(error)]
    failed = []
    for path, size, sha256 in found["files"]:
        try:
            upload_one(run, path, size, sha256)
        except Conflict:
            raise
        except Unanswered as error:
            failed.append(f"{path}: {error}")
    return len(found["files"]) - len(failed), failed


def upload_one(run: Mapping[str, Any], path: str, size: int, sha256: str) -> None:
    """Have the results hold one output."""
    spans = _spans(size)
    parts = [hashlib.md5(_read(run, path, *span), usedforsecurity=False).hexdigest() for span in spans]
    told = json.dumps({"path": path, "size": size, "sha256": sha256, "parts": parts}).encode()
    # Each answer names a part at least, or it is whole; what changes all the time is given up.
    for _ in range(2 * len(spans) + 2):
        missing = call(run, "POST", "outputs", run["outputs"], told)["missing"]
        if not missing:
            return
        for number in missing:
            asked = urllib.parse.urlencode({"path": path, "size": size, "part": number})
            call(run, "PUT", f"outputs?{asked}", run["outputs"], _read(run, path, *spans[number - 1]))
    raise Unanswered("it changes while it is kept")


def call(run: Mapping[str, Any], method: str, what: str, token: str, data: bytes = b"") -> Any:
    """Ask the service for something; returns its answer."""
    digest = base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()
    request = urllib.request.Request(  # noqa: S310 - the URL is an administrator's
        f"{run['service']}/{run['run']}/{what}",
        data=data,
        method=method,
        headers={
            "Authorization": f"Bearer {token}",
            "Content-MD5": digest,
            "Content-Type": "application/octet-stream",
        },
    )
    context = (
        ssl.create_default_context(cadata=run["certificate"]) if run["service"].startswith("https:") else None
    )
    # Of proxies of the environment nothing is known to whoever gave the token.
    handlers = [urllib.request.ProxyHandler({}), _NoRedirects()]
    opener = urllib.request.build_opener(*handlers, urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(request, timeout=_ANSWER_S) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            said = error.read(2000).decode(errors="replace")
        kind = Conflict if error.code == 409 else Unanswered
        raise kind(f"the service answers {error.code}: {said}") from None
    except (OSError, ValueError) as error:
        raise Unanswered(f"the service does not answer: {error}") from None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A token goes where it belongs, and nowhere that an answer leads to."""

    def redirect_request(self, *_: Any) -> None:
        return None


def ask_files(run: Mapping[str, Any], verb: str, **arguments: Any) -> Any:
    """Have a process of the run's user look into the run's folder."""
    argv = ["runuser", "--user", run["user"], "--"] if run["user"] else []
    argv += [sys.executable, "-I", FILES, verb, run["folder"], json.dumps(arguments)]
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_FILES_S,
            check=False,
            cwd="/",
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unanswered(str(error)) from None
    if done.returncode:
        raise Unanswered((done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1])
    return json.loads(done.stdout)


def take_credentials() -> None:
    """Write what comes on standard input where `serve` reads it, for root alone."""
    text = sys.stdin.read()
    json.loads(text)
    part = f"{CREDENTIALS}.part"
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, CREDENTIALS)


def _read(run: Mapping[str, Any], path: str, offset: int, length: int) -> bytes:
    data = base64.b64decode(ask_files(run, "read", path=path, offset=offset, length=length))
    if len(data) != length:
        raise Unanswered("it became shorter while it was kept")
    return data


def _spans(size: int) -> list[tuple[int, int]]:
    least = -(-size // _MOST_PARTS)
    step = max(_PART, -(-least // _PART) * _PART)
    return [(at, min(step, size - at)) for at in range(0, size, step)] or [(0, 0)]


def _is_still(state: str, reason: str = "") -> bool:
    return state in _ENDED or (state == "PENDING" and reason.startswith(_WAITS_FOR_OTHERS))


if __name__ == "__main__":
    {"serve": serve, "credentials": take_credentials}[sys.argv[1]]()
