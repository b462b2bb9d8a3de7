"""The names that a person gives, and what Slurm, DNS and Tidepool ask of them.

Each function gives back the name it was given, or raises `ValueError` with what is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, TypeVar

#: So that a fleet's nodes, ``FLEET-NUMBER``, are host names (63 characters) up to a million of them.
LONGEST_FLEET_NAME: Final = 56
#: The tables of slurmdbd begin with it, and MariaDB's names end at 64 characters (slurm.conf(5)).
LONGEST_CLUSTER_NAME: Final = 40

#: Words that mean something else where Slurm expects a name of this kind.
_TAKEN_BY_SLURM: Final = frozenset({"all", "default", "none", "unlimited"})
#: What the cluster's own machines are called, with a number behind it or without.
_TAKEN_BY_MACHINES: Final = frozenset({"ctl", "ctlbackup", "dbd", "kube", "login", "nfs"})

#: How names of partitions begin that no person has asked for.
RESERVED_PARTITIONS: Final = "tidepool_"

_HOST_LABEL = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
_CLUSTER = re.compile(r"[a-z][a-z0-9_-]*")
_PARTITION = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_FEATURE = re.compile(r"[A-Za-z_][A-Za-z0-9_.=-]*")
_GRES = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")

#: Host names of the cluster's own machines. No node has one: those end in '-' and a number.
CONTROLLER_HOST: Final = "ctl"
BACKUP_CONTROLLER_HOST: Final = "ctlbackup"
ACCOUNTING_HOST: Final = "dbd"
CONTROL_PLANE_HOST: Final = "kube"
FILE_SERVER_HOST: Final = "nfs"

#: A cluster's network, in its stack.
CLUSTER_NETWORK: Final = "net"

#: Ways to the cluster's Kubernetes: Tidepool's own, and a person's who may do everything in one of the cluster's own.
KUBERNETES_ACCESS: Final = "kubernetes"
KUBERNETES_ADMIN_ACCESS: Final = "kubernetes-admin"


def cluster_name(name: str) -> str:
    """A ClusterName: it names tables of the accounting database, which folds it to lower case."""
    _refuse_unless(
        _CLUSTER.fullmatch(name) and len(name) <= LONGEST_CLUSTER_NAME,
        f"a cluster's name is a small letter, then small letters, digits, '-' or '_', "
        f"at most {LONGEST_CLUSTER_NAME} characters in all",
    )
    return name


def project_name(name: str) -> str:
    """A name of a project, its stack, its cluster, and what begins host names: narrower than a ClusterName."""
    _refuse_unless(
        _HOST_LABEL.fullmatch(name) and len(name) <= LONGEST_CLUSTER_NAME,
        "its stack, its cluster and hosts are named so: a small letter, then small letters, digits or '-', not '-' at the end, "
        f"at most {LONGEST_CLUSTER_NAME} characters in all",
    )
    return name


def fleet_name(name: str) -> str:
    """A fleet's name: with a number behind it, it is the host name of a node."""
    _refuse_unless(
        _HOST_LABEL.fullmatch(name) and len(name) <= LONGEST_FLEET_NAME,
        f"a fleet's name begins the host names of its nodes: a small letter, then small letters, digits or '-', "
        f"not '-' at the end, at most {LONGEST_FLEET_NAME} characters",
    )
    _refuse_unless(
        not re.search(r"-[0-9]+$", name),
        "a fleet's name must not look like a node's, which end in '-' and a number; leave the '-' out",
    )
    _refuse_if_taken(name)
    _refuse_unless(
        name not in _TAKEN_BY_MACHINES, f"{name!r} is a name of the cluster's own machines; take another"
    )
    return name


def partition_name(name: str) -> str:
    """A PartitionName."""
    _refuse_unless(
        _PARTITION.fullmatch(name),
        "a partition's name is a letter, then letters, digits, '_', '.' or '-'",
    )
    _refuse_if_taken(name)
    _refuse_unless(
        not name.lower().startswith(RESERVED_PARTITIONS),
        f"names that begin with {RESERVED_PARTITIONS!r} are for partitions of Tidepool's own; take another",
    )
    return name


def feature_name(name: str) -> str:
    """A feature, without the characters that mean something in ``--constraint``."""
    _refuse_unless(
        _FEATURE.fullmatch(name),
        "a feature is a letter or '_', then letters, digits, '_', '.', '=' or '-': "
        "the others mean something in --constraint",
    )
    return name


def gres_name(name: str) -> str:
    """The name or the type of a gres."""
    _refuse_unless(
        _GRES.fullmatch(name),
        "the name and the type of a gres are a letter, then letters, digits, '_', '.' or '-'",
    )
    return name


def _refuse_unless(fits: object, allowed: str) -> None:
    if not fits:
        raise ValueError(allowed)


def _refuse_if_taken(name: str) -> None:
    _refuse_unless(name.lower() not in _TAKEN_BY_SLURM, f"{name!r} is a word of Slurm's own; take another")


T = TypeVar("T")


def by_name(hosts: Mapping[str, T]) -> dict[str, T]:
    """``hosts`` in the order of their names, with numbers by value: ``node2`` is before ``node10``."""
    return dict(sorted(hosts.items(), key=lambda each: (_parts(each[0]), each[0])))


def _parts(name: str) -> tuple[tuple[int, int], ...]:
    """Characters, and a number as if it were one digit: so names without numbers are in the order of the engines."""
    parts = re.findall(r"[0-9]+|[^0-9]", name)
    return tuple((ord("0"), int(part)) if part[0] in "0123456789" else (ord(part), 0) for part in parts)
