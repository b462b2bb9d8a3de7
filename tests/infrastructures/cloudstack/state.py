"""The state of a CloudStack in memory: a zone with hosts, and what one department has there; with the faults that its trackers tell of.

Written from the published definitions (`definitions.txt`) and from what documentation and issues say of errors; no real one
has been compared with it.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

Item = dict[str, Any]


class CloudError(Exception):
    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code, self.text = code, text


@dataclass
class Host:
    name: str
    cpus: int = 16
    memory_mib: int = 65536
    arch: str = "x86_64"


@dataclass
class Job:
    ends: float
    finish: Callable[[], Item]
    instance: str
    command: str
    status: int = 0
    result: Item = field(default_factory=dict)


def new_id() -> str:
    return str(uuid.uuid4())


#: What an account may have, by what `listResourceLimits` calls it.
_LIMITS = {"user_vm": 20, "cpu": 400, "memory": 10**6, "network": 20, "volume": 40, "primary_storage": 4000}


class State:
    """State, of which any of this may be set at any time.

    - ``hosts`` and ``stock``: where VMs find room, and how many more at most.
    - ``job_s``: how long a job takes; ``stuck``: commands whose jobs never end.
    - ``lose``: so many changes are done, and their answers lost; ``fail``: codes and texts that come next, and nothing is done.
    - ``unseen``: names of VMs that lists leave out. ``denied``: commands that the role has not. ``calls_left``: before the limit.
    - ``is_older``: of a release before 4.20, which has no delete protection.
    - ``images``: what URLs have, by its SHA-256.
    - ``extra_allowed``: elements that `extraconfig` may have, where the setting is on.
    - ``started``, ``stopped``: told of each VM.
    """

    _READ: ClassVar = ("list", "query", "get")

    def __init__(self, *hosts: Host) -> None:
        self.lock = threading.RLock()
        self.hosts = list(hosts) or [Host("kvm-1"), Host("kvm-2")]
        self.stock: int | None = None
        self.job_s = 0.0
        self.stuck: set[str] = set()
        self.lose = 0
        self.fail: list[tuple[int, str]] = []
        self.unseen: set[str] = set()
        self.denied: set[str] = set()
        self.calls_left: int | None = None
        self.page_most = 500
        self.extra_allowed: set[str] | None = None
        self.is_older = False
        self.limits = dict(_LIMITS)
        self.images: dict[str, str] = {}
        self.requests: list[str] = []
        self.started: Callable[[Item], None] = lambda _: None
        self.stopped: Callable[[Item], None] = lambda _: None
        self.capabilities: Item = {"cloudstackversion": "4.20.1.0", "allowuserexpungerecovervm": True}
        self.zone: Item = {
            "id": new_id(),
            "name": "zone-1",
            "allocationstate": "Enabled",
            "networktype": "Advanced",
        }
        self.projects = [{"id": new_id(), "name": "physics", "state": "Active"}]
        self.domains = [
            {"id": new_id(), "name": "ROOT", "path": "ROOT"},
            {"id": new_id(), "name": "science", "path": "ROOT/science"},
        ]
        self.os_types = [{"id": new_id(), "description": "Debian GNU/Linux 12 (64-bit)"}]
        self.network_offerings = [
            {
                "id": new_id(),
                "name": "DefaultIsolatedNetworkOfferingWithSourceNatService",
                "state": "Enabled",
                "guestiptype": "Isolated",
                "forvpc": False,
                "egressdefaultpolicy": False,
            },
            {
                "id": new_id(),
                "name": "DefaultIsolatedNetworkOfferingForVpcNetworks",
                "state": "Enabled",
                "guestiptype": "Isolated",
                "forvpc": True,
            },
        ]
        self.vpcs: list[Item] = []
        self.service_offerings = [
            self._offering("small", 1, 1024),
            self._offering("large", 4, 4096),
            {**self._offering("custom", 0, 0), "iscustomized": True},
        ]
        self.disk_offerings: list[Item] = [
            {"id": new_id(), "name": "Custom", "iscustomized": True, "disksize": 0, "state": "Active"},
            {"id": new_id(), "name": "Small", "iscustomized": False, "disksize": 5, "state": "Active"},
        ]
        self.storage_gib = 10_000
        self.volumes: dict[str, Item] = {}
        self.vms: dict[str, Item] = {}
        self.networks: dict[str, Item] = {}
        self.egress: dict[str, Item] = {}
        self.acl_lists: dict[str, Item] = {}
        self.acls: dict[str, Item] = {}
        self.addresses: dict[str, Item] = {}
        self.forwardings: dict[str, Item] = {}
        self.firewall: dict[str, Item] = {}
        self.templates: dict[str, Item] = {}
        self.user_data: dict[str, Item] = {}
        self.affinity: dict[str, Item] = {}
        self.jobs: dict[str, Job] = {}

    # What happens from outside

    def vm(self, name: str) -> Item:
        return next(
            vm
            for vm in self.vms.values()
            if vm["name"] == name and vm["state"] not in ("Destroyed", "Expunging")
        )

    def take_away(self, name: str) -> None:
        """Somebody expunges it by hand."""
        with self.lock:
            vm = self.vms.pop(self.vm(name)["id"])
            self.stopped(vm)

    def power_off(self, name: str) -> None:
        with self.lock:
            vm = self.vm(name)
            vm["state"] = "Stopped"
            self.stopped(vm)

    # What is asked

    def asked(self, command: str) -> None:
        self.requests.append(command)
        if self.calls_left is not None:
            self.calls_left -= 1
            if self.calls_left < 0:
                raise CloudError(
                    429, "The given user has reached his/her account api limit, please retry after 998 ms."
                )
        if self.fail:
            raise CloudError(*self.fail.pop(0))
        for job in self.jobs.values():
            if job.status == 0 and job.ends <= time.monotonic():
                try:
                    job.result, job.status = job.finish(), 1
                except CloudError as error:
                    job.result = {"errorcode": error.code, "errortext": error.text}
                    job.status = 2

    def lost(self, command: str) -> bool:
        if command.startswith(self._READ) or not self.lose:
            return False
        self.lose -= 1
        return True

    def answer(self, command: str, given: Item) -> Item:
        answer: Item = getattr(self, command)(**given)
        return answer

    def _job(self, command: str, finish: Callable[[], Item], instance: str = "") -> Item:
        ends = float("inf") if command in self.stuck else time.monotonic() + self.job_s
        job = new_id()
        self.jobs[job] = Job(ends, finish, instance, command)
        return {"jobid": job, **({"id": instance} if instance else {})}

    def _done(self, command: str, change: Callable[[], Any], instance: str = "") -> Item:
        def finish() -> Item:
            change()
            return {"success": True}

        return self._job(command, finish, instance)

    def _there(self, what: str, items: dict[str, Item], id: str) -> Item:
        if id not in items:
            raise CloudError(
                431,
                f"Unable to execute API command due to invalid value. Invalid parameter {what} value={id} due to incorrect long value "
                "format, or entity does not exist or due to incorrect parameter annotation for the field in api cmd class.",
            )
        return items[id]

    def queryAsyncJobResult(self, jobid: str) -> Item:
        if jobid not in self.jobs:
            raise CloudError(431, f"Invalid id {jobid}: entity does not exist")
        job = self.jobs[jobid]
        return {
            "jobid": jobid,
            "jobstatus": job.status,
            "jobresultcode": job.result.get("errorcode", 0),
            "jobresult": job.result,
        }

    def listAsyncJobs(self, **_: Any) -> Item:
        told = [
            {
                "jobid": id,
                "jobinstanceid": job.instance,
                "jobstatus": job.status,
                "jobresult": job.result,
                "cmd": job.command,
            }
            for id, job in self.jobs.items()
        ]
        return {"asyncjobs": told}

    def _offering(self, name: str, cpus: int, memory_mib: int) -> Item:
        return {
            "id": new_id(),
            "name": name,
            "cpunumber": cpus,
            "memory": memory_mib,
            "cpuspeed": 2000,
            "iscustomized": False,
            "state": "Active",
        }

    def _available(self) -> Item:
        used = self._used()
        names = {"user_vm": "vm", "primary_storage": "primarystorage"}
        return {
            f"{names.get(key, key)}available": str(limit - used[key]) if limit >= 0 else "Unlimited"
            for key, limit in self.limits.items()
        }

    def _used(self) -> dict[str, int]:
        vms = [vm for vm in self.vms.values() if vm["state"] != "Error"]
        volumes = self._all_volumes()
        return {
            "volume": len(volumes),
            "primary_storage": sum(each["size"] // 1024**3 for each in volumes),
            "user_vm": len(vms),
            "cpu": sum(vm["cpunumber"] for vm in vms),
            "memory": sum(vm["memory"] for vm in vms),
            "network": len(self.networks),
        }

    def _all_volumes(self) -> list[Item]:
        """Data, and the root disk of each VM."""
        roots = [
            {
                "id": f"root-{vm['id']}",
                "name": f"ROOT-{vm['id']}",
                "type": "ROOT",
                "state": "Ready",
                "size": (vm.get("rootdisksize") or 4) * 1024**3,
                "virtualmachineid": vm["id"],
            }
            for vm in self.vms.values()
            if vm["state"] != "Error"
        ]
        return [*roots, *self.volumes.values()]

    def _limit(self, kind: str, more: int) -> None:
        limit, used = self.limits[kind], self._used()[kind]
        if 0 <= limit < used + more:
            raise CloudError(
                535,
                f"Maximum amount of resources of Type = '{kind}' for Account Name = 'physics' in Domain Id = 'd' is exceeded: Account "
                f"Resource Limit = {limit}, Current Account Resource Amount = {used}, Requested Resource Amount = {more}.",
            )

    def _taken(self, host: Host) -> tuple[int, int]:
        vms = [vm for vm in self.vms.values() if vm.get("hostid") == host.name and vm["state"] == "Running"]
        return sum(vm["cpunumber"] for vm in vms), sum(vm["memory"] for vm in vms)

    def _tagged(self, item: Item, tags: Any) -> bool:
        there = {each["key"]: each["value"] for each in item["tags"]}
        return all(there.get(tag["key"]) == tag["value"] for tag in tags)
