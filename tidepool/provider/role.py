"""tidepool:pool:Role, and the parties of its conversions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, Final, cast

from tidepool.clients.kubernetes.kubeconfig import read_kubeconfig
from tidepool.clients.kubernetes.objects import BootstrapToken, PoolMachine
from tidepool.clients.slurm import Slurm
from tidepool.cluster.desired_state import is_forced
from tidepool.cluster.kubelet_files import bootstrap_kubeconfig
from tidepool.cluster.roles import ROLES, Role
from tidepool.conversion.convert import Parties, convert
from tidepool.conversion.journal import Journal
from tidepool.conversion.kubernetes_side import KubernetesSide
from tidepool.conversion.machine import RoleFile, RoleProgram, kubernetes_files
from tidepool.conversion.next_step import SAID
from tidepool.conversion.pool_machines import pool_machine, without_failing
from tidepool.conversion.ports import ConversionError, Side
from tidepool.conversion.record import Conversion, Order
from tidepool.conversion.slurm_side import SlurmSide
from tidepool.infrastructures.connection import transport
from tidepool.infrastructures.kubernetes_access import Access, NoAccess, load_access
from tidepool.infrastructures.local.boots import boot_path, load_boot
from tidepool.infrastructures.registry import imaging_of
from tidepool.journals.processes import is_driven
from tidepool.provider.machines import connection_mistakes, local_machine, machine_runs
from tidepool.provider.role_change import Refused, find_amiss, leave, settle
from tidepool.resources.declarations import Role as Resource
from tidepool.resources.declarations import RoleModel
from tidepool.resources.kind import AS_KNOWN, Home, Kind, Made, Refusal, Task, Unfinished
from tidepool.resources.reading import Change, Mistake
from tidepool.resources.values import Inputs, Plain

_STATE: Final = "state"
#: Of its conversions, so many are looked at for the one that gave it its role.
_KNOWN: Final = 20
#: For so long, in seconds, what is ending may take on a machine that leaves its pool.
_PATIENCE_S: Final = 10.0
#: Services have so many seconds to start: within the time for joining.
_START_S: Final = 20.0
_START_ELSEWHERE_S: Final = 100.0


class _CutOff(Exception):
    """A person has cancelled the operation; what the journal has goes on with the next."""


class RoleKind(Kind[RoleModel]):
    """The role of a machine of a pool. All that is done to it goes by the journal of conversions."""

    resource = Resource

    def __init__(self, home: Home, around: Around | None = None) -> None:
        super().__init__(home)
        self._around = around or around_of(home)

    def mistakes(self, wanted: RoleModel) -> Iterable[Mistake]:
        connections = {"controller": wanted.controller, "machine": wanted.machine}
        yield from connection_mistakes(connections, self._home.data)
        if missing := [role for role in ROLES if role not in wanted.boots]:
            yield Mistake("boots", f"there is none for {' and '.join(missing)}; name a Boot for each role")

    def diff(self, old: Inputs, new: Inputs) -> tuple[Change, ...]:
        found = {change.key: change for change in super().diff(old, new)}
        if "podSubnet" in found and old.get("role") == "kubernetes":
            # Its pods have their addresses from it.
            found["podSubnet"] = Change("podSubnet", replaces=True)
        if "role" not in found and self._is_abandoned(new):
            # Somebody ordered it, and was cut off: whoever comes next goes on.
            found["role"] = Change("role")
        return tuple(found.values())

    def create(self, wanted: RoleModel, task: Task) -> Made:
        return Made(wanted.node, self._settle(wanted, None, task))

    def update(self, id: str, old: RoleModel, wanted: RoleModel, task: Task) -> Mapping[str, Plain]:
        return self._settle(wanted, old, task)

    def look(self, id: str, state: RoleModel) -> Mapping[str, Plain] | None:
        if self._under_way(state.stack, state.node) is not None:
            return AS_KNOWN  # it is on its way; `diff` has whoever comes next go on with it
        if not self._around.runs(state):
            return {_STATE: "down"}
        try:
            with self._around.parties(state) as parties:
                amiss = find_amiss(state.role, parties)
        except ConversionError:
            return AS_KNOWN  # what cannot be seen is as it was
        if amiss.is_nowhere:
            return None
        found: dict[str, Plain] = {"role": amiss.role} if amiss.role else {}
        return {**found, _STATE: amiss.text} if amiss.text else found

    def delete(self, id: str, state: RoleModel, task: Task) -> None:
        until = self._around.now() + timedelta(seconds=_PATIENCE_S)
        try:
            with self._around.parties(state) as parties, self._journal(state.stack) as journal:
                leave(
                    state.node,
                    parties,
                    journal,
                    runs=self._around.runs(state),
                    regardless=is_forced(self._home.environment),
                    hands_over=bool(state.slurmctld),
                    patience=lambda: self._around.now() < until,
                    now=self._around.now,
                    pause=self._waiting(task),
                    warn=task.warn,
                )
                parties.show(None)
        except _CutOff:
            raise Refusal(
                f"machine {state.node} did not leave pool {state.pool}: the operation was cancelled"
            ) from None
        except (ConversionError, Refused) as error:
            raise Refusal(f"machine {state.node} cannot leave pool {state.pool}: {error}") from error

    def _settle(self, wanted: RoleModel, old: RoleModel | None, task: Task) -> Mapping[str, Plain]:
        """Have the machine be what is wanted, or what somebody ordered; gives what it is.

        Raises:
            Refusal: it stayed what it was, with the reason.
            Unfinished: it is nothing that serves; the next `up` mends it.
        """
        is_asked = old is not None and old.role != wanted.role
        order = Order(
            node=wanted.node,
            pool=wanted.pool,
            to=wanted.role,
            at=self._around.now(),
            by="up",
            reason="the stack's program says so" if is_asked else "the stack has it so",
            deadline_s=wanted.deadline_s,
            at_deadline=wanted.at_deadline,
        )
        try:
            with self._around.parties(wanted) as parties, self._journal(wanted.stack) as journal:

                def drive(conversion: Conversion) -> Conversion:
                    return convert(
                        conversion,
                        parties,
                        journal,
                        now=self._around.now,
                        wait=self._waiting(task),
                        told=lambda now: task.status(_describe(now)),
                    )

                came = settle(
                    order,
                    parties,
                    journal,
                    drive,
                    is_asked=is_asked,
                    now=self._around.now,
                    pause=self._waiting(task),
                )
                if wanted.slurmctld and came.role == "slurm":
                    # Where another took over from it, as by a `Configuration` that has it start anew.
                    parties.machine.take("slurm")
                known = journal.conversions(node=wanted.node, limit=_KNOWN)
                node = "Ready" if came.role == "kubernetes" else "Absent"
                parties.show(
                    pool_machine(wanted.node, wanted.pool, wanted.stack, came.role, known, node=node)
                )
        except _CutOff:
            raise Refusal(
                f"machine {wanted.node}: the operation was cancelled; a conversion that was begun goes on with the next "
                f"`tidepool up`, or ends with `tidepool convert {wanted.node} --cancel`"
            ) from None
        except ConversionError as error:
            raise Refusal(f"machine {wanted.node}: {error}") from error
        if came.is_broken:
            was = old.role if old is not None else wanted.role
            reason = f"machine {wanted.node} serves neither Slurm nor Kubernetes: {came.reason}"
            raise Unfinished(wanted.node, reason, {"role": was, _STATE: "none"}, cause="boot")
        if came.role is None or (came.role != wanted.role and not came.is_done):
            raise Refusal(f"machine {wanted.node} was not given to {SAID[wanted.role]}: {came.reason}")
        if came.role != wanted.role:
            task.info(f"{wanted.node} serves {SAID[came.role]} now, as was ordered")
        return {"role": came.role}

    def _waiting(self, task: Task) -> Callable[[float], None]:
        """Sleeps for so many seconds, unless the operation was cancelled."""

        def wait(seconds: float) -> None:
            if task.cancelled():
                raise _CutOff
            self._around.wait(seconds)

        return wait

    def _is_abandoned(self, inputs: Inputs) -> bool:
        """Return whether a conversion is under way that nobody drives. One that waits for its work holds up nobody else."""
        machine, node = inputs.get("machine"), inputs.get("node")
        stack = machine.get("stack") if isinstance(machine, dict) else None
        if not isinstance(stack, str) or not isinstance(node, str):
            return False
        going = self._under_way(stack, node)
        return going is not None and not is_driven(going, self._around.now())

    def _under_way(self, stack: str, node: str) -> Conversion | None:
        if not journal_path(self._home.data, stack).exists():
            return None
        try:
            with self._journal(stack) as journal:
                return journal.under_way(node)
        except ConversionError:
            return None  # who changes something will be told

    def _journal(self, stack: str) -> AbstractContextManager[Journal]:
        """Open it for one operation: a provider may outlive the data folder of a stack."""
        return closing(self._around.journal(journal_path(self._home.data, stack)))


def _describe(conversion: Conversion) -> str:
    """Its phase, and what holds it up."""
    said = f"to {SAID[conversion.order.to]}: {conversion.phase}"
    return f"{said}, {conversion.text}" if conversion.text else said


def journal_path(data: Path, stack: str) -> Path:
    """Return the journal of a stack's conversions."""
    return data / stack / "conversions.db"


