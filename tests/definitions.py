"""Definitions (CRDs) of others' objects as they are published, for API servers of tests.

Those of Cluster API and of Multus come with their Go modules, at the versions of toolchain/definitions. Metal3's are
generated from the Go types of its module, by the generator that it is published with, at the versions of toolchain/metal3:
once, and kept beside the toolchain. go.sum holds all of them to their bytes. TIDEPOOL_METAL3_CRDS names a folder of others
of Metal3's. Tests that need what cannot be had are left out, and that is said.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

_TOOLCHAIN: Final = Path(__file__).parents[1] / "toolchain"
_FOLDER: Final = _TOOLCHAIN / "definitions"
_METAL3: Final = _TOOLCHAIN / "metal3"
METAL3_FOLDER: Final = "TIDEPOOL_METAL3_CRDS"
_CORE: Final = "core/config/crd/bases"
_METAL3_TYPES: Final = "github.com/metal3-io/cluster-api-provider-metal3/api/v1beta2"
#: Downloads; compiling the generator.
_FETCH_S, _GENERATE_S = 240, 600


def cluster_api() -> tuple[Mapping[str, Any], ...]:
    """Those of Cluster API's core."""
    folder = _module("sigs.k8s.io/cluster-api") / _CORE
    return _read(folder, "cluster.x-k8s.io_")


def multus() -> tuple[Mapping[str, Any], ...]:
    """That of networks."""
    module = _module("github.com/k8snetworkplumbingwg/network-attachment-definition-client")
    return _read(module / "artifacts", "networks-crd.yaml")


def metal3() -> tuple[Mapping[str, Any], ...]:
    """Those of Metal3, at v1beta2."""
    named = os.environ.get(METAL3_FOLDER)
    return _read(Path(named) if named else _generated(), "infrastructure.cluster.x-k8s.io_")


@cache
def _module(path: str) -> Path:
    """Where a module's files are; it is downloaded where it is not there yet. Skips where it cannot be had."""
    text = (_FOLDER / "go.mod").read_text()
    version = re.search(rf"{re.escape(path)} (v\S+)", text)
    assert version, f"{path} is not in {_FOLDER}/go.mod"
    said = _fetched(_FOLDER, "-json", f"{path}@{version[1]}")
    return Path(json.loads(said)["Dir"])


def _generated() -> Path:
    """A folder of Metal3's, made where it is not there yet; of two who ask at once the second waits."""
    of = hashlib.sha256(b"".join((_METAL3 / name).read_bytes() for name in ("go.mod", "go.sum")))
    folder = _cache() / "definitions" / of.hexdigest()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _fetched(_METAL3)
            unfinished = folder.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            said = _go(
                _METAL3, _GENERATE_S,
                "tool", "controller-gen", "crd", f"paths={_METAL3_TYPES}", f"output:crd:dir={unfinished}",
            )  # fmt: skip
            assert said.returncode == 0, said.stderr
            unfinished.rename(folder)
    return folder


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidepool"


def _fetched(folder: Path, *what: str) -> str:
    """Download modules, by default all that the one in ``folder`` needs. Skips where they cannot be had."""
    said = _go(folder, _FETCH_S, "mod", "download", *what)
    if "SECURITY ERROR" in said.stderr + said.stdout:
        pytest.fail(said.stderr + said.stdout)
    if said.returncode:
        pytest.skip(f"needs Go modules that cannot be had here: {(said.stderr or said.stdout)[-300:]}")
    return said.stdout


def _go(folder: Path, timeout_s: float, *words: str) -> subprocess.CompletedProcess[str]:
    go = shutil.which("go")
    if go is None:
        pytest.skip("needs Go, which is not on PATH: for definitions that come with Go modules")
    return subprocess.run(
        [go, *words], cwd=folder, capture_output=True, text=True, timeout=timeout_s, check=False
    )


def _read(folder: Path, begins: str) -> tuple[Mapping[str, Any], ...]:
    found = tuple(_definitions(folder, begins))
    assert found, f"{folder} has no definitions"
    return found


def _definitions(folder: Path, begins: str) -> Iterator[Mapping[str, Any]]:
    for path in sorted(folder.glob(f"{begins}*")):
        for document in yaml.safe_load_all(path.read_text()):
            if document and document.get("kind") == "CustomResourceDefinition":
                yield document
