"""The text of Slurm's configuration files for a `ClusterSpec`, and the slots that Slurm is told of beside them.

The same spec always gives the same text. Every key is checked against the release in the spec. What the settings
are good for stands beside them, here and in the files.

Nodes are *slots*, up to each fleet's ``max_nodes``, in the state FUTURE until a machine registers as one: jobs for nodes
that are not there yet wait instead of being refused. They are lines with NodeName, or made by `scontrol create`
(`names_slots`). The nodes of a fleet are found by the feature of its name, which is what the lines with NodeSet say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

from tidepool.cluster import controller_programs, hostlist
from tidepool.cluster.accounting import ACCOUNTING_SOCKET, SLURMDBD_PORT
from tidepool.cluster.desired_state import all_slots
from tidepool.cluster.fleet import Fleet
from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.names import BACKUP_CONTROLLER_HOST, CONTROLLER_HOST
from tidepool.cluster.pool import ConvergedPool
from tidepool.cluster.slots import Slot
from tidepool.cluster.slurm_keys import (
    CGROUP_CONF,
    GRES_LINE,
    NODE_LINE,
    NODE_SET_LINE,
    PARTITION_LINE,
    SLURM_CONF,
    SWITCH_LINE,
)
from tidepool.cluster.slurm_options import REQUIRED_WORDS, Value, line, setting
from tidepool.cluster.slurm_releases import finds_created_nodes, plugin_without_cgroups
from tidepool.cluster.spec import ClusterSpec, Partition

#: slurmctld reads it at its start only, so there is room for fleets to come.
_LEAST_MAX_NODE_COUNT: Final = 1024

_TOP: Final = "# Written by Tidepool from the cluster's spec; the next `up` writes it anew."

#: What Slurm takes for a fleet.
Fleetlike = Fleet | ConvergedPool

_Section = tuple[str, dict[str, Value]]
"""A comment that says why, and settings."""


def slurm_conf(spec: ClusterSpec, nodes: Mapping[str, HostSet] = FrozenDict()) -> str:
    """The text of slurm.conf."""
    own = dict(spec.slurm_conf)
    lines = [_TOP]
    for why, settings in _sections(spec):
        lines += ["", *(f"# {text}" for text in why.splitlines())]
        lines += [_global(spec, key, _wanted(spec, own, key, value)) for key, value in settings.items()]
    lines += _controllers(spec)
    if own:
        lines += ["", "# From slurm_conf of the spec."]
        lines += [_global(spec, key, own[key]) for key in sorted(own, key=str.lower)]
    lines += _slots(spec, nodes)
    lines += ["", "# A fleet's nodes are those with the feature of its name, there or not."]
    lines += [_node_set(spec, fleet) for fleet in fleets_and_pools(spec)]
    lines += ["", *(_partition(spec, partition) for partition in spec.partitions)]
    if controller_programs.saves_power(spec):
        lines += [
            "",
            "# Nobody's: they say how long the nodes of each fleet are idle before they are powered down.",
        ]
        lines += [
            line(PARTITION_LINE, "a partition's line", spec.slurm_version, each)
            for each in controller_programs.power_saving_partitions(spec)
        ]
    return _text(lines)


def gres_conf(spec: ClusterSpec, nodes: Mapping[str, HostSet] = FrozenDict()) -> str:
    """The text of gres.conf: which device files are which gres, node by node."""
    lines = [_TOP]
    for fleet in fleets_and_pools(spec):
        for gres in fleet.shape.gres:
            settings: list[tuple[str, Value]] = [("NodeName", _node_names(fleet, nodes)), ("Name", gres.name)]
            settings += [("Type", gres.type)] if gres.type else []
            settings += [("File", gres.files)] if gres.files else [("Count", gres.count)]
            lines.append(line(GRES_LINE, "gres.conf", spec.slurm_version, settings))
    return _text(lines)


def cgroup_conf(spec: ClusterSpec) -> str:
    """The text of cgroup.conf."""
    if spec.confines_jobs:
        why = "Machines need not run systemd, and v1 and v2 are both met in the field."
        settings: dict[str, Value] = {
            "CgroupPlugin": "autodetect",
            "IgnoreSystemd": True,
            "ConstrainCores": True,
            "ConstrainRAMSpace": True,
            "ConstrainSwapSpace": True,  # else it takes its host's swap instead
            "ConstrainDevices": "devices" in spec.confining_controllers,
        }
    else:
        why = "Machines confine themselves, and slurmd leaves cgroups alone."
        settings = {"CgroupPlugin": plugin_without_cgroups(spec.slurm_version)}
    own = dict(spec.cgroup_conf) if spec.confines_jobs else {}
    settings = {key: _taken(own, key, value) for key, value in settings.items()}
    settings |= {key: own[key] for key in sorted(own, key=str.lower)}
    written = [setting(CGROUP_CONF, "cgroup.conf", spec.slurm_version, k, v) for k, v in settings.items()]
    return _text([_TOP, f"# {why}", *written])


def topology_conf(spec: ClusterSpec, nodes: Mapping[str, HostSet] = FrozenDict()) -> str | None:
    """The text of topology.conf; None where the topology is flat, or there are no fleets and no pools."""
    fleets = fleets_and_pools(spec)
    if spec.topology == "flat" or not fleets:
        return None
    switches: list[list[tuple[str, Value]]] = [
        [("SwitchName", f"sw_{fleet.name}"), ("Nodes", _node_names(fleet, nodes))] for fleet in fleets
    ]
    # Without a common root, no job could span fleets.
    switches.append([("SwitchName", "sw_root"), ("Switches", ",".join(f"sw_{f.name}" for f in fleets))])
    written = [line(SWITCH_LINE, "topology.conf", spec.slurm_version, switch) for switch in switches]
    return _text([_TOP, *written])


def mpi_conf() -> str:
    """The text of mpi.conf."""
    why = (
        "Where few nodes meet by a ring, a rank of Open MPI now and then dies at its beginning (docs/mpi.md)."
    )
    return _text([_TOP, f"# {why}", "PMIxCollFence=tree"])


def configuration(spec: ClusterSpec, nodes: Mapping[str, HostSet] = FrozenDict()) -> Mapping[str, str]:
    """All files by their name, in order; topology.conf only where there is one.

    ``nodes`` are those that should be there, by fleet: Slurm is told of those above `max_nodes` as well.
    """
    files = {
        "slurm.conf": slurm_conf(spec, nodes),
        "gres.conf": gres_conf(spec, nodes),
        "cgroup.conf": cgroup_conf(spec),
        "mpi.conf": mpi_conf(),
        "topology.conf": topology_conf(spec, nodes),
    }
    return {name: text for name, text in files.items() if text is not None}


def names_slots(spec: ClusterSpec) -> bool:
    """Return whether slurm.conf itself has the slots, in NodeName lines; else they are made with `scontrol create`."""
    return spec.topology == "tree" or not finds_created_nodes(spec.slurm_version)


def fleets_and_pools(spec: ClusterSpec) -> tuple[Fleetlike, ...]:
    """All that Slurm takes for fleets, fleets first."""
    return (*spec.fleets, *spec.pools)


def slot_state(spec: ClusterSpec, fleet: Fleetlike) -> Literal["FUTURE", "CLOUD"]:
    """The state of a slot whose node is not there.

    Of a pool it is FUTURE in each mode: power saving would ask for a machine that serves Kubernetes.
    """
    return "FUTURE" if isinstance(fleet, ConvergedPool) else controller_programs.absent_state(spec)


def slot_settings(spec: ClusterSpec, fleet: Fleetlike, slots: Sequence[Slot]) -> list[tuple[str, Value]]:
    """List the settings of a line with NodeName for ``slots`` of a fleet."""
    sockets, cores, threads = fleet.shape.layout
    settings: list[tuple[str, Value]] = [
        ("NodeName", hostlist.fold(slot.node_name for slot in slots)),
        ("NodeAddr", hostlist.fold(str(slot.address) for slot in slots)),
        ("State", slot_state(spec, fleet)),
        ("CPUs", fleet.shape.cpus),
        ("Sockets", sockets),
        ("CoresPerSocket", cores),
        ("ThreadsPerCore", threads),
        ("RealMemory", fleet.shape.memory_mib),
        ("Feature", ",".join((fleet.name, *fleet.features))),
    ]
    if fleet.shape.gres:
        settings.append(("Gres", ",".join(map(str, fleet.shape.gres))))
    return settings


def _slots(spec: ClusterSpec, nodes: Mapping[str, HostSet]) -> list[str]:
    fleets = fleets_and_pools(spec)
    if not names_slots(spec) or not fleets:
        return []
    slots = [
        line(
            NODE_LINE,
            "a node's line",
            spec.slurm_version,
            slot_settings(spec, fleet, _slots_of(fleet, nodes)),
        )
        for fleet in fleets
    ]
    return ["", "# Slots: a node that registers as one is in service.", *slots]


def _sections(spec: ClusterSpec) -> Iterable[_Section]:
    yield (
        "Nodes fetch these files from the controller, so a change is on all of them at once and without a restart.",
        {"ClusterName": spec.name, "SlurmctldParameters": "enable_configless"},
    )
    yield (
        (
            "The cluster's key. A credential that outlives its job for two minutes would hold back the job's rerun on\n"
            "a node that took the place of a lost one."
        ),
        {"AuthType": "auth/munge", "AuthInfo": "cred_expire=10"},
    )
    yield (
        (
            "Nodes come and go. A slot has the shape of the spec, whatever slurmd finds; a node that registers is in\n"
            "service; slurmctld talks to each by itself, for the next node in a tree may be gone."
        ),
        {
            "SlurmdParameters": "config_overrides",
            "MaxNodeCount": _max_node_count(spec),
            "ReturnToService": 2,
            "TreeWidth": 65_533,
        },
    )
    if controller_programs.saves_power(spec):
        yield (
            (
                "Slurm asks for nodes, and gives them back when they were idle for long. What it calls only writes that\n"
                "down; the scaler does it."
            ),
            controller_programs.power_saving_settings(spec),
        )
    yield (
        (
            "A node that does not answer is down, and its jobs wait again, within a minute; a backup controller takes\n"
            "over within 12 seconds."
        ),
        {"SlurmdTimeout": 30, "SlurmctldTimeout": 10},
    )
    if stands_by := controller_programs.takeover_settings(spec):
        yield (
            (
                "A slurmctld of this release is in charge once: the second time it schedules by backfill alone, and hangs\n"
                "when it gives back control. So one that gave it back is killed, and its supervisor starts another."
            ),
            stands_by,
        )
    yield (
        "Jobs get cores, memory and gres, which is what fleets are grown by.",
        {
            "SelectType": "select/cons_tres",
            "SelectTypeParameters": "CR_Core_Memory",
            **_gres_types(spec),
        },
    )
    yield (
        (
            "A job starts as soon as its node is there: the scheduler looks each time something changes, at most ten\n"
            "times a second, and far into the queue."
        ),
        {
            "SchedulerType": "sched/backfill",
            "SchedulerParameters": "batch_sched_delay=0,sched_min_interval=100000,sched_interval=1,"
            "bf_interval=1,bf_resolution=1,default_queue_depth=1000",
        },
    )
    tracked = spec.confines_jobs
    yield (
        "How jobs are followed and confined.",
        {
            "ProctrackType": "proctrack/cgroup" if tracked else "proctrack/linuxproc",
            "TaskPlugin": "task/cgroup,task/affinity" if tracked else "task/none",
            "JobAcctGatherType": "jobacct_gather/linux",
            # A step of each job from its beginning, which who logs in to its node becomes a part of.
            **({"PrologFlags": "Contain"} if tracked else {}),
        },
    )
    yield "Where one task of a step dies, the others do not wait for it for ever.", {"KillOnBadExit": 1}
    if spec.topology == "tree" and fleets_and_pools(spec):
        yield "Which nodes are near each other.", {"TopologyPlugin": "topology/tree"}
    accounting = spec.controller.accounting
    if accounting is not None:
        # An empty or "none" AccountingStorageEnforce ends slurmctld, so it is there only with something to enforce.
        # With accounts of the spec's, what they say holds where nobody says otherwise.
        words = accounting.enforce or (("associations", "limits", "qos") if spec.accounts else ())
        enforced: dict[str, Value] = {"AccountingStorageEnforce": ",".join(words)} if words else {}
        yield (
            "Accounting.",
            {
                "AccountingStorageType": "accounting_storage/slurmdbd",
                **accounting_storage(spec),
                **enforced,
            },
        )
    if spec.accounts:
        yield (
            "Shares of accounts decide first, then the quality of service, then how long a job waits.",
            {
                "PriorityType": "priority/multifactor",
                "PriorityWeightFairshare": 100_000,
                "PriorityWeightQOS": 10_000,
                "PriorityWeightAge": 1_000,
            },
        )
    if any(quality.preempts for quality in spec.qos):
        yield (
            "Jobs of a quality of service make room for those of one that preempts it, and run again.",
            {"PreemptType": "preempt/qos", "PreemptMode": "REQUEUE"},
        )
    yield (
        "Nobody gets mail: images have no program for it, and slurmctld complains of that.",
        {"MailProg": "/bin/true"},
    )
    yield (
        "Places that images and supervisors count on.",
        {
            "SlurmUser": "slurm",
            "StateSaveLocation": "/var/spool/slurmctld",
            "SlurmdSpoolDir": "/var/spool/slurmd",
            "SlurmctldPidFile": "/run/slurmctld.pid",
            "SlurmdPidFile": "/run/slurmd.pid",
            "SlurmctldLogFile": "/var/log/slurm/slurmctld.log",
            "SlurmdLogFile": "/var/log/slurm/slurmd.log",
        },
    )


def accounting_storage(spec: ClusterSpec) -> dict[str, Value]:
    """Return where slurmdbd is; and where clusters of other keys use the same, by which munged it is asked."""
    accounting = spec.controller.accounting
    if accounting is None:
        return {}
    settings: dict[str, Value] = {
        "AccountingStorageHost": str(accounting.host or spec.own_addresses.accounting)
    }
    if accounting.port != SLURMDBD_PORT:
        settings["AccountingStoragePort"] = accounting.port
    return settings | ({"AccountingStoragePass": ACCOUNTING_SOCKET} if accounting.is_shared else {})


def _controllers(spec: ClusterSpec) -> list[str]:
    places = spec.own_addresses
    on = spec.controller_slot
    hosts = [] if on is None else [f"{on.node_name}({on.address})"]
    hosts.append(f"{CONTROLLER_HOST}({places.controller})")
    if spec.controller.backup:
        hosts.append(f"{BACKUP_CONTROLLER_HOST}({places.backup_controller})")
    return ["", "# The first is in charge.", *(_global(spec, "SlurmctldHost", host) for host in hosts)]


def _max_node_count(spec: ClusterSpec) -> int:
    slots = sum(fleet.max_nodes for fleet in spec.fleets) + sum(pool.machines for pool in spec.pools)
    return max(_LEAST_MAX_NODE_COUNT, 1 << (slots - 1).bit_length() if slots else 0)


def _gres_types(spec: ClusterSpec) -> dict[str, Value]:
    names = sorted({gres.name for fleet in fleets_and_pools(spec) for gres in fleet.shape.gres})
    return {"GresTypes": ",".join(names)} if names else {}


def _node_set(spec: ClusterSpec, fleet: Fleetlike) -> str:
    settings = [("NodeSet", _node_set_name(fleet.name)), ("Feature", fleet.name)]
    return line(NODE_SET_LINE, "a node set's line", spec.slurm_version, settings)


def _partition(spec: ClusterSpec, partition: Partition) -> str:
    own = dict(partition.options)
    settings: list[tuple[str, Value]] = [
        ("PartitionName", partition.name),
        ("Nodes", ",".join(map(_node_set_name, partition.fleets)) if partition.fleets else "ALL"),
        ("Default", partition.default or len(spec.partitions) == 1),
        ("MaxTime", partition.max_time),
        ("State", _taken(own, "State", "UP")),
        *sorted(own.items(), key=lambda option: option[0].lower()),
    ]
    return line(PARTITION_LINE, "a partition's line", spec.slurm_version, settings)


def _node_set_name(fleet: str) -> str:
    # Not the fleet's own name: a node set, a feature and a partition may then be told apart in messages.
    return f"ns_{fleet}"


def _node_names(fleet: Fleetlike, nodes: Mapping[str, HostSet]) -> str:
    return hostlist.fold(slot.node_name for slot in _slots_of(fleet, nodes))


def _slots_of(fleet: Fleetlike, nodes: Mapping[str, HostSet]) -> tuple[Slot, ...]:
    return (
        all_slots(fleet, nodes[fleet.name])
        if fleet.name in nodes and isinstance(fleet, Fleet)
        else fleet.slots()
    )


def _taken(own: dict[str, Value], key: str, value: Value) -> Value:
    """A person's value for ``key`` where there is one, taken out of ``own``; else ours."""
    theirs = next((k for k in own if k.lower() == key.lower()), None)
    if theirs is None:
        return value
    taken = own.pop(theirs)
    missing = [w for w in REQUIRED_WORDS.get(key.lower(), ()) if w not in str(taken).lower().split(",")]
    return ",".join([*missing, str(taken)]) if missing else taken


def _wanted(spec: ClusterSpec, own: dict[str, Value], key: str, value: Value) -> Value:
    """Return what `_taken` does, with what power saving needs besides."""
    taken = _taken(own, key, value)
    if not controller_programs.saves_power(spec):
        return taken
    words = str(taken).split(",")
    said = {word.lower().partition("=")[0] for word in words}
    needed = controller_programs.REQUIRED_WORDS.get(key.lower(), ())
    missing = [word for word in needed if word.partition("=")[0] not in said]
    return ",".join([*words, *missing]) if missing else taken


def _global(spec: ClusterSpec, key: str, value: Value) -> str:
    return setting(SLURM_CONF, "slurm.conf", spec.slurm_version, key, value)


def _text(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"
