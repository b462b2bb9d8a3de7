"""Errors of this machine, for people: what, where, what is allowed, the remedy."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Final

from tidepool.cluster.failures import Cause

_REMEDIES: Final = {
    errno.ENOSPC: " (free some space, or put the data folder on another disk)",
    errno.EPERM: " (this needs root, with all capabilities: run it with sudo, outside of a container)",
    errno.EACCES: " (this needs root: run it with sudo)",
    errno.EROFS: " (it is mounted read-only)",
    errno.EMFILE: " (too many open files: ulimit -n 65536)",
}


class LocalError(Exception):
    """A person's mistake or a fault of their machine. Its text is shown as it is, without a traceback."""

    #: The kind of failure (`tidepool.cluster.failures`), for who decides what to do next; None where it may be any.
    cause: ClassVar[Cause | None] = None


class BadSpec(LocalError):
    """A request that cannot be: all mistakes of one network or machine, a line each.

    ``mistakes`` are the same with the field of the specification that each is in; empty where it is none of one field.
    """

    cause = "permanent"

    def __init__(self, text: str, mistakes: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(text)
        self.mistakes = mistakes


class NoSuchMachine(LocalError):
    """There is no machine, or no running one, of that name in that stack."""


class NoSuchNetwork(LocalError):
    """There is no network, or none that is up, of that name in that stack."""


class InUse(LocalError):
    """Something else stands on it or has its place: machines on a network, another machine's address."""

    cause = "permanent"


class BootFailed(LocalError):
    """A machine did not come up. The text holds the reason and the end of the boot log.

    ``code`` is its first process's for the reason: `chroot`, else `error`.
    """

    cause = "boot"

    def __init__(self, text: str, code: str = "error") -> None:
        super().__init__(text)
        self.code = code


class TimedOut(LocalError):
    """It took longer than allowed. What was made so far is known, and the same call goes on from there."""

    cause = "boot"


@dataclass(frozen=True, slots=True)
class Lack:
    """Something that is missing, and the command or step that mends it. Nothing works without a ``fatal`` one."""

    what: str
    remedy: str
    fatal: bool = True

    def __str__(self) -> str:
        return f"{self.what}: {self.remedy}"


@contextmanager
def explained(doing: str) -> Iterator[None]:
    """Raise for people what the kernel refuses: a full disk, a file that may not be written.

    Raises:
        LocalError: in the place of an ``OSError``.
    """
    try:
        yield
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        remedy = _REMEDIES.get(error.errno or 0, "")
        raise LocalError(f"{doing}: {where}{error.strerror}{remedy}") from error
