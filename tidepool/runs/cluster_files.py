"""The folder of a run on its cluster, by way of a machine that has it; and what goes in and out of it."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final
from urllib.parse import unquote, urlsplit, urlunsplit

from tidepool.clients.transport import ClientError, Transport
from tidepool.runs.ports import Listed, Refused, RunError
from tidepool.runs.record import Output
from tidepool.runs.results.store import PART, Store
from tidepool.runs.results.transfer import spoiled, upload_all
from tidepool.runs.workload import Input, Workload

#: A part is 11 MB of base64; lists have checksums of all, which are read for that.
_CALL_S: Final = 120.0
_LIST_S: Final = 3600.0


class ClusterFiles:
    """The files of the run ``run_id`` in ``folder``, as ``user`` (empty: whoever the transport is) on the machine behind ``transport``.

    ``store`` is where results are kept; ``open_input`` opens the place of an input, by its URL. ``sent`` hears of bytes of
    outputs that are kept, in any thread.
    """

    def __init__(
        self,
        transport: Transport,
        user: str,
        folder: str,
        run_id: str,
        workload: Workload,
        store: Store,
        open_input: Callable[[str], Store],
        sent: Callable[[Output, int], None] = lambda _output, _size: None,
    ) -> None:
        self._transport, self._user, self._folder = transport, user, folder
        self._run_id, self._workload = run_id, workload
        self._store, self._open_input, self._sent = store, open_input, sent
        self._agent = files("tidepool.runs").joinpath("files_agent.py").read_text()

    def stage(self) -> None:
        self.ask("make")
        for each in self._workload.inputs:
            self._stage(each)

    def list(self) -> Listed:
        staged = [each.path for each in self._workload.inputs]
        found = self.ask("find", timeout_s=_LIST_S, globs=list(self._workload.outputs), without=staged)
        outputs = tuple(Output(path, size, sha256) for path, size, sha256 in found["files"])
        return Listed(outputs, tuple(found["unmatched"]))

    def upload(self, outputs: Sequence[Output], kept: Callable[[Output], None]) -> None:
        upload_all(self._store, self._run_id, outputs, lambda output: _Remote(self, output), kept, self._sent)

    def verify(self, outputs: Sequence[Output]) -> tuple[Output, ...]:
        return spoiled(self._store, self._run_id, outputs)

    def abandon(self) -> None:
        self._store.abandon(f"{self._run_id}/")

    def ask(self, verb: str, *, stdin: str = "", timeout_s: float = _CALL_S, **arguments: Any) -> Any:
        """Have the agent do something; returns its answer.

        Raises:
            RunError: the machine was not reached, or it could not be done.
        """
        as_user = ["runuser", "--user", self._user, "--"] if self._user else []
        argv = [*as_user, "python3", "-I", "-c", self._agent, verb, self._folder, json.dumps(arguments)]
        try:
            done = self._transport.run(argv, stdin=stdin, timeout_s=timeout_s)
        except ClientError as error:
            raise RunError(str(error)) from error
        if done.exit_code:
            said = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.exit_code}"]
            raise RunError(f"{said[0]} ({self._transport.where}); see the disk of /home, and its quota")
        return json.loads(done.stdout)

    def _stage(self, wanted: Input) -> None:
        url, name = _split(wanted.url)
        try:
            store = self._open_input(url)
        except ValueError as error:
            raise Refused(f"{wanted.path} (inputs): {error}") from error
        try:
            size = store.size(name)
            whole, there = self.ask("state", path=wanted.path)
            if whole == size:
                return
            offset = there - there % PART if 0 < there <= size else 0
            while True:
                data = store.fetch(name, offset, min(PART, size - offset)) if size else b""
                self.ask("write", stdin=base64.b64encode(data).decode(), path=wanted.path, offset=offset)
                offset += len(data)
                if offset >= size:
                    break
                if not data:
                    raise RunError(f"{wanted.url} became shorter while it was read")
            self.ask("finish", path=wanted.path)
        except FileNotFoundError:
            raise Refused(
                f"the input {wanted.url} is not there; mend its URL (inputs), or put it there"
            ) from None
        finally:
            store.close()


@dataclass(frozen=True, slots=True)
class _Remote:
    """An output, read on the cluster as it is uploaded."""

    files: ClusterFiles
    output: Output

    @property
    def size(self) -> int:
        return self.output.size

    @property
    def sha256(self) -> str:
        return self.output.sha256

    def read(self, offset: int, length: int) -> bytes:
        if not length:
            return b""
        data = base64.b64decode(self.files.ask("read", path=self.output.path, offset=offset, length=length))
        if len(data) != length:
            raise RunError(
                f"{self.output.path} became shorter while it was kept; see what still writes to it"
            )
        return data


def _split(url: str) -> tuple[str, str]:
    """Return the URL of the folder that a file is in, with its options, and the file's name."""
    parts = urlsplit(url)
    folder, _, name = parts.path.rpartition("/")
    return urlunsplit(parts._replace(path=folder or "/")), unquote(name) if parts.scheme == "file" else name
