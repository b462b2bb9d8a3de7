"""Go modules of ours in `toolchain/`, what is built from each, and the digest of all that decides; and what goes wrong."""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tidepool import shipped


@dataclass(frozen=True)
class Module:
    """A Go module of ours, and the programs that are made from it.

    Attributes:
        name: that of its folder; `make NAME` builds it.
        title: the name for people.
        folder: where its go.mod is.
        tools: each program's Go package; after a colon, a file that a module has ready.
        required: the module whose version is that of all the programs.
        stamps: variables that the linker sets, with ``{version}``, ``{major}`` and ``{minor}`` of it.
        stamped: the beginning of the packages that have those variables.
        tags: build tags, with commas between them.
        variable: names a folder that has the programs already; empty where there is no such variable.
        cost: the time and the room that building takes, for people.
    """

    name: str
    title: str
    folder: Path
    tools: Mapping[str, str]
    required: str
    stamps: Mapping[str, str]
    stamped: str
    tags: str = ""
    variable: str = ""
    cost: str = field(default="", compare=False)

    @property
    def remedy(self) -> str:
        return f"`make {self.name}` builds it ({self.cost})"


_VERSION_OF_KUBERNETES: Final = "k8s.io/component-base/version"
_PULUMI: Final = "github.com/pulumi/pulumi"

KUBERNETES: Final = Module(
    name="kubernetes",
    title="Kubernetes",
    folder=shipped.KUBERNETES,
    # Those that are not ours are tools of the module as well, which holds their versions.
    tools={
        "etcd": "go.etcd.io/etcd/server/v3",
        "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
        "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
        "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
        "kubelet": "k8s.io/kubernetes/cmd/kubelet",
        "pause": "./pause",
    },
    required="k8s.io/kubernetes",
    stamps={
        f"{_VERSION_OF_KUBERNETES}.gitVersion": "v{version}",
        f"{_VERSION_OF_KUBERNETES}.gitMajor": "{major}",
        f"{_VERSION_OF_KUBERNETES}.gitMinor": "{minor}",
    },
    stamped="k8s.io/",
    variable="TIDEPOOL_TOOLCHAIN",
    cost="about 6 minutes on two cores the first time, and some 4 GB of caches",
)

PULUMI: Final = Module(
    name="pulumi",
    title="Pulumi",
    folder=shipped.PULUMI,
    tools={
        "pulumi": f"{_PULUMI}/pkg/v3/cmd/pulumi",
        # Runs a program; and serves the dynamic providers of one.
        "pulumi-language-python-exec": f"{_PULUMI}/sdk/v3:python/cmd/pulumi-language-python-exec",
        "pulumi-resource-pulumi-python": f"{_PULUMI}/sdk/v3:python/dist/pulumi-resource-pulumi-python",
    },
    required=f"{_PULUMI}/pkg/v3",
    stamps={f"{_PULUMI}/sdk/v3/go/common/version.Version": "v{version}"},
    stamped=_PULUMI,
    cost="about 6 minutes on two cores the first time, and some 3 GB of caches",
)

NOMAD: Final = Module(
    name="nomad",
    title="Nomad",
    folder=shipped.NOMAD,
    tools={"nomad": "github.com/hashicorp/nomad"},
    required="github.com/hashicorp/nomad",
    stamps={},
    stamped="github.com/hashicorp/nomad",
    # One of the two libraries of metrics has to be named.
    tags="hashicorpmetrics",
    cost="about 6 minutes on two cores the first time, and some 4 GB of caches",
)

OBJECTSTORE: Final = Module(
    name="objectstore",
    title="The S3 server of the tests",
    folder=shipped.OBJECTSTORE,
    tools={"versitygw": "github.com/versity/versitygw/cmd/versitygw"},
    required="github.com/versity/versitygw",
    stamps={},
    stamped="github.com/versity/versitygw",
    cost="some 4 minutes on two cores the first time, and 1 GB of caches",
)

_VOLCANO: Final = "volcano.sh/volcano"
_VOLCANO_DEFINITIONS: Final = (
    "batch.volcano.sh_jobs",
    "bus.volcano.sh_commands",
    "nodeinfo.volcano.sh_numatopologies",
    "scheduling.volcano.sh_podgroups",
    "scheduling.volcano.sh_queues",
)

