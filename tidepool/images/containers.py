"""Container images that an image brings along, for machines that reach no registry: docker archives. Pure.

An archive is a tar of one layer, a configuration and a manifest; what is in a layer is a tar as well. The same
container has the same bytes wherever it is made.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, field_validator

#: Where a machine finds them: ``FOLDER/tidepool_pause_1.tar`` is tidepool/pause:1.
FOLDER: Final = "/usr/share/tidepool/containers"

_NAME: Final = re.compile(
    r"[a-z0-9]+([._-][a-z0-9]+)*(/[a-z0-9]+([._-][a-z0-9]+)*)*:[A-Za-z0-9_][A-Za-z0-9_.-]*"
)
_PATH: Final = re.compile(r"(/[^/\0\n]+)+")
#: Docker's words for the machines that Debian has others for.
_ARCHITECTURES: Final[Mapping[str, str]] = {"armhf": "arm", "i386": "386", "ppc64el": "ppc64le"}
#: Where a container looks for programs.
_SEARCH: Final = "PATH=/usr/sbin:/usr/bin:/sbin:/bin"


def is_plain(path: str) -> bool:
    """Return whether a path is absolute, without '.', '..' and a slash at its end."""
    return bool(_PATH.fullmatch(path)) and not {".", ".."} & set(path.split("/"))


class Container(BaseModel):
    """A container image: paths inside of it, and what they are."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    #: Programs of the toolchain, by path.
    tools: Mapping[str, str] = Field(default_factory=dict)
    #: Files of the image that brings it along, by path.
    files: Mapping[str, str] = Field(default_factory=dict)
    #: Of a file, the names that lead to it in its own folder.
    aliases: Mapping[str, Annotated[tuple[str, ...], Field(strict=False)]] = Field(default_factory=dict)
    #: What runs where a pod says nothing else.
    command: Annotated[tuple[str, ...], Field(strict=False, min_length=1)]

    @field_validator("tools", "files", "aliases")
    @classmethod
    def _paths(cls, places: Mapping[str, Any]) -> Mapping[str, Any]:
        for path in places:
            if not is_plain(path):
                raise ValueError(f"absolute paths without '.' and '..'; not {path!r}")
        return places

    @field_validator("aliases")
    @classmethod
    def _names(cls, aliases: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
        for name in (name for names in aliases.values() for name in names):
            if not _PATH.fullmatch(f"/{name}") or name in (".", ".."):
                raise ValueError(f"names without a folder; not {name!r}")
        return aliases


def refuse_names(containers: Mapping[str, Container]) -> None:
    """Raise ValueError where a name is none of a container image with a tag, such as tidepool/pause:1."""
    for name in containers:
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"names of lower-case letters with a tag, such as tidepool/pause:1; not {name!r}"
            )


def archive_path(name: str) -> str:
    """Return the path in an image of the archive of the container ``name``."""
    return f"{FOLDER}/{re.sub('[/:]', '_', name)}.tar"


def word_for(architecture: str) -> str:
    """Return the word of container images for the machines that Debian calls ``architecture``."""
    return _ARCHITECTURES.get(architecture, architecture)


def archive(
    name: str,
    container: Container,
    *,
    architecture: str,
    epoch: int,
    tool: Callable[[str], bytes],
    file: Callable[[str], bytes],
) -> bytes:
    """Return the container as a docker archive; ``name`` has its tag, all of it bears the time ``epoch`` (s since 1970).

    ``tool`` gives the bytes of a tool by its name, ``file`` those of a file by its path in the image.
    """
    contents: dict[str, bytes | str] = {path: tool(what) for path, what in container.tools.items()}
    contents |= {path: file(what) for path, what in container.files.items()}
    for path, names in container.aliases.items():
        target = PurePosixPath(path)
        contents |= {str(target.with_name(name)): target.name for name in names}
    layer = _tar(contents, epoch)
    configuration = image_configuration(
        architecture, epoch, {"Cmd": list(container.command)}, hashlib.sha256(layer).hexdigest(), "tidepool"
    )
    config_name = f"{hashlib.sha256(configuration).hexdigest()}.json"
    manifest = [{"Config": config_name, "RepoTags": [name], "Layers": ["layer.tar"]}]
    return _tar(
        {f"/{config_name}": configuration, "/layer.tar": layer, "/manifest.json": to_json(manifest)}, epoch
    )


def created(epoch: int) -> str:
    """Return a time in s since 1970 as container images have it."""
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def image_configuration(
    architecture: str, epoch: int, config: Mapping[str, Any], layer_sha256: str, made_by: str
) -> bytes:
    """Return the configuration of a container image of one layer; ``config`` is its command, and its labels."""
    return to_json(
        {
            "architecture": word_for(architecture),
            "os": "linux",
            "created": created(epoch),
            "config": {"Env": [_SEARCH], "WorkingDir": "/", **config},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_sha256}"]},
            "history": [{"created": created(epoch), "created_by": made_by}],
        }
    )


def to_json(value: Any) -> bytes:
    """Return the same bytes for the same value."""
    return json.dumps(value, sort_keys=True).encode()


def _tar(contents: Mapping[str, bytes | str], epoch: int) -> bytes:
    """Files (bytes) and symbolic links (text) of root's, with the folders on the way, in the order of their names."""
    folders = {str(folder) for path in contents for folder in PurePosixPath(path).parents} - {"/"}
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path in sorted(folders | contents.keys()):
            entry = tarfile.TarInfo(path.removeprefix("/"))
            entry.mtime, entry.mode = epoch, 0o755
            what = contents.get(path)
            if what is None:
                entry.type = tarfile.DIRTYPE
            elif isinstance(what, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, what
            else:
                entry.size = len(what)
            tar.addfile(entry, io.BytesIO(what) if isinstance(what, bytes) else None)
    return written.getvalue()
