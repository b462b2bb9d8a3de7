"""Workloads of tests, as YAML gives them."""

from __future__ import annotations

from typing import Any

from tidepool.runs.workload import Workload
from tidepool.runs.workload_reading import read_workload


def no_files(name: str) -> str:
    """Have no script beside the workload's file."""
    raise ValueError(f"there is no {name}")


def job(name: str = "first", **more: Any) -> dict[str, Any]:
    """A job, which does nothing."""
    return {"name": name, **({} if "script" in more else {"command": ["true"]}), **more}


def mapping(*jobs: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A good workload of these jobs, or of one."""
    return {"name": "physics-run", "jobs": list(jobs) or [job()], **more}


def workload(*jobs: dict[str, Any], **more: Any) -> Workload:
    """The same, read."""
    return read_workload(mapping(*jobs, **more), no_files)
