"""Kinds of resources of nomad: the provider's side of `tidepool.infrastructures.nomad.resources`."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from ipaddress import IPv4Address

from tidepool.infrastructures import MachineKey
from tidepool.infrastructures.nomad.api import Api, ApiLocation, Host
from tidepool.infrastructures.nomad.assignment import (
    DesiredMachine,
    HostDown,
    allocations,
    key_of,
    leave,
    take,
)
from tidepool.infrastructures.nomad.jobs import META
from tidepool.infrastructures.nomad.jobspec import Constraint
from tidepool.infrastructures.nomad.resources import NomadMachine, NomadMachineModel
from tidepool.resources.kind import AS_KNOWN, Home, IdempotentKind, Made, Task, Unfinished
from tidepool.resources.reading import Mistake, read
from tidepool.resources.values import Plain

_AGAIN_S = 0.5
#: In so many looks Nomad is asked once to place what is missing.
_ASK_EACH = 4


class NomadMachineKind(IdempotentKind[NomadMachineModel]):
    """A host that is a machine, for as long as its metadata says so."""

    resource = NomadMachine
    timeout_s = 180.0

    def __init__(
        self,
        home: Home,
        open: Callable[[ApiLocation, Mapping[str, str]], Api] = ApiLocation.open,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(home)
        self._open = open
        self._sleep = sleep

    def mistakes(self, wanted: NomadMachineModel) -> Iterable[Mistake]:
        try:
            IPv4Address(wanted.address)
        except ValueError:
            yield Mistake("address", f"it is {wanted.address!r}; an IPv4 address is wanted")

        found = read(ApiLocation, wanted.api, strict=True)
        yield from (Mistake(f"api.{each.property}", each.reason) for each in found.mistakes)
        for at, each in enumerate(wanted.constraints):
            if len(each.split(" ", 2)) != 3:
                yield Mistake(f"constraints[{at}]", f"it is {each!r}; write it as in '${{meta.rack}} = r1'")

    def create(self, wanted: NomadMachineModel, task: Task) -> Made:
        api = self._api(wanted)
        host = take(api, _desired(wanted))
        key = key_of(host)
        assert key is not None
        made = Made(key.machine_id, {"host": host.name})
        self._wait(api, host, wanted, task, made)
        return made

    def update(
        self, id: str, old: NomadMachineModel, wanted: NomadMachineModel, task: Task
    ) -> Mapping[str, Plain]:
        host = self._api(wanted).host(id.partition("/")[0])
        if host is not None and not host.is_up:
            raise HostDown(
                f"{_key(wanted)}: its host {host.name} is down: start that, or have the scaler take another one "
                "(`tidepool scale`)"
            )
        return super().update(id, old, wanted, task)

    def look(self, id: str, state: NomadMachineModel) -> Mapping[str, Plain] | None:
        host = self._api(state).host(id.partition("/")[0])
        if (
            host is None
            or (there := key_of(host)) is None
            or not replace(_key(state), machine_id=id).matches(there)
        ):
            return None  # somebody gave it to others, or took it out of Nomad
        return AS_KNOWN if host.is_up and host.is_eligible else {"state": "stopped"}

    def delete(self, id: str, state: NomadMachineModel, task: Task) -> None:
        api = self._api(state)

        def wait() -> bool:
            self._sleep(_AGAIN_S)
            return task.left_s > _AGAIN_S

        try:
            leave(api, replace(_key(state), machine_id=id), lambda _: state.jobs, state.namespace, wait)
        except HostDown as down:
            task.warn(
                f"{down}: by the scaler, or where the stack is gone by `nomad node meta apply -node-id "
                f"{id.partition('/')[0]} -unset {','.join(META)}`"
            )

    def _api(self, wanted: NomadMachineModel) -> Api:
        return self._open(read(ApiLocation, wanted.api).value, self._home.environment)

    def _wait(self, api: Api, host: Host, wanted: NomadMachineModel, task: Task, made: Made) -> None:
        """Until all of its jobs run there."""
        shown: list[str] = []
        for turn in itertools.count(1):
            found = allocations(api, host.id, wanted.jobs, wanted.namespace)
            running = {each["JobID"] for each in found if each.get("ClientStatus") == "running"}
            missing = [job for job in wanted.jobs if job not in running]
            if not missing:
                return
            if missing != shown:
                task.status(f"waiting for {', '.join(missing)} on {host.name}")
                shown = missing
            if turn % _ASK_EACH == 0:
                # By itself Nomad does not look again at a host where a job's allocation was stopped: one that was given back.
                for job in missing:
                    evaluated = {"JobID": job, "Namespace": wanted.namespace}
                    api.call("POST", f"job/{job}/evaluate", evaluated, namespace=wanted.namespace)
            if task.left_s <= _AGAIN_S:
                job = missing[0]
                raise Unfinished(
                    made.id,
                    f"{_key(wanted)}: {job} does not run on {host.name} within {task.timeout_s:g} s: see `nomad job "
                    f"status -namespace {wanted.namespace} {job}`; the next `tidepool up` goes on from here",
                    made.outputs,
                    "boot",
                )
            self._sleep(_AGAIN_S)


def _key(wanted: NomadMachineModel) -> MachineKey:
    return MachineKey(wanted.stack, wanted.machine)


def _desired(wanted: NomadMachineModel) -> DesiredMachine:
    constraints = (each.split(" ", 2) for each in wanted.constraints)
    return DesiredMachine(
        _key(wanted),
        wanted.fleet,
        wanted.address,
        tuple(Constraint(left, right, operand) for left, operand, right in constraints),
        tuple(wanted.drivers),
        tuple(wanted.datacenters),
        wanted.node_pool,
    )
