"""The stack of a run: the file of another stack, with what a cluster needs that is there for one workload."""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import yaml

from tidepool.cli.options import Choice
from tidepool.cli.stack import Stack, stacks_with_files
from tidepool.cli.stack_spec import SPEC_KEY
from tidepool.cluster.firewall import FILTERING
from tidepool.cluster.run_service import RunService
from tidepool.engine.project import Project
from tidepool.runs.journal import Journal
from tidepool.runs.record import Run
from tidepool.runs.results.records import SWEEPS, UNDER_WAY
from tidepool.runs.results.store import Store
from tidepool.runs.workload import Workload

#: Of a stack, and a ClusterName.
_NAME: Final = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?")
#: A year, which no cluster of a run lives for. slurmctld takes 0 for 2 seconds, whatever slurm.conf(5) says, and forgets in 10.
_REMEMBERED_S: Final = 31_536_000


def run_id(name: str, at: datetime) -> str:
    """Return the id of a new run that nobody named, of a workload's name: of its stack, of its cluster, and of its folder in the results."""
    return f"{name}-{at:%y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def name_taken(id: str, project: Project, journal: Journal, store: Store) -> str:
    """Return why a new run of that project cannot have that name, and the remedy; empty where it can.

    Raises:
        RunError: the place of results, or the journal, cannot be asked.
    """
    if not _NAME.fullmatch(id):
        return "a run's name is a small letter, then small letters, digits or '-', not '-' at the end, at most 40 characters"
    if id in (UNDER_WAY, SWEEPS) or id in stacks_with_files(project):
        return "a stack of the project has that name, or what is beside runs; take another"
    if f"{UNDER_WAY}/{id}" in store.names(f"{UNDER_WAY}/"):
        return (
            f"a run of that name is under way ({store.location(id)}); wait for its end, end it (`tidepool run --cancel {id}`, or "
            "`tidepool reap` where its driver is gone), or take another name"
        )
    if store.names(f"{id}/") or any(run.id == id for run in journal.runs(limit=None)):
        return f"a run of that name has been ({store.location(id)}), and what it left is not written over; take another name"
    return ""


def run_spec(spec: Mapping[str, Any], name: str, workload: Workload) -> dict[str, Any]:
    """Return the spec of a run's cluster, from another's.

    It is named as the stack: what stands under a cluster's name, as /home, is the run's alone. Slurm forgets no job of
    it (MinJobAge), and gives jobs the workload's grace (KillWait). Nodes run the workload's hook when they boot first. Where
    there is a service of runs, the controller may reach it.
    """
    said = spec.get("slurm_conf") or {}
    known = {key.lower() for key in said}
    more = {"MinJobAge": _REMEMBERED_S, "KillWait": max(1, workload.grace_s)}
    slurm_conf = {**said, **{key: value for key, value in more.items() if key.lower() not in known}}
    hook = {} if workload.first_boot is None else {"first_boot": workload.first_boot}
    return {**spec, "name": name, "slurm_conf": slurm_conf, **hook, **_reaching(spec)}


def _reaching(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the firewall of a spec, with a rule for the service of runs besides; nothing where there is none, or no rules."""
    own = (spec.get("controller") or {}).get("infrastructure") or "local"
    if not spec.get("run_service") or (own if isinstance(own, str) else own.get("name")) not in FILTERING:
        return {}
    service = RunService.model_validate(spec["run_service"])
    firewall = spec.get("firewall") or {}
    controller = firewall.get("controller") or {}
    egress = [*(controller.get("egress") or ()), service.egress]
    return {"firewall": {**firewall, "controller": {**controller, "egress": egress}}}


def restored_stack(choice: Choice, run: Run) -> Stack:
    """Return the stack of a run that is gone on with; its file is written anew where another machine began the run."""
    stack = choice.find(run.order.stack, None)
    if "down/abandoned" not in run.began and not stack.file.exists():
        _write(stack.file, {"config": {SPEC_KEY: dict(run.order.spec)}})
    return stack


def _write(target: Path, document: Mapping[str, Any]) -> None:
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        yaml.safe_dump(json.loads(json.dumps(document)), file, sort_keys=False)
