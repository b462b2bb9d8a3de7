"""The policies in force, as the stack's file says it now: read when the file changes.

The rest of the spec is what was brought up last. Mistakes are told, all of them, and what was in force stays.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from tidepool.cluster.scaling import Scaling
from tidepool.cluster.spec import ClusterSpec

_NEVER: Final = (-1, -1, -1)


class PoliciesFile:
    """The section ``scaling`` of ``path``, by ``read``, which raises ``mistakes`` with a text for a person."""

    def __init__(
        self, path: Path, read: Callable[[], Scaling], mistakes: tuple[type[Exception], ...]
    ) -> None:
        self._path = path
        self._read = read
        self._mistakes = mistakes
        self._seen = _NEVER
        self._scaling: Scaling | None = None
        self._joined: tuple[ClusterSpec, Scaling | None, ClusterSpec] | None = None
        #: What is wrong with the file as it is now; empty where nothing is.
        self.mistake = ""

    def in_force(self, brought_up: ClusterSpec) -> ClusterSpec:
        """``brought_up``, with the policies of the file; with those that were in force where there are mistakes."""
        self._look()
        joined = self._joined
        if joined is None or joined[0] is not brought_up or joined[1] is not self._scaling:
            self._joined = (brought_up, self._scaling, self._join(brought_up))
        assert self._joined is not None
        return self._joined[2]

    def _look(self) -> None:
        try:
            status = self._path.stat()
            seen = (status.st_ino, status.st_mtime_ns, status.st_size)
        except OSError:
            seen = _NEVER
        if seen == self._seen:
            return
        self._seen = seen
        if seen == _NEVER:
            self.mistake = f"{self._path} is not there; the policies that were in force stay"
            return
        try:
            self._scaling = self._read()
            self.mistake = ""
        except self._mistakes as error:
            self.mistake = f"{error}; the policies that were in force stay"

    def _join(self, brought_up: ClusterSpec) -> ClusterSpec:
        if self._scaling is None or self._scaling == brought_up.scaling:
            return brought_up
        # Who asks for nodes is a matter of what the slots are, which an `up` changes.
        scaling = {**self._scaling.model_dump(), "mode": brought_up.scaling.mode}
        try:
            return ClusterSpec(**{**brought_up.model_dump(), "scaling": scaling})
        except ValidationError as error:
            told = "; ".join(str(each["msg"]).removeprefix("Value error, ") for each in error.errors())
            self.mistake = f"{self._path}: the policies do not fit to what was brought up: {told}"
            return brought_up
