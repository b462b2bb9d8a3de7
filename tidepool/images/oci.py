"""An image as a container image for registries, Nomad and Kubernetes: an OCI layout, as one tar.

`ctr images import`, `podman load`, `docker load` and `skopeo copy oci-archive:...` read it.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tidepool.images.containers import SEARCH, word_for

_CHUNK: Final = 2**20
#: Above it bytes are few percent fewer, and take three times as long.
_LEVEL: Final = 4
_MEDIA: Final = "application/vnd.oci.image"


@dataclass(frozen=True)
class About:
    """Labels of the image. ``epoch`` is in s since 1970; ``architecture`` is Debian's word for it."""

    name: str
    digest: str
    release: str
    architecture: str
    epoch: int


def write_oci(about: About, tar: Path, tar_sha256: str, target: Path) -> None:
    """Write ``target`` from the image's tar; the same bytes for the same tar and the same release of zlib."""
    layer = target.with_name(f"{target.name}.layer")
    try:
        layer_sha256 = _pack(tar, layer)
        created = datetime.fromtimestamp(about.epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        platform = {"architecture": word_for(about.architecture), "os": "linux"}
        notes = {
            "org.opencontainers.image.created": created,
            "org.opencontainers.image.title": about.name,
            "org.opencontainers.image.version": about.digest[:12],
            "tidepool.image": about.digest,
        }
        configuration = _json(
            {
                **platform,
                "created": created,
                "config": {"Cmd": ["/bin/bash"], "Env": [SEARCH], "Labels": notes, "WorkingDir": "/"},
                "rootfs": {"type": "layers", "diff_ids": [f"sha256:{tar_sha256}"]},
                "history": [
                    {
                        "created": created,
                        "created_by": f"tidepool image {about.name} of Debian {about.release}",
                    }
                ],
            }
        )
        manifest = _json(
            {
                "schemaVersion": 2,
                "mediaType": f"{_MEDIA}.manifest.v1+json",
                "config": _descriptor("config.v1+json", configuration),
                "layers": [
                    {
                        "mediaType": f"{_MEDIA}.layer.v1.tar+gzip",
                        "digest": f"sha256:{layer_sha256}",
                        "size": layer.stat().st_size,
                    }
                ],
                "annotations": notes,
            }
        )
        reference = {
            "org.opencontainers.image.ref.name": about.digest[:12],
            "io.containerd.image.name": f"docker.io/tidepool/{about.name}:{about.digest[:12]}",
        }
        index = _json(
            {
                "schemaVersion": 2,
                "mediaType": f"{_MEDIA}.index.v1+json",
                "manifests": [
                    {
                        **_descriptor("manifest.v1+json", manifest),
                        "platform": platform,
                        "annotations": reference,
                    }
                ],
            }
        )
        small = {
            "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
            "index.json": index,
            _blob(configuration): configuration,
            _blob(manifest): manifest,
        }
        with target.open("wb") as file:
            _write(file, small, {f"blobs/sha256/{layer_sha256}": layer}, about.epoch)
    finally:
        layer.unlink(missing_ok=True)


def _pack(tar: Path, layer: Path) -> str:
    with (
        tar.open("rb") as plain,
        layer.open("wb") as written,
        gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=written, mtime=0) as packed,
    ):
        shutil.copyfileobj(plain, packed, _CHUNK)
    with layer.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write(file: Any, small: Mapping[str, bytes], large: Mapping[str, Path], epoch: int) -> None:
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for folder in ("blobs", "blobs/sha256"):
            entry = _entry(folder, 0, epoch)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        for name, content in sorted(small.items()):
            tar.addfile(_entry(name, len(content), epoch), io.BytesIO(content))
        for name, path in large.items():
            with path.open("rb") as opened:
                tar.addfile(_entry(name, path.stat().st_size, epoch), opened)


def _entry(name: str, size: int, epoch: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime, entry.mode = size, epoch, 0o644
    return entry


def _descriptor(kind: str, content: bytes) -> dict[str, Any]:
    digest = hashlib.sha256(content).hexdigest()
    return {"mediaType": f"{_MEDIA}.{kind}", "digest": f"sha256:{digest}", "size": len(content)}


def _blob(content: bytes) -> str:
    return f"blobs/sha256/{hashlib.sha256(content).hexdigest()}"


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True).encode()
