"""The image of converged pools, as it is built: what of Kubernetes is in it runs there."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.golden import CONVERGED, golden_image
from tidepool.images import Image
from tidepool.images.containers import FOLDER
from tidepool.toolchain import find

pytestmark = pytest.mark.slow

#: In namespaces that end with it: the image's containerd on a copy-on-write root, asked for what it took in.
_TAKE_IN = """\
set -e
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=$2,upperdir=$1/upper,workdir=$1/work" "$1/root"
cd "$1/root"
mount -t proc proc proc
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs var/lib/containerd
mount --bind /dev dev
chroot . /usr/bin/containerd >"$1/log" 2>&1 &
until chroot . ctr version >/dev/null 2>&1; do sleep 0.05; kill -0 $! || { cat "$1/log"; exit 1; }; done
for archive in .$3/*.tar; do chroot . ctr --namespace k8s.io images import "${archive#.}" >/dev/null; done
chroot . ctr --namespace k8s.io images ls --quiet
"""


@pytest.fixture(scope="module")
def image() -> Image:
    return golden_image(CONVERGED)


def _says(image: Image, *command: str) -> str:
    inside = ["unshare", "--net", "--root", str(image.root), *command]
    return subprocess.run(inside, check=True, capture_output=True, text=True, timeout=60).stdout


def test_it_holds_both_roles_by_its_manifest_and_the_plain_one_does_not(image: Image) -> None:
    assert image.holds == ("slurm", "kubernetes")
    assert image.tools == ("kubelet", "pause")
    assert golden_image().holds == ("slurm",)


def test_its_programs_run_in_it(image: Image) -> None:
    version = find(os.environ).version
    assert _says(image, "/usr/bin/kubelet", "--version").startswith(f"Kubernetes v{version}")
    for program in ("/usr/bin/containerd", "/usr/sbin/runc", "/usr/sbin/slurmd"):
        assert _says(image, program, "-V" if program.endswith("slurmd") else "--version")
    plugins = {path.name for path in (image.root / "usr/lib/cni").iterdir()}
    assert {"bridge", "host-local", "loopback", "portmap"} <= plugins
    assert "busybox" in _says(image, "/usr/bin/busybox")


def test_it_brings_no_credential_and_no_state_of_a_node(image: Image) -> None:
    for folder in (
        "etc/cni/net.d",
        "etc/kubernetes/manifests",
        "var/lib/containerd",
        "var/lib/kubelet",
        "etc/munge",
    ):
        assert list((image.root / folder).iterdir()) == [], folder
    assert [path.name for path in (image.root / "etc/kubernetes").iterdir()] == ["manifests"]
    assert not (image.root / "var/lib/tidepool").exists()


def test_its_containers_are_what_its_containerd_takes_in(image: Image, tmp_path: Path) -> None:
    command = [
        "unshare",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child=KILL",
        "--net",
        "--",
        "sh",
        "-c",
        _TAKE_IN,
    ]
    done = subprocess.run(
        [*command, "sh", str(tmp_path), str(image.root), FOLDER],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    names = [line for line in done.stdout.splitlines() if not line.startswith("sha256:")]
    assert names == ["docker.io/tidepool/busybox:1", "docker.io/tidepool/pause:1"]
