"""A cluster on this machine loads nothing of another infrastructure, in none of its processes: what each imports is kept."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.whole.cluster import Cluster
from tidepool.infrastructures.registry import BUILT_IN

pytestmark = pytest.mark.slow

#: Python runs it at the start of each process. Whatever is looked for by any kind of import is written down at once, so that
#: processes may be killed.
SITE: Final = """
import os, sys

_KEPT = os.open(os.path.join(os.path.dirname(__file__), "imports"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)

class _Kept:
    def find_spec(name, path=None, target=None):
        os.write(_KEPT, f"{os.getpid()} {name}\\n".encode())

sys.meta_path.insert(0, _Kept)
"""
#: What the command, the program and the plugin begin with.
COMMAND, PROGRAM, PLUGIN = "tidepool.cli.__main__", "tidepool.components", "tidepool.provider.serving"
OTHERS: Final = (
    *("boto3", "pulumi_aws", "pulumi_kubernetes", "pulumi_libvirt", "pulumi_nomad", "kubernetes", "paramiko"),
    *(package for name, package in BUILT_IN.items() if name != "local"),
)


def test_an_up_on_this_machine_loads_no_other_infrastructure(
    another: Callable[..., Cluster], tmp_path: Path
) -> None:
    assert {
        "tidepool.infrastructures.aws",
        "tidepool.infrastructures.libvirt",
        "tidepool.infrastructures.nomad",
    } <= set(OTHERS)
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(SITE)
    cluster = another()
    cluster.spec["fleets"][0]["min_nodes"] += 1
    cluster.write_spec()
    done = cluster.start("up", "--yes", PYTHONPATH=f"{site}:{os.environ.get('PYTHONPATH', '')}")
    assert done.returncode == 0, done
    imported: dict[str, set[str]] = defaultdict(set)
    for line in (site / "imports").read_text().splitlines():
        process, module = line.split()
        imported[module].add(process)
    # All three were seen; the embedded engine may have the program in the command's process.
    assert imported[COMMAND]
    assert imported[PROGRAM]
    assert imported[PLUGIN] - imported[COMMAND]
    assert "tidepool.infrastructures.local.graph" in imported, "by its name in a table, as others would be"
    seen = {name for name in imported for other in OTHERS if f"{name}.".startswith(f"{other}.")}
    assert seen == set()
