"""Projects outside of the repository: from the wheel alone, and with several clusters in one program."""

from __future__ import annotations

import json
import os
import shutil
import site
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.infrastructures.local.stacks import Stack, left_of
from tests.whole.cluster import LONG_S, ROOT
from tidepool.infrastructures.connection import transport

pytestmark = pytest.mark.slow

TWO_CLUSTERS = '''\
"""Two departments, of the same names."""

import pulumi

from tidepool.components import Cluster, ComputeFleet, Controller, FleetArgs, Shape, SlurmController, cluster_spec

SMALL = Controller(shape=Shape(cpus=1, memory_mib=512))
CPU = FleetArgs(name="cpu", min_nodes=1, max_nodes=4, shape=Shape(cpus=1, memory_mib=256))

physics = SlurmController("physics", network="10.80.0.0/16", controller=SMALL, fleets=[CPU])
ComputeFleet("cpu", controller=physics)
spec = cluster_spec("chemistry", network="10.81.0.0/16", controller=SMALL, fleets=[CPU])
chemistry = Cluster("chemistry", spec, scope="chemistry")
pulumi.export("physics", list(physics.logins.values()))
pulumi.export("chemistry", list(chemistry.controller.logins.values()))
'''


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs of a virtual environment that has Tidepool from its wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    # What git has, and none of what other builds left.
    subprocess.run(["git", "clone", "--quiet", ROOT, folder / "source"], check=True)
    _run(
        *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"),
        *("--no-index", "--wheel-dir", str(folder), str(folder / "source")),
    )
    shutil.rmtree(folder / "source")
    made = folder / "venv"
    _run(sys.executable, "-m", "venv", "--without-pip", str(made))
    (wheel,) = folder.glob("*.whl")
    (packages,) = made.glob("lib/python*/site-packages")
    # All that Tidepool needs is installed here already; itself as well, which stands behind the wheel's.
    (packages / "others.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    _run(
        *(sys.executable, "-m", "pip", "--python", str(made / "bin/python"), "install", "--quiet"),
        *("--no-deps", "--no-index", str(wheel)),
    )
    return made / "bin"


def _run(*command: str, cwd: Path | None = None, **environment: str) -> str:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**kept, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture
def name() -> str:
    return f"t{uuid.uuid4().hex[:8]}"


@pytest.fixture
def environment(images: Path, tmp_path: Path, name: str) -> Iterator[dict[str, str]]:
    data = tmp_path / "data"
    yield {"TIDEPOOL_DATA": str(data), "TIDEPOOL_IMAGES": str(images), "TIDEPOOL_ENGINE": "embedded"}
    stacks = (name, f"{name}-chemistry")
    for stack in stacks:
        Stack(data, stack, images).delete_all()
    # Volumes that are kept on purpose.
    shutil.rmtree(data)
    for stack in stacks:
        assert left_of(Stack(data, stack, images)) == []


def test_a_project_of_the_wheel_alone_is_a_cluster_that_runs_a_job(
    installed: Path, environment: dict[str, str], tmp_path: Path, name: str
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    tidepool = str(installed / "tidepool")
    _run(tidepool, "new", name, cwd=project)
    found = _run(
        str(installed / "python"), "-c", "import tidepool.components as c; print(c.__file__)", cwd=project
    )
    assert found.startswith(str(installed.parent)), found
    assert "1 passed" in _run(str(installed / "python"), "-m", "pytest", "-q", cwd=project)
    try:
        _run(tidepool, "up", "--yes", cwd=project, **environment)
        assert (
            _run(tidepool, "exec", "login-1", "--", "srun", "hostname", cwd=project, **environment)
            == "cpu-1\n"
        )
        again = json.loads(_run(tidepool, "up", "--yes", "--json", cwd=project, **environment))
        assert set(again["changes"]) == {"same"}
    finally:
        _run(tidepool, "down", "--yes", "--force", "--purge", cwd=project, **environment)


def test_two_clusters_of_one_program_have_the_same_names_and_nothing_in_common(
    installed: Path, environment: dict[str, str], tmp_path: Path, name: str
) -> None:
    project, state = tmp_path / "two", tmp_path / "state"
    project.mkdir()
    state.mkdir()
    (project / "Pulumi.yaml").write_text("name: two\nruntime: python\n")
    (project / "__main__.py").write_text(TWO_CLUSTERS)
    more = {
        **environment,
        "PULUMI_BACKEND_URL": f"file://{state}",
        "PULUMI_CONFIG_PASSPHRASE": "of a test",
        "PULUMI_HOME": str(tmp_path / "home"),
    }

    def engine(*words: str) -> str:
        return _run(
            *(str(installed / "python"), "-m", "tidepool.engine", *words, "--stack", name),
            cwd=project,
            **more,
        )

    _run(str(installed / "python"), "-m", "tidepool.engine", "stack", "init", name, cwd=project, **more)
    try:
        engine("up", "--yes", "--skip-preview")
        for stack, cluster in ((name, "physics"), (f"{name}-chemistry", "chemistry")):
            way = transport(
                {"kind": "local", "stack": stack, "machine": "login-1"}, Path(environment["TIDEPOOL_DATA"])
            )
            assert way.run(["srun", "hostname"], timeout_s=60).stdout == "cpu-1\n"
            assert (
                cluster
                in way.run(["sh", "-c", "scontrol show config | grep ClusterName"], timeout_s=30).stdout
            )
        assert "40 unchanged" in engine("up", "--yes", "--skip-preview")
    finally:
        engine("destroy", "--yes", "--skip-preview")