def _wait(seconds: float) -> None:
    threading.Event().wait(seconds)


@dataclass(frozen=True, slots=True)
class Around:
    """Means of a role's resource: who takes part, for as long as they are needed, and the time in UTC."""

    parties: Callable[[RoleModel], AbstractContextManager[Parties]]
    #: Whether the machine runs.
    runs: Callable[[RoleModel], bool]
    journal: Callable[[Path], Journal] = Journal
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    wait: Callable[[float], None] = _wait


def around_of(home: Home) -> Around:
    """Return the means of a provider whose machines are kept at ``home``."""

    @contextmanager
    def parties(wanted: RoleModel) -> Iterator[Parties]:
        slurm = SlurmSide(Slurm(transport(wanted.controller, home.data)), wanted.node)
        try:
            access = load_access(home.data, wanted.stack, wanted.access)
            client = access.client(home.data)
        except (NoAccess, ValueError) as error:
            # It may be that nobody needs it: a machine without the role leaves its pool without it.
            unasked = cast(Side, _Unasked(str(error)))
            yield Parties(_machine(home, wanted, _Token()), {"slurm": slurm, "kubernetes": unasked})
            return
        with client:
            token = _Token(access)
            kubernetes = KubernetesSide(
                client, wanted.node, wanted.pool, wanted.stack, token.hand_over, wanted.labels
            )
            sides: Mapping[Role, Side] = {"slurm": slurm, "kubernetes": kubernetes}

            def show(machine: PoolMachine | None) -> None:
                if machine is None:
                    without_failing(lambda: client.delete_pool_machine(wanted.node))
                else:
                    without_failing(lambda: client.put_pool_machine(machine))

            yield Parties(_machine(home, wanted, token), sides, show)

    return Around(parties, lambda wanted: machine_runs(wanted.machine, home.data))


