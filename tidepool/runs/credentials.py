"""The two credentials of a run's cluster: one writes the run's outputs, one ends the run, and neither does anything else.

Each is a random token that is on the cluster's controller alone; beside the results are their checksums, by which any machine that
reads the results knows them. They are worth nothing once the run has ended.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Literal

from tidepool.clients.transport import ClientError, Transport
from tidepool.cluster.run_service import RUN_PROGRAM, RunService
from tidepool.runs.ports import RunError
from tidepool.runs.record import Run
from tidepool.runs.results.records import StoredRecords, credentials_name
from tidepool.runs.results.store import Store
from tidepool.runs.workload import Workload

#: What a token is for.
Right = Literal["outputs", "end"]

#: A token outlives the deadline of its run by so long, and lives for the longer where there is none: who ends runs may be away.
_LATE: Final = timedelta(days=1)
_LONGEST: Final = timedelta(days=30)
_BYTES: Final = 32
_GIVEN_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of one run, by what they are for."""

    outputs: str = field(repr=False)
    end: str = field(repr=False)


def new_tokens() -> Tokens:
    """Return two that nobody has seen."""
    return Tokens(secrets.token_urlsafe(_BYTES), secrets.token_urlsafe(_BYTES))


def write_checksums(store: Store, run: Run, tokens: Tokens, now: datetime) -> None:
    """Have results know ``tokens`` as those of ``run``, in place of any before."""
    until = run.ends_at + _LATE if run.ends_at is not None else now + _LONGEST
    known = {"outputs": _checksum(tokens.outputs), "end": _checksum(tokens.end), "until": until.isoformat()}
    store.write(credentials_name(run.id), json.dumps(known).encode())


def run_of(store: Store, id: str, right: Right, token: str, now: datetime) -> Run | None:
    """Return the run whose ``right`` a token gives; None where it gives none: not this right, not of this run, not any more.

    Raises:
        RunError: the results cannot be asked.
    """
    try:
        known = json.loads(store.read(credentials_name(id)))
        expected, until = str(known[right]), datetime.fromisoformat(known["until"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"{store.location(credentials_name(id))} cannot be read: {error}") from error
    if not hmac.compare_digest(_checksum(token), expected) or now >= until:
        return None
    run = StoredRecords(store).read(id)
    return run if run is not None and run.id == id and run.is_under_way else None


def _checksum(token: str) -> str:
    return hashlib.sha256(token.encode(errors="surrogateescape")).hexdigest()


class ControllerCredentials:
    """Credentials on the controller of a run's cluster, and what it has to know for their use."""

    def __init__(
        self, store: Store, run: Run, workload: Workload, user: str, folder: str, service: RunService
    ) -> None:
        self._store, self._run = store, run
        self._told = {
            "service": service.url,
            "certificate": service.certificate,
            "run": run.id,
            "user": user,
            "folder": folder,
            "globs": list(workload.outputs),
            "inputs": [each.path for each in workload.inputs],
            "ends_at": run.ends_at.timestamp() if run.ends_at is not None else None,
        }

    def give(self, controller: Transport, now: datetime) -> None:
        """Have the controller hold new ones, for root alone; any before are worth nothing from now on.

        Raises:
            RunError: it was not reached, or the results were not.
        """
        tokens = new_tokens()
        write_checksums(self._store, self._run, tokens, now)
        text = json.dumps({**self._told, "outputs": tokens.outputs, "end": tokens.end})
        try:
            done = controller.run(
                ["/usr/bin/python3", "-I", "-S", RUN_PROGRAM, "credentials"], stdin=text, timeout_s=_GIVEN_S
            )
        except ClientError as error:
            raise RunError(str(error)) from error
        if done.exit_code:
            said = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.exit_code}"]
            raise RunError(f"the controller did not take its credentials: {said[0]} ({controller.where})")
