"""slurmrestd's JSON, read into our values: of v0.0.38 (22.05), and of v0.0.40 to v0.0.42 (23.11, 24.11).

The newer ones write numbers as ``{"set": ..., "infinite": ..., "number": ...}`` and states as lists; both are read.
The newer ones could not be tried against a server; their forms are those of Slurm's own OpenAPI descriptions.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from tidepool.clients.slurm.contract import Controller
from tidepool.clients.slurm.job import Job, JobState
from tidepool.clients.slurm.node import Node, NodeBase, NodeState, Reason
from tidepool.clients.slurm.partition import Partition, PartitionState
from tidepool.clients.slurm.quantities import text, tres
from tidepool.clients.slurm.reservation import Reservation

#: What 22.05 writes for a number that is not set, or without a limit (NO_VAL and INFINITE, 16, 32 and 64 bits).
_NO_NUMBER: Final = frozenset(
    {0xFFFE, 0xFFFF, 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFE, 0xFFFFFFFFFFFFFFFF, -1, -2}
)

_Json = Mapping[str, Any]


def controller(ping: _Json) -> Controller:
    """One of the answers to ``ping``."""
    is_up = ping["ping"] == "UP" if "ping" in ping else str(ping["pinged"]).upper() == "UP"
    return Controller(str(ping["mode"]), str(ping["hostname"]), is_up)


def node(found: _Json) -> Node:
    """One of ``nodes``."""
    base, *flags = [word.upper() for word in _words(found["state"])]
    flags += [word.upper() for word in _words(found.get("state_flags") or [])]
    said = str(found.get("reason") or "")
    return Node(
        name=found["name"],
        state=NodeState(NodeBase(base), frozenset(flags)),
        address=found.get("address") or "",
        hostname=found.get("hostname") or "",
        cpus=_number(found["cpus"]) or 0,
        cpus_alloc=_number(found.get("alloc_cpus")) or 0,
        memory_mib=_number(found["real_memory"]) or 0,
        memory_alloc_mib=_number(found.get("alloc_memory")) or 0,
        features=_names(found.get("features")),
        active_features=_names(found.get("active_features")),
        gres=text(found.get("gres") or ""),
        sockets=_number(found.get("sockets")) or 1,
        cores_per_socket=_number(found.get("cores")) or 1,
        threads_per_core=_number(found.get("threads")) or 1,
        weight=_number(found.get("weight")) or 0,
        partitions=_names(found.get("partitions")),
        reason=Reason(
            said, str(found.get("reason_set_by_user") or ""), _moment(found.get("reason_changed_at"))
        )
        if said
        else None,
        boot_time=_moment(found.get("boot_time")),
        slurmd_start_time=_moment(found.get("slurmd_start_time")),
        last_busy_time=_moment(found.get("last_busy")),
        tres=tres(found.get("tres") or ""),
        tres_alloc=tres(found.get("tres_used") or ""),
        version=found.get("slurmd_version") or found.get("version") or "",
        comment=found.get("comment") or "",
        extra=found.get("extra") or "",
    )


def job(found: _Json) -> Job:
    """One of ``jobs``."""
    state = _words(found["job_state"])
    tasks = found.get("array_task_string") or ""
    task = _number(found.get("array_task_id"))
    array_job_id = _number(found.get("array_job_id")) or 0
    if not tasks and array_job_id and task is not None:
        tasks = str(task)
    minutes = _number(found.get("time_limit"))
    shared = _words(found.get("shared") or [])
    return Job(
        job_id=int(found["job_id"]),
        array_job_id=array_job_id or int(found["job_id"]),
        array_tasks=str(tasks),
        het_job_id=_number(found.get("het_job_id")) or None,
        # A flag stands beside the base state, and is what squeue shows.
        state=JobState(state[-1] if len(state) > 1 else state[0]),
        reason=text(found.get("state_description") or found.get("state_reason") or ""),
        partitions=_names(found.get("partition")),
        user=found.get("user_name") or "",
        qos=found.get("qos") or "",
        nodes=_number(found.get("node_count")) or 0,
        max_nodes=_number(found.get("max_nodes")) or None,
        cpus=_number(found.get("cpus")) or 0,
        min_cpus_per_node=_number(found.get("minimum_cpus_per_node")) or 0,
        tasks=_number(found.get("tasks")) or 0,
        cpus_per_task=_number(found.get("cpus_per_task")) or 1,
        min_memory_mib=_number(found.get("memory_per_node")) or _number(found.get("memory_per_cpu")) or 0,
        tmp_disk_mib=_number(found.get("minimum_tmp_disk_per_node")) or 0,
        features=found.get("features") or "",
        tres=tres(found.get("tres_alloc_str") or found.get("tres_req_str") or ""),
        tres_per_job=tres(found.get("tres_per_job") or ""),
        tres_per_node=tres(found.get("tres_per_node") or ""),
        tres_per_socket=tres(found.get("tres_per_socket") or ""),
        tres_per_task=tres(found.get("tres_per_task") or ""),
        licenses=tres(found.get("licenses") or ""),
        dependency=found.get("dependency") or "",
        reservation=found.get("resv_name") or "",
        oversubscribe=_OVERSUBSCRIBE.get(shared[0].lower(), shared[0]) if shared else "OK",
        contiguous=bool(found.get("contiguous")),
        priority=_number(found.get("priority")) or 0,
        time_limit_s=None if minutes is None else minutes * 60,
        submit_time=_moment(found.get("submit_time")),
        begin_time=_moment(found.get("eligible_time")),
        start_time=_moment(found.get("start_time")),
        # slurmrestd lets a job without a limit end in a year.
        end_time=_moment(found.get("end_time")) if minutes is not None or state[-1] != "RUNNING" else None,
        nodelist=found.get("nodes") or "",
        required_nodes=found.get("required_nodes") or "",
        batch=bool(found.get("batch_flag")),
        restarts=_number(found.get("restart_cnt")) or 0,
        account=found.get("account") or "",
        name=found.get("name") or "",
    )


_OVERSUBSCRIBE: Final = {"none": "NO", "oversubscribe": "YES", "user": "USER", "mcs": "MCS", "": "OK"}


def partition(found: _Json) -> Partition:
    """One of ``partitions``, of v0.0.38: the newer ones, which nest what is asked for here, are refused."""
    maximum, default = _number(found["max_time_limit"]), _number(found["default_time_limit"])
    return Partition(
        name=found["name"],
        state=PartitionState(found["state"]),
        is_default="default" in (flag.lower() for flag in found["flags"]),
        nodes=found["nodes"] or "",
        total_nodes=int(found["total_nodes"]),
        total_cpus=int(found["total_cpus"]),
        max_time_s=None if maximum is None else maximum * 60,
        default_time_s=None if default is None else default * 60,
        max_nodes=_number(found["maximum_nodes_per_job"]),
        priority_tier=int(found["priority_tier"]),
        # It is not told by slurmrestd.
        oversubscribe="",
        allow_accounts=_names(found.get("allowed_accounts")),
        tres=tres(found.get("tres") or ""),
    )


def reservation(found: _Json) -> Reservation:
    """One of ``reservations``."""
    start, end = _moment(found["start_time"]), _moment(found["end_time"])
    if start is None or end is None:
        raise ValueError("a reservation has a start and an end")
    return Reservation(
        name=found["name"],
        start_time=start,
        end_time=end,
        nodes=found.get("node_list") or "",
        node_count=_number(found.get("node_count")) or 0,
        flags=frozenset(found.get("flags") or ()),
        users=_names(found.get("users")),
        accounts=_names(found.get("accounts")),
        is_active=start <= datetime.now(UTC) < end,
        partition=found.get("partition") or "",
        features=found.get("features") or "",
        licenses=tres(found.get("licenses") or ""),
        tres=tres(found.get("tres") or ""),
    )


def _number(value: Any) -> int | None:
    if isinstance(value, dict):
        return int(value["number"]) if value.get("set") and not value.get("infinite") else None
    if value is None or value == "":
        return None
    number = int(value)
    return None if number in _NO_NUMBER else number


def _moment(value: Any) -> datetime | None:
    seconds = _number(value)
    return datetime.fromtimestamp(seconds, UTC) if seconds else None


def _words(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else [str(word) for word in value]


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(text(value).split(",")) if text(value) else ()
    return tuple(map(str, value or ()))