VOLCANO: Final = Module(
    name="volcano",
    title="Volcano",
    folder=shipped.VOLCANO,
    tools={
        "vc-scheduler": f"{_VOLCANO}/cmd/scheduler",
        "vc-controllers": f"{_VOLCANO}/cmd/controller-manager",
        # Definitions of its kinds of objects.
        **{
            f"{each}.yaml": f"{_VOLCANO}:config/crd/volcano/bases/{each}.yaml"
            for each in _VOLCANO_DEFINITIONS
        },
    },
    required=_VOLCANO,
    stamps={f"{_VOLCANO}/pkg/version.Version": "v{version}"},
    stamped=_VOLCANO,
    cost="7 minutes of a processor the first time, half of that on two cores",
)

_KUEUE: Final = "sigs.k8s.io/kueue"
_KUEUE_DEFINITIONS: Final = (
    "admissionchecks",
    "clusterqueues",
    "cohorts",
    "localqueues",
    "multikueueclusters",
    "multikueueconfigs",
    "provisioningrequestconfigs",
    "resourceflavors",
    "topologies",
    "workloadpriorityclasses",
    "workloads",
)

KUEUE: Final = Module(
    name="kueue",
    title="Kueue",
    folder=shipped.KUEUE,
    tools={
        "kueue": f"{_KUEUE}/cmd/kueue",
        **{
            f"{each}.yaml": f"{_KUEUE}:config/components/crd/bases/kueue.x-k8s.io_{each}.yaml"
            for each in _KUEUE_DEFINITIONS
        },
        "webhooks.yaml": f"{_KUEUE}:config/components/webhook/manifests.yaml",
    },
    required=_KUEUE,
    stamps={f"{_KUEUE}/pkg/version.GitVersion": "v{version}"},
    stamped=_KUEUE,
    cost="8 minutes of a processor the first time, half of that on two cores",
)

KWOK: Final = Module(
    name="kwok",
    title="kwok",
    folder=shipped.KWOK,
    tools={"kwok": "sigs.k8s.io/kwok/cmd/kwok"},
    required="sigs.k8s.io/kwok",
    stamps={"sigs.k8s.io/kwok/pkg/consts.Version": "v{version}"},
    stamped="sigs.k8s.io/kwok",
    cost="about 2 minutes on two cores the first time, and some 1 GB of caches",
)

#: By name.
MODULES: Final[Mapping[str, Module]] = {
    each.name: each for each in (KUBERNETES, VOLCANO, KUEUE, KWOK, PULUMI, NOMAD, OBJECTSTORE)
}

#: Raised by whoever changes what is built from the same sources.
_BUILDER: Final = 1


class ToolchainError(Exception):
    """Something about the toolchain is wrong. Its text, which ends with the remedy, is shown as it is, without a traceback."""

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(f"{what}: {remedy}" if remedy else what)
        self.what = what
        self.remedy = remedy


class ToolchainMissing(ToolchainError):
    """It is not built, or not whole."""


class CannotBuild(ToolchainError):
    """This machine lacks what it is built with: Go, or the modules."""


class BuildFailed(ToolchainError):
    """A build failed, or another one does not end."""


@dataclass(frozen=True)
class Source:
    """``digest``: 64 hexadecimal digits; ``version`` of the module, such as 1.36.3; ``go`` the oldest that builds it."""

    digest: str
    version: str
    go: tuple[int, int]


def read_source(module: Module = KUBERNETES) -> Source:
    """Read the module's files; takes about a millisecond.

    Raises:
        ToolchainMissing: there is no such folder.
        ToolchainError: it is no module that the programs can be built from.
    """
    folder = module.folder
    files = [folder / "go.mod", folder / "go.sum", *sorted(folder.rglob("*.go"))]
    try:
        digests = {
            str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files
        }
        written = files[0].read_text()
    except FileNotFoundError as error:
        elsewhere = f"; {module.variable} may name a folder that has them" if module.variable else ""
        raise ToolchainMissing(
            f"{error.filename} is not there, from which the tools are built{elsewhere}"
        ) from None
    version = re.search(rf"(?m)^\s*(?:require )?{re.escape(module.required)} v(\d+\.\d+\.\S+)", written)
    go = re.search(r"(?m)^go (\d+)\.(\d+)", written)
    if version is None or go is None:
        raise ToolchainError(f"{files[0]} requires no {module.required}, or names no version of Go")
    decides = {
        "builder": _BUILDER,
        "machine": platform.machine(),
        "tools": dict(module.tools),
        **({"tags": module.tags} if module.tags else {}),
        "files": digests,
    }
    digest = hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()
    return Source(digest, version[1], (int(go[1]), int(go[2])))
