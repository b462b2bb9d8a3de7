"""tidepool:nomad:Machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from ipaddress import IPv4Address

from tidepool.infrastructures import MachineKey
from tidepool.infrastructures.nomad.api import Api
from tidepool.infrastructures.nomad.assignment import DesiredMachine, allocations, key_of, leave, take
from tidepool.infrastructures.nomad.host import Host
from tidepool.infrastructures.nomad.kinds.api import ApiPlace, read_api, read_constraints
from tidepool.resources.difference import Rules
from tidepool.resources.errors import Unfinished
from tidepool.resources.kind import AS_KNOWN, Home, Kind, Made, Task
from tidepool.resources.reading import Mistake, Reader
from tidepool.resources.values import Plain

_AGAIN_S = 0.5


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the inputs say."""

    api: ApiPlace
    namespace: str
    desired: DesiredMachine
    jobs: tuple[str, ...]


class NomadMachineKind(Kind[Wanted]):
    """A host that is a machine, for as long as its metadata says so."""

    token = "tidepool:nomad:Machine"  # noqa: S105 - a type of resource
    keys = frozenset(
        {
            "api",
            "namespace",
            "stack",
            "machine",
            "fleet",
            "address",
            "constraints",
            "drivers",
            "datacenters",
            "nodePool",
            "jobs",
            "state",
        }
    )
    rules = Rules(replaces=keys - {"api", "drivers", "jobs", "state"})
    always = {"state": "running"}  # noqa: RUF012 - nobody writes to it
    timeout_s = 180.0

    def __init__(
        self,
        home: Home,
        open: Callable[[ApiPlace, Mapping[str, str]], Api] = ApiPlace.open,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._environment = home.environment
        self._open = open
        self._sleep = sleep

    def read(self, reader: Reader) -> Wanted:
        reader.text("state", "running")
        key = MachineKey(reader.text("stack"), reader.text("machine"))
        desired = DesiredMachine(
            key,
            reader.text("fleet"),
            reader.text("address"),
            read_constraints(reader),
            reader.texts("drivers"),
            reader.texts("datacenters"),
            reader.text("nodePool"),
        )
        return Wanted(read_api(reader), reader.text("namespace"), desired, reader.texts("jobs"))

    def mistakes(self, wanted: Wanted) -> Iterable[Mistake]:
        try:
            IPv4Address(wanted.desired.address)
        except ValueError:
            yield Mistake("address", f"it is {wanted.desired.address!r}; an IPv4 address is wanted")

    def create(self, wanted: Wanted, task: Task) -> Made:
        api = self._open(wanted.api, self._environment)
        host = take(api, wanted.desired)
        key = key_of(host)
        assert key is not None
        made = Made(key.machine_id, {"host": host.name})
        self._wait(api, host, wanted, task, made)
        return made

    def update(self, id: str, old: Wanted, wanted: Wanted, task: Task) -> Mapping[str, Plain]:
        api = self._open(wanted.api, self._environment)
        host = take(api, wanted.desired)
        self._wait(api, host, wanted, task, Made(id, {"host": host.name}))
        return {"host": host.name}

    def look(self, id: str, state: Wanted) -> Mapping[str, Plain] | None:
        host = self._open(state.api, self._environment).host(id.partition("/")[0])
        if (
            host is None
            or (there := key_of(host)) is None
            or not replace(state.desired.key, machine_id=id).matches(there)
        ):
            return None  # somebody gave it to others, or took it out of Nomad
        return AS_KNOWN if host.is_up and host.is_eligible else {"state": "stopped"}

    def delete(self, id: str, state: Wanted, task: Task) -> None:
        api = self._open(state.api, self._environment)

        def wait() -> bool:
            self._sleep(_AGAIN_S)
            return task.left_s > _AGAIN_S

        leave(api, state.desired.key, lambda _: state.jobs, state.namespace, wait)

    def _wait(self, api: Api, host: Host, wanted: Wanted, task: Task, made: Made) -> None:
        """Until all of its jobs run there."""
        while True:
            found = allocations(api, host.id, wanted.jobs, wanted.namespace)
            running = {each["JobID"] for each in found if each.get("ClientStatus") == "running"}
            missing = [job for job in wanted.jobs if job not in running]
            if not missing:
                return
            task.status(f"waiting for {', '.join(missing)} on {host.name}")
            if task.left_s <= _AGAIN_S:
                job = missing[0]
                raise Unfinished(
                    made.id,
                    f"{wanted.desired.key}: {job} does not run on {host.name} within {task.timeout_s:g} s: see `nomad job "
                    f"status -namespace {wanted.namespace} {job}`; the next `tidepool up` goes on from here",
                    made.outputs,
                    "boot",
                )
            self._sleep(_AGAIN_S)
