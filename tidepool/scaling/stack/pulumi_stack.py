"""The stack that the scaler changes, through Pulumi's Automation API, with either engine behind it."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pulumi import automation
from pulumi.automation._stack import StackInitMode  # the package forgot to name it
from pulumi.automation.errors import CommandError, ConcurrentUpdateError, StackNotFoundError

from tidepool.cluster.desired_state import DesiredNodes
from tidepool.cluster.failures import Cause, InfrastructureError
from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.spec import ClusterSpec
from tidepool.engine.errors import EngineError
from tidepool.engine.warm import WarmPulumiCommand
from tidepool.infrastructures.registry import failure_kind_of
from tidepool.scaling.cluster_state import Recorded
from tidepool.scaling.ports import NotUp, Occupied, StackError, StackOutputs, UpOutcome
from tidepool.scaling.stack.deployment import (
    Deployment,
    infrastructure_at,
    outcome,
    read_deployment,
    stack_outputs,
    urns_of,
)
from tidepool.scaling.stack.operation import Folder, Terms, Unattended, clear
from tidepool.scaling.stack.turn import try_turn

_PARALLEL: Final = 256
_NOWHERE: Final[Mapping[str, str]] = FrozenDict()
_NONE_SUSPENDED: Final[Mapping[str, HostSet]] = FrozenDict()
#: Longer than any node of an `up` may take, and than a golden image that has to be built first.
_UP_S: Final = 1800.0
_PREVIEW_S: Final = 120.0
#: How long a state is believed that is not in a file which tells of its changes.
_BELIEVED_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class StackLocation:
    """The stack, and what the engine needs to know of it."""

    name: str
    project: str
    #: The project's folder.
    folder: Path
    #: What belongs to the stack on this machine, the lock of its operations for one.
    data: Path
    #: Beside this process's own: where state and passphrase are.
    environment: Mapping[str, str]
    #: The file of the stack's state, where the backend is a folder; by it changes are seen.
    checkpoint: Path | None = None
    #: The folder of Pulumi's own locks on it.
    locks: Path | None = None
    #: What the embedded engine leaves when an operation of it is cut off.
    journal: Path | None = None
    #: The stack's file, of which operations are told by a copy.
    file: Path | None = None


@dataclass(frozen=True, slots=True)
class _Errand:
    """One `up`: the desired state, the nodes it is about, and the URNs that it is limited to, once they are asked for."""

    desired: DesiredNodes
    nodes: frozenset[str]
    targets: Callable[[], list[str]]
    refresh: bool
    locations: Mapping[str, str] = field(default_factory=dict)


class PulumiStack:
    """`tidepool.scaling.ports.Stack`. It may be used by several threads; one operation at a time.

    ``spec_of_file`` gives the spec for stacks whose outputs have none, which were brought up before there were any.
    """

    def __init__(
        self, location: StackLocation, command: WarmPulumiCommand, spec_of_file: Callable[[], ClusterSpec]
    ) -> None:
        self._location = location
        self._command = command
        self._spec_of_file = spec_of_file
        self._lock = threading.Lock()
        self._outputs: StackOutputs | None = None
        self._deployment: Deployment | None = None
        self._read_at = 0.0

    def read(self) -> StackOutputs:
        with self._lock:
            version = self._version()
            if self._outputs is None or version != self._outputs.version:
                # The version from before: what changes meanwhile is read again.
                self._deployment = self._exported()
                self._outputs = stack_outputs(self._deployment, version, self._spec_of_file)
                self._read_at = time.monotonic()
            return self._outputs

    def up(
        self,
        desired: Mapping[str, HostSet],
        nodes: Collection[str],
        *,
        locations: Mapping[str, str] = _NOWHERE,
        refresh: Collection[str] = (),
        suspended: Mapping[str, HostSet] = _NONE_SUSPENDED,
    ) -> UpOutcome:
        all_nodes = frozenset({*nodes, *refresh})
        errand = _Errand(
            replace(self._desired_state(desired, all_nodes, locations), suspended=suspended),
            all_nodes,
            lambda: self._targets(all_nodes, desired, locations),
            bool(refresh),
            locations,
        )
        return self._in_turn(errand)

    def convert(
        self, kubernetes: Mapping[str, HostSet], nodes: Collection[str], *, refresh: Collection[str] = ()
    ) -> UpOutcome:
        desired = DesiredNodes({}, HostSet.from_names(nodes), kubernetes)
        return self._in_turn(
            _Errand(desired, frozenset(nodes), lambda: self._role_targets(nodes), bool(refresh))
        )

    def _in_turn(self, errand: _Errand) -> UpOutcome:
        try:
            turn = try_turn(self._location.data)
        except OSError as error:
            raise StackError(f"the stack's turn cannot be taken: {error}") from error
        if turn is None:
            raise Occupied("an operation is under way on the stack")
        try:
            clear(self._scaler)
            return self._up(errand, turn)
        except (OSError, ValueError) as error:
            # A full disk, most of all. What it came to is in the state.
            raise StackError(f"what the `up` came to cannot be read: {error}") from error
        finally:
            os.close(turn)
            with self._lock:
                self._outputs = None

    def is_busy(self) -> bool:
        locks = self._location.locks
        if locks is not None and locks.is_dir() and any(locks.iterdir()):
            return True
        turn = try_turn(self._location.data)
        if turn is not None:
            os.close(turn)
        return turn is None

    def preview(
        self,
        desired: Mapping[str, HostSet],
        nodes: Collection[str],
        *,
        locations: Mapping[str, str] = _NOWHERE,
        suspended: Mapping[str, HostSet] = _NONE_SUSPENDED,
    ) -> str:
        # Not by the SDK's own `preview`, which has the engine send its events to a server in this process.
        words = ["preview", "--stack", self._location.name, "--non-interactive", "--color", "never"]
        targets = self._targets(nodes, desired, locations)
        if not targets:
            return ""
        words += [f"--parallel={_PARALLEL}", *(f"--target={urn}" for urn in targets)]
        try:
            with _errors_said(), self._folder(is_preview=True) as folder:
                command = Unattended(self._command, Terms(_PREVIEW_S, folder.events, config=folder.config))
                return command.run(
                    words,
                    str(self._location.folder),
                    self._variables(
                        replace(self._desired_state(desired, nodes, locations), suspended=suspended)
                    ),
                ).stdout
        except OSError as error:
            # A full disk, most of all.
            raise StackError(f"the preview could not begin: {error}") from error

    def _up(self, errand: _Errand, turn: int) -> UpOutcome:
        began = time.monotonic()
        self._clear_cut_off_creations(turn)
        targets = errand.targets()
        if not targets:
            return UpOutcome()  # none is desired, and none is there
        with self._folder() as folder:
            # The child has the turn as well: should this process be killed or stopped, it keeps it to its end.
            terms = Terms(_UP_S, folder.events, (turn,), folder.config)
            failed, said = False, ""
            try:
                self._stack(errand.desired, terms).up(
                    target=targets,
                    parallel=_PARALLEL,
                    continue_on_error=True,
                    refresh=errand.refresh or None,
                    suppress_outputs=True,
                    color="never",
                )
            except ConcurrentUpdateError as error:
                raise Occupied(_said(error)) from error
            except CommandError as error:
                failed, said = True, _said(error)
            except EngineError as error:
                raise StackError(str(error)) from error
            duration_s = time.monotonic() - began
            return outcome(
                list(_documents(folder.events)) if folder.events.exists() else (),
                errand.nodes,
                duration_s,
                failed,
                said,
                lambda node, text: self._cause(errand, node, text),
            )

    def _clear_cut_off_creations(self, turn: int) -> None:
        """Take creations that were cut off from the list of those that nobody knows about, on which they stay for ever.

        They are carried out again, where they are still desired, and take what is there. What is not desired any
        more is a machine without a record.
        """
        self.read()
        journal = self._location.journal
        is_listed = self._deployment is not None and self._deployment.has_cut_off
        if not is_listed and (journal is None or not journal.exists()):
            return
        name, project = self._location.name, self._location.project
        with self._folder() as folder:
            terms = Terms(_PREVIEW_S, folder.events, (turn,), folder.config)
            command = Unattended(self._command, terms)
            words = ["refresh", "--stack", name, "--yes", "--skip-preview", "--clear-pending-creates"]
            # It looks at nothing: the stack itself is no thing of the world.
            words += ["--target", f"urn:pulumi:{name}::{project}::pulumi:pulumi:Stack::{project}-{name}"]
            with _errors_said():
                command.run(words, str(self._location.folder), dict(self._location.environment))
        with self._lock:
            self._outputs = None

    def _targets(
        self, nodes: Collection[str], desired: Mapping[str, HostSet], locations: Mapping[str, str]
    ) -> list[str]:
        """The URNs of ``nodes``, as far as there is anything of them, or should be: others the engine does not know."""
        at = self.read()
        known = self._deployment.urns if self._deployment else {}
        found: list[str] = []
        for node in sorted(nodes):
            found += known.get(node, ())
            if any(node in hosts for hosts in desired.values()):
                location = locations.get(node) or at.recorded.get(node, Recorded()).location
                made = urns_of(self._location.name, self._location.project, at.spec, node, location)
                found += [urn for urn in made if urn not in known.get(node, ())]
        return found

    def _role_targets(self, nodes: Collection[str]) -> list[str]:
        """The URNs of the roles of ``nodes``, machines of pools: as far as they have any."""
        self.read()
        known = self._deployment.role_urns if self._deployment else {}
        return [known[node] for node in sorted(nodes) if node in known]

    def _desired_state(
        self, desired: Mapping[str, HostSet], nodes: Collection[str], locations: Mapping[str, str]
    ) -> DesiredNodes:
        # For an operation with `_targets` of the same nodes, and for no other.
        by_fleet: dict[str, dict[str, str]] = {}
        for node, location in locations.items():
            by_fleet.setdefault(node.rpartition("-")[0], {})[node] = location
        return DesiredNodes(desired, HostSet.from_names(nodes), places=by_fleet)

    def _cause(self, errand: _Errand, node: str, text: str) -> Cause:
        """Return the cause of a failure that its provider did not name, by what the node's infrastructure says in such cases."""
        at = self.read()
        recorded = at.recorded.get(node, Recorded())
        location = errand.locations.get(node) or recorded.location
        name = infrastructure_at(at.spec, node, location) or recorded.infrastructure
        try:
            return failure_kind_of(name)(text).cause
        except InfrastructureError:
            return "transient"

    def _variables(self, desired: DesiredNodes) -> dict[str, str]:
        return {**self._location.environment, **desired.environment}

    def _stack(self, desired: DesiredNodes, terms: Terms) -> _Stack:
        workspace = _Workspace(
            work_dir=str(self._location.folder),
            pulumi_command=Unattended(self._command, terms),
            env_vars=self._variables(desired),
        )
        return _Stack(self._location.name, workspace, StackInitMode.SELECT)

    def _exported(self) -> Deployment:
        # Without the secrets in clear: deriving the key of the passphrase takes a third of a second.
        words = ["stack", "export", "--stack", self._location.name]
        try:
            result = self._command.run(words, str(self._location.folder), dict(self._location.environment))
            return read_deployment(json.loads(result.stdout))
        except StackNotFoundError as error:
            raise NotUp(f"there is no stack {self._location.name}") from error
        except CommandError as error:
            raise StackError(f"the stack's state cannot be read: {_said(error)}") from error
        except (OSError, ValueError) as error:
            raise StackError(f"the stack's state cannot be read: {error}") from error

    def _version(self) -> str:
        if self._location.checkpoint is None:
            fresh = self._outputs is not None and time.monotonic() - self._read_at < _BELIEVED_S
            return self._outputs.version if fresh and self._outputs else f"{time.monotonic_ns()}"
        try:
            status = self._location.checkpoint.stat()
        except FileNotFoundError:
            raise NotUp(f"there is no stack {self._location.name}") from None
        except OSError as error:
            raise StackError(f"the stack's state cannot be read: {error}") from error
        return f"{status.st_ino}-{status.st_mtime_ns}-{status.st_size}"

    @property
    def _scaler(self) -> Path:
        return self._location.data / "scaler"

    def _folder(self, *, is_preview: bool = False) -> Folder:
        return Folder(self._scaler, self._location.project, self._location.file, is_preview=is_preview)