def _machine(home: Home, wanted: RoleModel, token: _Token) -> RoleProgram:
    way = transport(wanted.machine, home.data)
    start_s = _START_S if local_machine(wanted.machine) else _START_ELSEWHERE_S
    imaging = imaging_of(wanted.imaging, home.data) if wanted.imaging else None
    return RoleProgram(
        way, wanted.node, lambda role: _files(home, wanted, role, token), start_s, imaging=imaging
    )


@dataclass(frozen=True, slots=True)
class _Unasked:
    """A side that there is no way to: whatever it is asked, it says why."""

    why: str

    def __getattr__(self, _name: str) -> Callable[..., Any]:
        def ask(*_arguments: object) -> Any:
            raise ConversionError(self.why)

        return ask


@dataclass
class _Token:
    """The bootstrap token that Kubernetes made for the machine, on its way to it."""

    access: Access | None = None
    text: str = field(default="", repr=False)

    def hand_over(self, token: BootstrapToken) -> None:
        self.text = token.text

    @property
    def kubeconfig(self) -> str:
        """The kubeconfig by which a kubelet asks for its certificate."""
        if self.access is None or not self.text:
            raise ConversionError("there is no bootstrap token of Kubernetes' for it")
        context = read_kubeconfig(self.access.kubeconfig)
        return bootstrap_kubeconfig(str(context.cluster["server"]), context.authority, self.text)


def _files(home: Home, wanted: RoleModel, role: Role, token: _Token) -> Sequence[RoleFile]:
    """Return the files that the machine is given with a role: the files of that role's boot, and its own."""
    path = boot_path(home, wanted.stack, wanted.boots[role])
    try:
        parts = load_boot(path)
    except FileNotFoundError:
        raise ConversionError(
            f"the files of the role {role} are gone ({path}); `tidepool up` writes them"
        ) from None
    files = [RoleFile(file.path, file.data, file.mode, file.owner, file.group) for file in parts.files]
    if role == "slurm":
        return files
    return kubernetes_files(files, pods=IPv4Network(wanted.pod_subnet), bootstrap=token.kubeconfig)
