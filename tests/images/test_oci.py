"""An image as a container image: each thing in it is of the digest and size that is said of it."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.images.conftest import Built
from tidepool.images import Image, export
from tidepool.images.writer import write_oci

ABOUT = Image("ab" * 32, Path(), "debian-12", "bookworm", "amd64", 1_700_000_000, 4096, 0, ())


@pytest.fixture
def tar(tmp_path: Path) -> Path:
    path = tmp_path / "image.tar"
    with tarfile.open(path, "w") as made:
        entry = tarfile.TarInfo("./etc/motd")
        entry.size = 5
        made.addfile(entry, io.BytesIO(b"hello"))
    return path


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def contents(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        files = [member for member in tar.getmembers() if member.isfile()]
        return {member.name: tar.extractfile(member).read() for member in files}  # type: ignore[union-attr]


def follow(files: dict[str, bytes], descriptor: dict[str, Any]) -> bytes:
    """What a descriptor leads to, which must be of its digest and size."""
    kind, _, digest = descriptor["digest"].partition(":")
    blob = files[f"blobs/{kind}/{digest}"]
    assert (kind, digest, descriptor["size"]) == ("sha256", sha256(blob), len(blob))
    return blob


def check(path: Path, tar: bytes) -> dict[str, Any]:
    files = contents(path)
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    index = json.loads(files["index.json"])
    assert index["schemaVersion"] == 2
    (reference,) = index["manifests"]
    manifest = json.loads(follow(files, reference))
    assert manifest["mediaType"] == reference["mediaType"] == "application/vnd.oci.image.manifest.v1+json"
    configuration = json.loads(follow(files, manifest["config"]))
    assert {key: configuration[key] for key in ("architecture", "os")} == reference["platform"]
    (layer,) = manifest["layers"]
    assert layer["mediaType"] == "application/vnd.oci.image.layer.v1.tar+gzip"
    assert gzip.decompress(follow(files, layer)) == tar
    assert configuration["rootfs"] == {"type": "layers", "diff_ids": [f"sha256:{sha256(tar)}"]}
    # Nothing is in it that nothing leads to.
    assert len(files) == 2 + 3
    told: dict[str, Any] = reference["annotations"] | manifest["annotations"]
    return told


def test_everything_is_what_is_said_of_it(tar: Path, tmp_path: Path) -> None:
    write_oci(ABOUT, tar, sha256(tar.read_bytes()), tmp_path / "image.oci")
    told = check(tmp_path / "image.oci", tar.read_bytes())
    assert told["io.containerd.image.name"] == "docker.io/tidepool/debian-12:abababababab"
    assert told["org.opencontainers.image.ref.name"] == "abababababab"
    assert told["org.opencontainers.image.created"] == "2023-11-14T22:13:20Z"
    assert told["tidepool.image"] == "ab" * 32
    assert sorted(path.name for path in tmp_path.iterdir()) == ["image.oci", "image.tar"]


def test_the_same_tar_is_the_same_container_and_another_is_another(tar: Path, tmp_path: Path) -> None:
    def made(name: str, about: Image) -> str:
        write_oci(about, tar, sha256(tar.read_bytes()), tmp_path / name)
        return sha256((tmp_path / name).read_bytes())

    assert made("one", ABOUT) == made("other", ABOUT)
    assert made("third", replace(ABOUT, digest="cd" * 32)) != made("one", ABOUT)


@pytest.mark.slow
def test_a_built_image_is_a_container_image(built: Built) -> None:
    oci = export(built.image, "oci", built.store, built.machine)
    tar = export(built.image, "tar", built.store, built.machine)
    told = check(oci.path, tar.path.read_bytes())
    assert told["org.opencontainers.image.title"] == built.image.name
    assert oci.path.stat().st_size < tar.path.stat().st_size / 2
