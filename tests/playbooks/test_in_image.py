"""The same roles in the root of an image, by chroot: what they put there, and that a second time changes nothing.

On live hosts some of them are tried by `tests.whole.test_ssh`.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from tests.golden import golden_image
from tests.playbooks.ansible import run
from tests.playbooks.hosts import PLAYBOOKS
from tidepool.images.build import MODULES, ansible_modules, serve_modules
from tidepool.images.machine import ansible_playbook

pytestmark = pytest.mark.slow

OF_MACHINES = (
    "users",
    "sshd",
    "at_rest",
    "slurmd",
    "slurmctld",
    "slurmdbd",
    "kubernetes_node",
    "mpi",
    "chrony",
    "nfs_client",
    "lustre_client",
    "firewall",
    "node_health",
    "services",
    "converged_node",
)
#: By slurmd, slurmctld and slurmdbd.
BROUGHT_ALONG = ("slurm_node", "slurm_controller")
OF_IMAGES = {"debian-12-cloud": ("boot", "cloud_init"), "debian-12-dev": ("mpich",)}

#: Runs roles in a root, with more of Ansible's options; gives how many tasks changed something.
Apply = Callable[..., int]


@pytest.fixture
def apply(tmp_path: Path) -> Iterator[Apply]:
    with ExitStack() as serving:
        served: set[Path] = set()

        def applied(root: Path, roles: Sequence[str], *more: str, **variables: Any) -> int:
            if root not in served:
                serving.enter_context(modules_served(root))
                served.add(root)
            host = {
                "ansible_connection": "tidepool_chroot",
                "ansible_host": str(root),
                "ansible_python_interpreter": f"{MODULES}/python",
                "tidepool_module_runner": f"{MODULES}/python",
            }
            play = tmp_path / "play.yaml"
            steps = {"name": "All", "hosts": "image", "gather_facts": False, "roles": [*roles]}
            play.write_text(json.dumps([steps]))
            inventory = {"all": {"hosts": {"image": host}}}
            told = {"tidepool_is_image": True, **variables}
            return run(tmp_path / "work", play, inventory, told, *more).changed["image"]

        yield applied


@contextmanager
def modules_served(root: Path) -> Iterator[None]:
    """A process in the root that has imported what Ansible's modules import, as a build of an image has one."""
    script = f"set -eu\n{serve_modules(ansible_modules(ansible_playbook()))}echo served\ncat\n"
    command = ["sh", "-c", script, "sh", str(root)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdout is not None
        assert shell.stdout.readline() == "served\n"
        yield
        # It ends with its standard input, and what serves with it.
        shell.communicate()


def a_copy(image: str, root: Path) -> Path:
    subprocess.run(["cp", "-a", golden_image(image).root, root], check=True)
    return root


def test_every_role_is_tried_here() -> None:
    there = {path.name for path in (PLAYBOOKS / "roles").iterdir()}
    assert there == {*OF_MACHINES, *BROUGHT_ALONG, *chain.from_iterable(OF_IMAGES.values())}


def test_roles_of_machines_fit_into_an_image_and_start_nothing(tmp_path: Path, apply: Apply) -> None:
    root = a_copy("debian-12", tmp_path / "root")
    variables = {
        "tidepool_time_servers": ["time.example.org"],
        "tidepool_nfs_mounts": [{"source": "nas:/home", "target": "/home"}],
        "tidepool_lustre_mounts": [{"source": "10.0.0.1@tcp:/fast", "target": "/scratch"}],
    }
    looked = apply(root, OF_MACHINES, "--check", **variables)
    assert not (root / "usr/local/lib/tidepool").exists()
    first, second = (apply(root, OF_MACHINES, **variables) for _ in range(2))
    assert looked > 5
    assert first > 5
    assert second == 0
    assert "nas:/home /home nfs rw,hard,_netdev 0 0\n" in (root / "etc/fstab").read_text()
    assert "10.0.0.1@tcp:/fast /scratch lustre rw,flock,_netdev 0 0\n" in (root / "etc/fstab").read_text()
    assert (
        (root / "etc/chrony/sources.d/tidepool.sources")
        .read_text()
        .endswith("server time.example.org iburst\n")
    )
    # Which machine it will be, and in which cluster, it is told when it starts.
    assert not (root / "etc/tidepool/firewall.nft").exists()
    assert not list((root / "usr/local/lib/tidepool").glob("services*"))
    assert (root / "etc/systemd/system/multi-user.target.wants/tidepool-firewall.service").is_symlink()


@pytest.mark.parametrize(
    ("image", "lost"),
    [
        ("debian-12-cloud", ("etc/cloud/cloud.cfg.d/95_tidepool.cfg", "usr/lib/tidepool/boot/core.img")),
        (
            "debian-12-dev",
            ("usr/share/tidepool/mpich/finalize.c", "usr/lib/x86_64-linux-gnu/libtidepool_mpich.so"),
        ),
    ],
)
def test_roles_of_images_change_nothing_again_and_a_look_tells_what_is_lost(
    tmp_path: Path, apply: Apply, image: str, lost: tuple[str, ...]
) -> None:
    """The first time was when the image was built."""
    root = a_copy(image, tmp_path / "root")
    assert apply(root, OF_IMAGES[image]) == 0
    for file in lost:
        (root / file).unlink()
    assert apply(root, OF_IMAGES[image], "--check") == 2
    assert not any((root / file).exists() for file in lost)
