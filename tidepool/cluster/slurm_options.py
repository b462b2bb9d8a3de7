"""A person's options for Slurm's files, and every key that is written there: known, and fit to be written."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Final

from tidepool.cluster.slurm_keys import CGROUP_CONF, PARTITION_LINE, SLURM_CONF, Key, Table
from tidepool.cluster.slurm_releases import RELEASES, Release, takes_over_again

Value = str | int | float | bool

_BITS: Final = {"uint16": 16, "uint32": 32, "uint64": 64}
_YES: Final = ("yes", "up", "true", "1")
_NO: Final = ("no", "down", "false", "0")
_WITHOUT_END: Final = ("infinite", "unlimited")

_SPEC = "Tidepool writes it from the spec"
_POWER = "Slurm's power saving would stop machines behind the scaler's back; with `scaling.mode: power_save` it is set for all fleets"
_PLACES = "images and supervisors count on the places and accounts that Tidepool gives"

#: What a person cannot set in slurm.conf, by key in lower case, and why.
PROTECTED: Final[Mapping[str, str]] = {
    "clustername": f"{_SPEC}: name",
    "slurmctldhost": f"{_SPEC}: controller",
    "slurmctldaddr": f"{_SPEC}: controller",
    "backupcontroller": f"{_SPEC}: controller.backup",
    "backupaddr": f"{_SPEC}: controller.backup",
    "nodename": "nodes are slots that Tidepool creates while Slurm runs, and a line here would take their names; "
    "write a fleet",
    "nodeset": f"{_SPEC}: each fleet is a node set",
    "partitionname": f"{_SPEC}: partitions",
    "downnodes": "nodes are slots that are not there yet when Slurm reads this; drain a node instead",
    "frontendname": "a front end runs jobs of many nodes, which no machine of Tidepool does",
    "maxnodecount": f"{_SPEC}: the slots of all fleets",
    "grestypes": f"{_SPEC}: the gres of the fleets' shapes",
    "topologyplugin": f"{_SPEC}: topology",
    "treewidth": "nodes come and go, so slurmctld has to reach each by itself and not through other nodes",
    "selecttype": "Tidepool grows fleets by cpus, memory and gres, which only select/cons_tres hands out",
    "authtype": "the cluster's key, which every machine of it is given, is munge's",
    "returntoservice": "a node that registers has to come into service by itself (2)",
    "resumeprogram": _POWER,
    "resumefailprogram": _POWER,
    "suspendprogram": _POWER,
    "suspendtime": _POWER,
    "suspendexcnodes": "it is each fleet's `min_nodes`",
    "slurmuser": _PLACES,
    "slurmduser": _PLACES,
    "statesavelocation": _PLACES,
    "slurmdspooldir": _PLACES,
    "slurmctldpidfile": _PLACES,
    "slurmdpidfile": _PLACES,
    "slurmctldlogfile": _PLACES,
    "slurmdlogfile": _PLACES,
    "plugindir": _PLACES,
    "accountingstoragetype": f"{_SPEC}: controller.accounting",
    "accountingstoragehost": f"{_SPEC}: controller.accounting",
    "accountingstoragebackuphost": f"{_SPEC}: controller.accounting",
    "accountingstorageport": f"{_SPEC}: controller.accounting",
    "accountingstoragepass": f"{_SPEC}: controller.accounting",
}

_STANDING_BY: Final = (
    "slurmctld before 23.11 that gave back control has to be started anew, which Tidepool has it do with this"
)

#: The same, of releases before 23.11.
PROTECTED_BEFORE_23_11: Final[Mapping[str, str]] = {
    "slurmctldprimaryonprog": _STANDING_BY,
    "slurmctldprimaryoffprog": _STANDING_BY,
}

#: Words of lists in slurm.conf that are there whatever a person adds to the list.
REQUIRED_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    # Nodes fetch their configuration from the controller, so it changes on all of them at once.
    "slurmctldparameters": ("enable_configless",),
    # The shape of the spec counts, not what slurmd finds: it shares this machine with others.
    "slurmdparameters": ("config_overrides",),
}

#: Words that break Tidepool, by key in lower case, and why.
_FORBIDDEN_WORDS: Final[Mapping[str, Mapping[str, str]]] = {
    "slurmctldparameters": {
        "cloud_reg_addrs": "it lets go of NodeAddr when a node stops, and a slot's address is its own for ever",
    },
    "accountingstorageenforce": {
        "none": "slurmctld of 22.05 dies of it; leave the key out, that is the same"
    },
}

_PROTECTED_IN_PARTITIONS: Final[Mapping[str, str]] = {
    "partitionname": "it is the partition's `name`",
    "nodes": "it is the partition's `fleets`",
    "default": "it is the partition's `default`",
    "maxtime": "it is the partition's `max_time`",
    "suspendtime": _POWER,
    "powerdownonidle": _POWER,
}


def check_slurm_conf(release: Release, key: str, value: Value) -> None:
    """Refuse an option of a person for slurm.conf, with ValueError: what is wrong, and what to do."""
    _check(SLURM_CONF, "slurm.conf", release, key, value)
    _refuse_protected(PROTECTED, key)
    if not takes_over_again(release):
        _refuse_protected(PROTECTED_BEFORE_23_11, key)
    words = str(value).lower().split(",")
    for word, why in _FORBIDDEN_WORDS.get(key.lower(), {}).items():
        if word in words:
            raise ValueError(f"Tidepool cannot work with {word}: {why}")


def check_partition(release: Release, key: str, value: Value) -> None:
    """Refuse an option of a person for a partition's line, with ValueError."""
    _check(PARTITION_LINE, "a partition's line", release, key, value)
    _refuse_protected(_PROTECTED_IN_PARTITIONS, key)


