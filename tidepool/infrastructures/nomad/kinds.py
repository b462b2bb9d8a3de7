"""Kinds of resources of nomad: the provider's side of `tidepool.infrastructures.nomad.resources`."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from ipaddress import IPv4Address
from typing import Any, Final, TypeVar

from tidepool.infrastructures import MachineKey
from tidepool.infrastructures.nomad.api import Api, ApiLocation, Host, NotThere, version_numbers
from tidepool.infrastructures.nomad.assignment import (
    HostDown,
    allocations,
    key_of,
    leave,
    take,
)
from tidepool.infrastructures.nomad.jobs import META
from tidepool.infrastructures.nomad.resources import NomadMachine, NomadMachineModel, RollOut, RollOutModel
from tidepool.resources.kind import AS_KNOWN, Home, IdempotentKind, Made, Refusal, Task, Unfinished
from tidepool.resources.reading import Mistake, read
from tidepool.resources.values import Plain

_AGAIN_S = 0.5
#: In so many looks Nomad is asked once to place what is missing.
_ASK_EACH = 4


_Open = Callable[[ApiLocation, Mapping[str, str]], Api]
_M = TypeVar("_M", NomadMachineModel, RollOutModel)


class _NomadKind(IdempotentKind[_M]):
    """One of what is in a Nomad, whose API a resource names."""

    def __init__(
        self, home: Home, open: _Open = ApiLocation.open, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        super().__init__(home)
        self._open = open
        self._sleep = sleep

    def _api(self, wanted: _M) -> Api:
        return self._open(read(ApiLocation, wanted.api).value, self._home.environment)


class NomadMachineKind(_NomadKind[NomadMachineModel]):
    """A host that is a machine, for as long as its metadata says so."""

    resource = NomadMachine
    timeout_s = 180.0

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
        host = take(api, wanted)
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


#: Before it, a system job whose last roll-out failed has no other one: another version comes to the first hosts, and stays there
#: whether they are well or not (hashicorp/nomad#28538).
_GOES_ON: Final = (2, 0, 6)


class RollOutKind(_NomadKind[RollOutModel]):
    """The last roll-out of a system job: a version after one that failed is refused where Nomad would leave it half way."""

    resource = RollOut

    def refuse_update(self, old: RollOutModel, wanted: RollOutModel) -> None:
        self._look_back(wanted)

    def create(self, wanted: RollOutModel, task: Task) -> Made:
        if failed := self._look_back(wanted):
            task.info(f"{failed}; it is rolled out again")
        return Made(wanted.job)

    def _look_back(self, wanted: RollOutModel) -> str:
        """Return how the last roll-out failed; nothing where it did not.

        Raises:
            Refusal: it did, and Nomad would leave the next one half way.
        """
        api = self._api(wanted)
        failed = _failed(api, wanted)
        if failed is None:
            return ""
        told = (
            f"{wanted.job}: the roll-out of its version {failed['JobVersion']} failed, in Nomad's words: "
            f"{failed['StatusDescription']} (`nomad deployment status {failed['ID'][:8]}`)"
        )
        if any(version_numbers(host.version) < _GOES_ON for host in api.hosts()):
            raise Refusal(
                f"{told}. Nomad before {'.'.join(map(str, _GOES_ON))} would bring no other version to all hosts after that, "
                "and take none back: mend what was not well, "
                f"`nomad job stop -purge -namespace {wanted.namespace} {wanted.job}`, and `tidepool up` at once: the job "
                "starts anew on all of its hosts, and what runs there goes on if that takes less than SlurmdTimeout",
                "permanent",
            )
        return told

    def look(self, id: str, state: RollOutModel) -> Mapping[str, Plain] | None:
        return {"state": "failed"} if _failed(self._api(state), state) else AS_KNOWN

    def delete(self, id: str, state: RollOutModel, task: Task) -> None:
        """Leave the job alone: it is another resource's."""


def _failed(api: Api, wanted: RollOutModel) -> Mapping[str, Any] | None:
    try:
        last: Mapping[str, Any] | None = api.call(
            "GET", f"job/{wanted.job}/deployment", namespace=wanted.namespace
        )
    except NotThere:
        return None
    return last if last and last["Status"] == "failed" else None


def _key(wanted: NomadMachineModel) -> MachineKey:
    return MachineKey(wanted.stack, wanted.machine)
