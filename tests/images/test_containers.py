"""Containers as archives: what a runtime reads of them, and that they are the same bytes every time."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidepool.cluster.roles import ROLES
from tidepool.images.containers import Container, archive, archive_path, refuse_names
from tidepool.images.store import lacking

_BOX = Container(
    tools={"/pause": "pause"},
    files={"/bin/busybox": "/usr/bin/busybox"},
    aliases={"/bin/busybox": ("sh", "ls")},
    command=("/bin/sh", "-c", "id"),
)
_EPOCH = 1_700_000_000


def _made(container: Container = _BOX, content: str = "", name: str = "tidepool/box:1") -> bytes:
    return archive(
        name,
        container,
        architecture="amd64",
        epoch=_EPOCH,
        tool=lambda tool: f"tool {tool}{content}".encode(),
        file=lambda path: f"file {path}".encode(),
    )


def _read(made: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(made)) as tar:
        return {entry.name: tar.extractfile(entry).read() for entry in tar if entry.isfile()}  # type: ignore[union-attr]


def test_the_parts_of_an_archive_name_each_other_by_their_digests() -> None:
    parts = _read(_made())
    (manifest,) = json.loads(parts["manifest.json"])
    assert manifest["RepoTags"] == ["tidepool/box:1"]
    configuration = parts[manifest["Config"]]
    assert manifest["Config"] == f"{hashlib.sha256(configuration).hexdigest()}.json"
    said = json.loads(configuration)
    (layer,) = (parts[name] for name in manifest["Layers"])
    assert said["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer).hexdigest()}"]
    assert said["config"]["Cmd"] == ["/bin/sh", "-c", "id"]
    assert (said["os"], said["architecture"], said["created"]) == ("linux", "amd64", "2023-11-14T22:13:20Z")


def test_a_layer_holds_programs_and_the_names_that_lead_to_them_of_root_s() -> None:
    parts = _read(_made())
    with tarfile.open(fileobj=io.BytesIO(parts["layer.tar"])) as layer:
        entries = {entry.name: entry for entry in layer}
        assert list(entries) == sorted(entries), "folders come before what is in them"
        assert set(entries) == {"bin", "bin/busybox", "bin/ls", "bin/sh", "pause"}
        assert layer.extractfile("bin/busybox").read() == b"file /usr/bin/busybox"  # type: ignore[union-attr]
        assert layer.extractfile("pause").read() == b"tool pause"  # type: ignore[union-attr]
    assert entries["bin"].isdir()
    assert (entries["bin/sh"].issym(), entries["bin/sh"].linkname) == (True, "busybox")
    assert {(e.uid, e.gid, e.mtime, e.mode) for e in entries.values()} == {(0, 0, _EPOCH, 0o755)}


def test_the_same_container_is_the_same_bytes_and_another_is_not() -> None:
    assert _made() == _made()
    turned = _BOX.model_copy(update={"aliases": {"/bin/busybox": ("ls", "sh")}})
    assert _made(turned) == _made()
    assert _made(content="!") != _made()
    assert _made(name="tidepool/box:2") != _made()


@given(
    st.dictionaries(
        st.from_regex(r"(/[a-z]{1,9}){1,4}", fullmatch=True), st.binary(max_size=2000), max_size=8
    )
)
def test_all_that_goes_in_comes_out(files: dict[str, bytes]) -> None:
    taken = {p: b for p, b in files.items() if not any(other.startswith(f"{p}/") for other in files)}
    container = Container(files={path: path for path in taken}, command=("/x",))
    made = archive(
        "a:1", container, architecture="arm64", epoch=0, tool=lambda _: b"", file=taken.__getitem__
    )
    layer = _read(_read(made)["layer.tar"])
    assert {f"/{name}": content for name, content in layer.items()} == taken


@pytest.mark.parametrize(
    "name", ["tidepool/pause", "Tidepool/pause:1", "a b:1", "/pause:1", "pause:", "../pause:1"]
)
def test_a_container_has_a_name_that_a_runtime_takes(name: str) -> None:
    with pytest.raises(ValueError, match="such as tidepool/pause:1; not "):
        refuse_names({name: _BOX})


def test_each_has_a_archive_path_its_own() -> None:
    refuse_names({"tidepool/pause:1": _BOX, "busybox:1.35": _BOX})
    assert archive_path("tidepool/pause:1") == "/usr/share/tidepool/containers/tidepool_pause_1.tar"


# Roles

_SLURM = {"munge", "slurmd", "bash"}
_RUNTIME = {"containerd", "containernetworking-plugins", "runc"}


def test_what_an_image_holds_follows_from_what_is_in_it() -> None:
    def roles_held(packages: Collection[str], tools: Collection[str]) -> tuple[str, ...]:
        return tuple(role for role in ROLES if not lacking(role, packages, tools))

    assert roles_held(_SLURM, ()) == ("slurm",)
    assert roles_held(_RUNTIME, {"kubelet", "pause"}) == ("kubernetes",)
    assert roles_held(_SLURM | _RUNTIME, {"kubelet", "pause", "etcd"}) == ("slurm", "kubernetes")
    assert roles_held(_SLURM | _RUNTIME, {"kubelet"}) == ("slurm",)
    assert roles_held((), ()) == ()


def test_what_it_lacks_is_named() -> None:
    assert lacking("kubernetes", _SLURM | {"runc"}, {"pause"}) == (
        "package containerd",
        "package containernetworking-plugins",
        "tool kubelet",
    )
    assert lacking("slurm", _RUNTIME, ()) == ("package munge", "package slurmd")