def check_cgroup_conf(release: Release, key: str, value: Value) -> None:
    """Refuse an option of a person for cgroup.conf, with ValueError."""
    _check(CGROUP_CONF, "cgroup.conf", release, key, value)


def setting(table: Table, file: str, release: Release, key: str, value: Value) -> str:
    """``Key=value`` as ``file`` has it, in Slurm's spelling; a value with blanks in quotes.

    Raises:
        ValueError: when the release does not know the key, or cannot read the value.
    """
    found = _check(table, file, release, key, value)
    text = _text(value)
    return f'{found.name}="{text}"' if re.search(r"\s", text) else f"{found.name}={text}"


def line(table: Table, file: str, release: Release, settings: Iterable[tuple[str, Value]]) -> str:
    """One line of several settings.

    Raises:
        ValueError: as `setting` does.
    """
    return " ".join(setting(table, file, release, key, value) for key, value in settings)


def _check(table: Table, file: str, release: Release, key: str, value: Value) -> Key:
    found = table.get(key.lower())
    if found is None or release not in found.releases:
        raise ValueError(_unknown(table, file, release, key, found))
    _check_value(found, value)
    return found


def _unknown(table: Table, file: str, release: Release, key: str, found: Key | None) -> str:
    if found is None:
        said = f"no release of Slurm from {RELEASES[0]} to {RELEASES[-1]} knows {key} in {file}"
    elif found.releases[-1] < release:
        said = f"Slurm {release} has no {found.name} in {file} any more, {found.releases[-1]} was the last; leave it out"
    else:
        said = f"Slurm {release} does not know {found.name} in {file} yet, {found.releases[0]} is the first"
    there = {k: known.name for k, known in table.items() if release in known.releases}
    near = difflib.get_close_matches(key.lower(), there, n=1, cutoff=0.6)
    return said + (f"; the nearest that it knows is {there[near[0]]}" if near else "")


def _check_value(key: Key, value: Value) -> None:
    text = _text(value)
    if not text or text != text.strip():
        raise ValueError(f"{key.name} has no value, or blanks around it; leave the key out, or the blanks")
    if foreign := re.search(r'["#]|[^\x20-\x7e]|\\$', text):
        raise ValueError(
            f"{key.name} has {foreign.group()!r} in its value, which Slurm's files cannot hold: no quotes, no #, "
            "no line ends, no \\ at the end, plain ASCII"
        )
    if key.kind == "bool" and text.lower() not in _YES + _NO:
        raise ValueError(f"{key.name} is {text!r}, and can be yes or no")
    if key.kind in _BITS:
        most = 2 ** _BITS[key.kind] - 1
        if text.lower() not in _WITHOUT_END and not (re.fullmatch(r"[0-9]+", text) and int(text) <= most):
            raise ValueError(
                f"{key.name} is {text!r}, and can be a whole number from 0 to {most}, or UNLIMITED"
            )
    if key.kind == "float" and not re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
        raise ValueError(f"{key.name} is {text!r}, and can be a number such as 12.5")


def _refuse_protected(protected: Mapping[str, str], key: str) -> None:
    if why := protected.get(key.lower()):
        raise ValueError(f"{key} is not for a person to set: {why}")


def _text(value: Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
