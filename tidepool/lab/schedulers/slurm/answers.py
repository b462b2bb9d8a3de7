"""Answers of sdiag and of `scontrol show config`, read. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

#: The part of sdiag's answer that counts requests by what they were; the next one counts the same by user.
_BY_TYPE: Final = re.compile(
    r"^Remote Procedure Call statistics by message type$(.*?)^\S", re.MULTILINE | re.DOTALL
)
_REQUEST: Final = re.compile(r"^\s+(\w+)\s+\(\s*\d+\)\s+count:(\d+)", re.MULTILINE)
_SETTING: Final = re.compile(r"^(\w+)\s+= (.*)$", re.MULTILINE)

#: Settings that figures depend on, by their names in slurm.conf.
TOLD_SETTINGS: Final = (
    "SLURM_VERSION",
    "JobAcctGatherType",
    "AccountingStorageType",
    "MaxJobCount",
    "MinJobAge",
    "PreemptMode",
    "PreemptType",
    "PriorityType",
    "ProctrackType",
    "PrologFlags",
    "SchedulerParameters",
    "SchedulerType",
    "SelectType",
    "SelectTypeParameters",
    "TaskPlugin",
)


def read_requests(answer: str) -> Mapping[str, int]:
    """Return how many requests slurmctld has had since its start, by message type (``REQUEST_JOB_INFO``).

    Raises:
        ValueError: it is no answer of sdiag.
    """
    part = _BY_TYPE.search(answer)
    if not part:
        raise ValueError("there are no statistics by message type")
    return MappingProxyType({name: int(count) for name, count in _REQUEST.findall(part[1])})


def read_settings(answer: str) -> Mapping[str, str]:
    """Return all settings that `scontrol show config` tells, by their names."""
    return MappingProxyType({name: value.strip() for name, value in _SETTING.findall(answer)})