class _Workspace(automation.LocalWorkspace):
    def select_stack(self, stack_name: str) -> None:
        """Nothing: which stack a person has selected is theirs."""


class _Stack(automation.Stack):
    """Without what the Automation API asks for after an `up`, secrets in clear among it; each is a command more."""

    def outputs(self) -> Any:
        return {}

    def info(self, show_secrets: bool | None = None) -> Any:
        return automation.UpdateSummary("update", datetime.now(UTC), "", {}, {}, "succeeded")


@contextmanager
def _errors_said() -> Iterator[None]:
    """Raise errors of the engine as errors of the stack."""
    try:
        yield
    except ConcurrentUpdateError as error:
        raise Occupied(_said(error)) from error
    except CommandError as error:
        raise StackError(_said(error)) from error
    except EngineError as error:
        raise StackError(str(error)) from error


def _documents(events: Path) -> Iterator[Mapping[str, Any]]:
    with events.open(encoding="utf-8") as lines:
        for line in lines:
            # An engine that was killed may leave half a line.
            if line.endswith("\n"):
                yield json.loads(line)


def _said(error: CommandError) -> str:
    """Return what the engine said at its end, in a line or a few."""
    text = str(error)
    _, _, stderr = text.partition("\n stderr: ")
    stdout = text.partition("\n stdout: ")[2].partition("\n stderr: ")[0]
    return (stderr.strip() or stdout.strip()[-600:] or text).removeprefix("error: ")
