"""Runs: a cluster is made for a workload, its results are kept, and it goes. See docs/adr/0064-runs.md.

from tidepool.runs import run

done = run("physics", "workload.yaml", results="s3://lab/runs")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tidepool.runs.command import run as run
    from tidepool.runs.record import Run as Run
    from tidepool.runs.workload import Workload as Workload

#: Names that are imported when they are asked for: the parts of a run need not each other.
_LATER: Final = {"run": "command", "Run": "record", "Workload": "workload"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
