"""The cluster of a run: a stack of its own, brought up and taken down by the command's own verbs, with a scaler beside."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Final

from tidepool.cli import errors
from tidepool.cli.cluster import parse_outputs
from tidepool.cli.errors import Failure
from tidepool.cli.remote_infrastructure import named_infrastructures, observe_remote
from tidepool.cli.runs.verbs import Verb, VerbServer
from tidepool.cli.stack import Stack, has_journal, scaler_folder
from tidepool.clients.transport import ClientError
from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.hostlist import expand
from tidepool.cluster.spec import ClusterSpec
from tidepool.engine.errors import EngineError
from tidepool.infrastructures.local.kernel import list_machines, list_networks
from tidepool.runs.cost import cost
from tidepool.runs.credentials import ControllerCredentials
from tidepool.runs.ports import ClusterSight, ClusterUse, Refused, RunError

#: The stack's file is wrong, or this machine lacks something: nothing was changed, and nothing will be.
_NEVER: Final = frozenset({errors.USAGE, errors.LACKS})
#: An `up` of the scaler's that is under way may come to its end.
_ENDS_S: Final = 75.0
_LAST_LINES: Final = 5
#: The type of an image in a state.
_IMAGE: Final = "tidepool:image:Image"
#: For so long jobs are let begin on nodes that are there before the scaler starts: as long as the `up` took, within these bounds.
_LEAST_UNSCALED_S, _MOST_UNSCALED_S = 2.0, 10.0


class StackCluster:
    """That of ``stack``, which begins to come up at ``since``. What the verbs say is in ``log``.

    The scaler runs while the cluster is up, and ends with this process.
    """

    def __init__(
        self,
        stack: Stack,
        spec: ClusterSpec,
        since: datetime,
        log: Path,
        verbs: VerbServer,
        credentials: ControllerCredentials | None = None,
    ) -> None:
        """Know it; its controller is given ``credentials`` when it is up."""
        self._stack, self._spec, self._since, self._log = stack, spec, since, log
        self._credentials = credentials
        self._verbs = verbs
        self._scaler: Verb | None = None
        self._up_since: float | None = None
        self._up_took_s = 0.0
        self._images: Mapping[str, str] = FrozenDict()

    def see(self) -> ClusterSight:
        stack = self._stack
        try:
            outputs = stack.outputs() if stack.may_have_state else None
            if not outputs:
                return "partial" if self._is_anything_left(is_known=outputs is not None) else "absent"
            if "controller" not in outputs:
                return "partial"
            cluster = parse_outputs(stack.name, outputs)
            with closing(stack.open_slurm(cluster.controller)) as slurm:
                is_up = any(each.is_up for each in slurm.ping())
        except (ClientError, EngineError, Failure) as error:
            raise RunError(str(error)) from error
        if is_up:
            self._have_scaler(cluster.fleets)
        return "up" if is_up else "partial"

    def up(self) -> None:
        begins = time.monotonic()
        self._run("up", "--yes")
        self._up_took_s = time.monotonic() - begins
        if self._credentials is not None:
            self._give(self._credentials)

    def down(self, *, with_home: bool) -> None:
        self.end_scaler()
        self._run("down", "--yes", "--force", *(["--purge"] if with_home else []))

    def remove_file(self) -> None:
        self._stack.file.unlink(missing_ok=True)

    def use(self) -> ClusterUse:
        from tidepool.scaling.journal import open_journal
        from tidepool.scaling.ports import JournalError

        stack = self._stack
        spent, launched = None, frozenset[str]()
        try:
            outputs = stack.outputs() if stack.may_have_state else None
            if not outputs or "controller" not in outputs:
                raise RunError(f"the cluster of stack {stack.name} is not up: what it cost was read before")
            fleets = parse_outputs(stack.name, outputs).fleets
            images = self._image_digests()
            if has_journal(stack):
                folder = scaler_folder(stack)
                with closing(open_journal(folder, stack.context.env, stack=stack.name)) as journal:
                    spent = journal.kept().memory.spent
                    launched = frozenset(each.node for each in journal.launches())
        except (EngineError, Failure, JournalError) as error:
            raise RunError(str(error)) from error
        there = {fleet: expand(nodes) for fleet, nodes in fleets.items() if nodes}
        counts = {fleet: len(nodes) for fleet, nodes in there.items()}
        names = {name for nodes in there.values() for name in nodes} | launched
        now = datetime.now(UTC)
        return ClusterUse(images, tuple(sorted(names)), cost(self._spec, self._since, spent, counts, now))

    def _give(self, credentials: ControllerCredentials) -> None:
        from tidepool.infrastructures.connection import transport

        try:
            outputs = self._stack.outputs()
        except (EngineError, Failure) as error:
            raise RunError(str(error)) from error
        controller = transport(parse_outputs(self._stack.name, outputs or {}).controller, self._stack.data)
        with closing(controller):
            credentials.give(controller, datetime.now(UTC))

    def _is_anything_left(self, *, is_known: bool) -> bool:
        """Return whether something of a stack without outputs is there, wherever its machines come from.

        Raises:
            RunError: an infrastructure does not tell.
        """
        stack = self._stack
        # A stack whose /home was kept is still in the engine's books, without resources.
        if is_known and (stack.exported().get("deployment") or {}).get("resources"):
            return True
        if list_machines(stack.data, stack.name) or list_networks(stack.data, stack.name):
            return True
        named = named_infrastructures(stack, None)
        if not named:
            return False
        there = observe_remote(stack, named)
        if any(machine.key.stack == stack.name for machine in there.machines):
            return True
        if there.silent:
            told = "; ".join(f"{name}: {why}" for name, why in there.silent.items())
            raise RunError(f"whether machines are left is not known: {told}")
        return False

    def _image_digests(self) -> Mapping[str, str]:
        if not self._images:
            resources = (self._stack.exported().get("deployment") or {}).get("resources") or ()
            self._images = FrozenDict(
                {
                    each["urn"].rpartition("::")[2]: each["outputs"]["digest"]
                    for each in resources
                    if each["type"] == _IMAGE and "digest" in (each.get("outputs") or {})
                }
            )
        return self._images

    def end_scaler(self) -> None:
        """Have it end in order: an `up` that it has under way comes to its end."""
        child, self._scaler = self._scaler, None
        if child is None:
            return
        child.send(signal.SIGTERM)
        if child.wait(_ENDS_S) is None:
            child.send(signal.SIGKILL)
            child.wait()

    def close(self) -> None:
        """Let go of all processes."""
        self.end_scaler()
        self._verbs.close()

    def _have_scaler(self, fleets: Mapping[str, str]) -> None:
        """Have it run. Where there are nodes, jobs begin on those first: its start would take the processor from them.

        On a machine that is busy, as with several runs at one time, they need longer, as the `up` did.
        """
        self._up_since = self._up_since or time.monotonic()
        later_s = min(max(self._up_took_s, _LEAST_UNSCALED_S), _MOST_UNSCALED_S)
        if any(fleets.values()) and time.monotonic() - self._up_since < later_s:
            return
        if self._scaler is None or self._scaler.wait(0) is not None:
            with self._open_log() as log:
                self._scaler = self._begun("scale", "--listen", "none", log=log)

    def _run(self, *words: str) -> None:
        with self._open_log() as log:
            begins = log.tell()
            code = self._begun(*words, log=log).wait()
        if code:
            with self._log.open("rb") as said:
                said.seek(begins)
                lines = said.read().decode(errors="replace").strip().splitlines()[-_LAST_LINES:]
            kind = Refused if code in _NEVER else RunError
            raise kind(
                f"`tidepool {words[0]}` ended with exit code {code}: {' '.join(lines)} (all of it: {self._log})"
            )

    def _begun(self, *words: str, log: IO[bytes]) -> Verb:
        try:
            return self._verbs.begin(["--stack", self._stack.name, *words], log.fileno())
        except OSError as error:
            raise RunError(
                f"`tidepool {words[0]}` was not begun: {error}; `tidepool run --resume` begins anew"
            ) from error

    def _open_log(self) -> IO[bytes]:
        self._log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        log = self._log.open("ab")
        log.seek(0, 2)
        return log
