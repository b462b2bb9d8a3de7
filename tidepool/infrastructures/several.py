"""Several infrastructures as one: their machines are the union, and one that does not answer makes nothing look gone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Generic, TypeVar

from tidepool.cluster.failures import InfrastructureError, Permanent, Transient
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_reading import SpecError
from tidepool.infrastructures.machines import Infrastructure, Machine, MachineKey
from tidepool.infrastructures.registry import machines_of

_T = TypeVar("_T")


class Answer(Generic[_T]):
    """An answer that a thread of its own is getting."""

    def __init__(self, ask: Callable[[], _T]) -> None:
        self._future: Future[_T] = Future()
        self._ask = ask
        self._patience_s = 0.0
        # Whoever ends does not wait for it.
        threading.Thread(target=self._run, name="asking", daemon=True).start()

    @property
    def is_awaited(self) -> bool:
        return not self._future.done()

    def wait(self, patience_s: float) -> _T:
        """The answer. It is waited for once; after that it is late.

        Raises:
            Transient: there was no answer in time.
        """
        left_s, self._patience_s = patience_s - self._patience_s, patience_s
        try:
            return self._future.result(left_s)
        except TimeoutError:
            if self._future.done():
                raise
            raise Transient(f"it has not answered within {patience_s:g} s") from None

    def _run(self) -> None:
        try:
            self._future.set_result(self._ask())
        except Exception as failure:  # noqa: BLE001 - raised where it was asked for
            self._future.set_exception(failure)


#: How long each is waited for. One that needs longer is silent until it answers, and holds up nobody.
PATIENCE_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Listing:
    """The machines that are seen; and by infrastructure, why it could not be asked: nothing is known of its machines."""

    machines: tuple[Machine, ...]
    silent: Mapping[str, str] = field(default_factory=dict)


def listing(infrastructure: Infrastructure, stack: str) -> Listing:
    """The machines of a stack, as far as they can be seen.

    Raises:
        InfrastructureError: nothing of them can be.
    """
    if isinstance(infrastructure, Several):
        return infrastructure.listing(stack)
    return Listing(infrastructure.list(stack))


class Several:
    """`Infrastructure`, of all that ``infrastructures`` gives by name, which may change while a person changes the spec.

    Keys of machines say which they are of, where there are several.
    """

    def __init__(
        self, infrastructures: Callable[[], Mapping[str, Infrastructure]], *, patience_s: float = PATIENCE_S
    ) -> None:
        self._infrastructures = infrastructures
        self._patience_s = patience_s
        self._pending: dict[str, Answer[tuple[Machine, ...]]] = {}

    def listing(self, stack: str) -> Listing:
        """All machines of the stack, by key. All are asked at the same time.

        Raises:
            InfrastructureError: none of them answers.
        """
        infrastructures = self._infrastructures()
        if len(infrastructures) == 1:
            return Listing(next(iter(infrastructures.values())).list(stack))
        found = self._list_reachable(infrastructures, stack)
        if len(found.silent) == len(infrastructures):
            raise Transient("; ".join(f"{name}: {text}" for name, text in found.silent.items()))
        return found

    def reachable(self, stack: str) -> Listing:
        """The same for a person: also where none answers. Each machine says where it is, and nobody is waited for longer."""
        return self._list_reachable(self._infrastructures(), stack)

    def _list_reachable(self, infrastructures: Mapping[str, Infrastructure], stack: str) -> Listing:
        answers = {name: self._ask(name, side, stack) for name, side in infrastructures.items()}
        machines: list[Machine] = []
        silent: dict[str, str] = {}
        for name, answer in answers.items():
            try:
                machines += [_of(name, machine) for machine in answer.wait(self._patience_s)]
            except (InfrastructureError, OSError) as error:
                silent[name] = str(error)
        return Listing(tuple(sorted(machines, key=lambda machine: machine.key)), silent)

    def list(self, stack: str) -> tuple[Machine, ...]:
        found = self.listing(stack)
        if found.silent:
            raise Transient("; ".join(f"{name}: {text}" for name, text in found.silent.items()))
        return found.machines

    def read(self, key: MachineKey) -> Machine | None:
        infrastructures = self._infrastructures()
        for name, side in self._of_key(infrastructures, key).items():
            if (machine := side.read(_plain(key))) is not None:
                return machine if len(infrastructures) == 1 else _of(name, machine)
        return None

    def delete(self, key: MachineKey) -> None:
        for side in self._of_key(self._infrastructures(), key).values():
            side.delete(_plain(key))

    def _of_key(
        self, infrastructures: Mapping[str, Infrastructure], key: MachineKey
    ) -> Mapping[str, Infrastructure]:
        if not key.infrastructure:
            return infrastructures
        if key.infrastructure not in infrastructures:
            raise Permanent(f"{key}: the cluster has machines of {', '.join(infrastructures)}")
        return {key.infrastructure: infrastructures[key.infrastructure]}

    def _ask(self, name: str, side: Infrastructure, stack: str) -> Answer[tuple[Machine, ...]]:
        before = self._pending.get(name)
        if before is not None and before.is_awaited:
            return before
        self._pending[name] = Answer(lambda: side.list(stack))
        return self._pending[name]


def machines_of_stack(read_spec: Callable[[], ClusterSpec], stack: str, data: Path) -> Several:
    """The machines of a stack, of whichever infrastructures the spec names that ``read_spec`` gives.

    It may raise `InfrastructureError`.
    """
    made: tuple[ClusterSpec | None, Mapping[str, Infrastructure]] = None, {}

    def infrastructures() -> Mapping[str, Infrastructure]:
        """Made anew when the spec is another one."""
        nonlocal made
        spec = read_spec()
        if spec is not made[0]:
            names = spec.infrastructure_names
            made = spec, {name: machines_or_reason(name, spec, stack, data) for name in names}
        return made[1]

    return Several(infrastructures)


def machines_or_reason(name: str, spec: ClusterSpec, stack: str, data: Path) -> Infrastructure:
    """The machines of a stack on one infrastructure; where they cannot be known, what says why."""
    try:
        return machines_of(name, spec, stack, data)
    except (InfrastructureError, SpecError, OSError) as error:
        return Unknown(str(error))


@dataclass(frozen=True, slots=True)
class Unknown:
    """One that cannot be asked, and why: it holds back no other."""

    why: str

    def read(self, key: MachineKey) -> Machine | None:
        raise Permanent(self.why)

    def list(self, stack: str) -> tuple[Machine, ...]:
        raise Permanent(self.why)

    def delete(self, key: MachineKey) -> None:
        raise Permanent(self.why)


def _of(name: str, machine: Machine) -> Machine:
    return replace(machine, key=replace(machine.key, infrastructure=name))


def _plain(key: MachineKey) -> MachineKey:
    return replace(key, infrastructure="")
