"""Homes and their quotas, as the agent tells of them, and what the service on controllers found."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tidepool.clients.files import quota_agent
from tidepool.clients.transport import ClientError, Completed, Transport
from tidepool.cluster.files import FILES_FOLDER, FILES_PROGRAM

#: The text of what runs there: by no file that would have to be there, and without the site's modules.
_AGENT: Final = ("-ISc", Path(quota_agent.__file__).read_text("utf-8"))
#: To put homes into their projects takes a second for 20,000 files; who has more is asked to wait.
_SET_S: Final = 3600.0
_ASK_S: Final = 30.0
_ROUND_S: Final = 24 * 3600.0


class FilesError(ClientError):
    """It cannot be done, or what was answered cannot be read."""


@dataclass(frozen=True, slots=True)
class Home:
    """A person's home. ``quota`` and ``used`` are bytes; None where the file system counts nothing, 0 for no quota.

    ``is_whole`` is false where something in it is outside of its project, which nothing limits.
    """

    name: str
    uid: int
    quota: int | None = None
    used: int | None = None
    files: int | None = None
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class Homes:
    """The homes of a file system of this ``kind``; where it is not ``enforced``, ``why``, and the ``remedy``."""

    homes: tuple[Home, ...]
    is_enforced: bool
    kind: str
    why: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class HomeFolder:
    """A folder of homes, which the root of ``transport`` sees at ``folder``. ``scope`` sets their projects apart from others'.

    ``python`` is an interpreter there.
    """

    transport: Transport
    folder: str
    scope: str
    python: str = "/usr/bin/python3"

    def read(self) -> Homes:
        """Return how it is.

        Raises:
            ClientError: it cannot be asked.
        """
        return self._ask({"verb": "read"}, _ASK_S)

    def set_quotas(self, default: int, quotas: Mapping[str, int]) -> Homes:
        """Give homes their quotas, in bytes: that of the person's name, or else ``default``; where that is 0, homes are the site's.

        Raises:
            ClientError: it cannot be asked, or not all of it was done.
        """
        return self._ask({"verb": "set", "default": default, "quotas": dict(quotas)}, _SET_S)

    def _ask(self, request: Mapping[str, Any], timeout_s: float) -> Homes:
        asked = {**request, "folder": self.folder, "scope": self.scope}
        ended = self.transport.run((self.python, *_AGENT), stdin=json.dumps(asked), timeout_s=timeout_s)
        told = _read(ended, self.transport)
        people = tuple(
            Home(
                each["name"],
                each["uid"],
                each.get("quota"),
                each.get("used"),
                each.get("files"),
                each.get("whole", True),
            )
            for each in told["people"]
        )
        return Homes(people, told["enforced"], told["kind"], told["why"], told["remedy"])


@dataclass(frozen=True, slots=True)
class FilesService:
    """The service on the controller behind ``transport``."""

    transport: Transport

    def write_policy(self, policy: Mapping[str, Any]) -> None:
        """Have it work by ``policy`` from now on.

        Raises:
            ClientError: it cannot be written there.
        """
        self._judge(self._run("policy", stdin=json.dumps(policy)))

    def policy(self) -> Mapping[str, Any] | None:
        """Return the policy that is there; None where none is."""
        ended = self.transport.run(["cat", f"{FILES_FOLDER}/policy.json"], timeout_s=_ASK_S)
        found: Mapping[str, Any] | None = json.loads(ended.stdout) if ended.exit_code == 0 else None
        return found

    def report(self) -> Mapping[str, Any] | None:
        """Return what the last round found; None where there was none, or the service is not there."""
        ended = self._run("report")
        return _read(ended, self.transport) if ended.exit_code == 0 and ended.stdout != "null" else None

    def make_round(self, *, trust_clock: bool = False) -> None:
        """Make a round, and wait for its end; ``trust_clock`` where somebody says that the clock there is right."""
        self._judge(self._run("trust-clock" if trust_clock else "round", timeout_s=_ROUND_S))

    def _run(self, verb: str, stdin: str = "", timeout_s: float = _ASK_S) -> Completed:
        argv = ["/usr/bin/python3", "-I", "-S", FILES_PROGRAM, verb]
        return self.transport.run(argv, stdin=stdin, timeout_s=timeout_s)

    def _judge(self, ended: Completed) -> None:
        if ended.exit_code:
            said = ended.stderr.strip().splitlines()[-1:] or [f"exit code {ended.exit_code}"]
            raise FilesError(
                f"the service of people's files cannot be told: {said[0]}",
                where=self.transport.where,
                remedy="a controller that booted before the spec had quotas or scratch has it after its next boot",
            )


def _read(ended: Completed, transport: Transport) -> Mapping[str, Any]:
    try:
        told: Mapping[str, Any] = json.loads(ended.stdout)
    except ValueError:
        said = ended.stderr.strip().splitlines()[-1:] or [f"exit code {ended.exit_code}"]
        raise FilesError(
            f"it did not come to the end of it: {said[0]}", where=transport.where, remedy="try it again"
        ) from None
    if "error" in told:
        raise FilesError(
            told["error"], where=transport.where, remedy="see what is wrong with the file system there"
        )
    return told
