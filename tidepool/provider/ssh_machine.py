"""tidepool:ssh:Machine."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidepool.clients.slurm import SlurmError, Transport
from tidepool.infrastructures.connection import transport
from tidepool.resources.difference import Rules
from tidepool.resources.errors import Refusal
from tidepool.resources.kind import AS_KNOWN, Home, Kind, Made, Task
from tidepool.resources.reading import Mistake, Reader
from tidepool.resources.values import Plain

_AGAIN_S: Final = 1.0
_ONE_S: Final = 15.0
#: How far a machine is that cannot be connected with.
_BOOTS: Final[Mapping[int | None, str]] = {
    errno.EHOSTUNREACH: "it boots, and has no address yet; ",
    errno.ECONNREFUSED: "it boots, and has its address; sshd does not run yet; ",
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the inputs say."""

    machine: str
    stack: str
    address: str
    user: str
    port: int

    @property
    def connection(self) -> Mapping[str, Any]:
        """As `tidepool.infrastructures.connection` reads it."""
        named = {"kind": "ssh", "stack": self.stack, "address": self.address, "user": self.user}
        return named if self.port == 22 else {**named, "port": self.port}


class SshMachineKind(Kind[Wanted]):
    """A machine that answers by SSH. It is somebody else's: nothing is made here, and nothing is taken away."""

    token = "tidepool:ssh:Machine"  # noqa: S105 - a type of resource
    keys = frozenset({"machine", "stack", "address", "user", "port", "access"})
    rules = Rules(replaces=frozenset({"machine", "stack", "address", "user", "port"}))
    #: A machine that boots is there in half a minute; one that is emulated, in several.
    timeout_s = 600.0

    def __init__(
        self,
        home: Home,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._home = home
        self._sleep = sleep

    def read(self, reader: Reader) -> Wanted:
        reader.text("access")
        return Wanted(
            reader.text("machine"),
            reader.text("stack"),
            reader.text("address"),
            reader.text("user"),
            reader.integer("port", 22, least=1),
        )

    def mistakes(self, wanted: Wanted) -> Iterable[Mistake]:
        try:
            transport(wanted.connection, self._home.data)
        except ValueError as error:
            yield Mistake("address", str(error))

    def create(self, wanted: Wanted, task: Task) -> Made:
        reached, told = transport(wanted.connection, self._home.data), ""
        try:
            while why := _why_not(reached):
                if task.left_s <= _AGAIN_S:
                    raise Refusal(
                        f"the machine {wanted.address} does not answer within {task.timeout_s:g} s: {why}. See its "
                        "console; the next `tidepool up` goes on from here" + self._more_time(task)
                    )
                # Each line of it stays, where no terminal is written to.
                if why != told:
                    task.status(f"waiting for {wanted.address}: {why}")
                told = why
                self._sleep(_AGAIN_S)
        finally:
            reached.close()
        return Made(f"{wanted.stack}/{wanted.address}", {"connection": wanted.connection})

    def _more_time(self, task: Task) -> str:
        """Where the time is one that a person can say: that of an infrastructure with an option for it."""
        if task.timeout_s == self.timeout_s:
            return ""
        return ". A machine that is slower gets more time by `boot_timeout_s` of its infrastructure's options"

    def look(self, id: str, state: Wanted) -> Mapping[str, Plain] | None:
        # Not seen is not gone: whether it is there, who made it says.
        return AS_KNOWN


def _why_not(reached: Transport) -> str:
    try:
        ended = reached.run(["true"], timeout_s=_ONE_S)
    except SlurmError as error:
        return _BOOTS.get(getattr(error.__cause__, "errno", None), "") + error.what
    return "" if ended.exit_code == 0 else f"`true` ended with {ended.exit_code}: {ended.stderr.strip()}"
