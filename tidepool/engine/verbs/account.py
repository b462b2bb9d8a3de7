"""Pulumi's home: ``whoami``, ``login`` and ``logout`` choose the place of the state, ``plugin list`` lists provider plugins."""

from __future__ import annotations

import getpass
import json
import re
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tidepool.engine.errors import EngineError, NotSupportedError, UsageError
from tidepool.engine.project import ProjectNotFoundError, find_project
from tidepool.engine.request import World
from tidepool.engine.state import files
from tidepool.engine.state.backend import DiyBackend
from tidepool.engine.state.layout import backend_url
from tidepool.engine.verbs.showing import ago, json_document, table, time_text
from tidepool.engine.verbs.workspace import open_workspace

_SCHEMES = ("azblob", "gs", "s3", "file", "https", "http", "postgres")


def whoami(world: World, *, json: bool = False, verbose: bool = False) -> None:
    """Show the person's name and the backend."""
    url = open_workspace(world).url
    name = getpass.getuser()
    if json:
        world.stdout.write(json_document({"user": name, "url": url}))
    elif verbose:
        world.say(f"User: {name}\nOrganizations: \nBackend URL: {url}\nToken type: personal")
    else:
        world.say(name)


def login(world: World, *, url: str = "", cloud_url: str = "", local: bool = False) -> None:
    """Choose the place where state is kept, for all projects that name none."""
    url = _one_url(url, cloud_url, local) or _current(world)
    scheme = url.partition(":")[0]
    if scheme not in _SCHEMES:
        listed = ", ".join(f"{s}://" for s in _SCHEMES[:-1]) + f" and {_SCHEMES[-1]}://"
        raise UsageError(f"unknown backend cloudUrl format '{scheme}' (supported Url formats are: {listed})")
    if scheme in ("http", "https"):
        raise NotSupportedError(f"login to {scheme}:// (file://, s3:// and postgres:// are supported)")
    DiyBackend.from_url(url, world.home, world.cwd, world.env)
    other = world.env.get("PULUMI_BACKEND_URL")
    if other and other != url:
        world.tell(
            f"Warning: The PULUMI_BACKEND_URL environment variable is set to '{other}', which conflicts with "
            f"the login URL '{url}'."
        )
    path = _credentials_path(world)
    credentials = _read(path)
    accounts = {**(credentials.get("accounts") or {}), url: {"lastValidatedAt": "0001-01-01T00:00:00Z"}}
    tokens = {**(credentials.get("accessTokens") or {}), url: ""}
    _write(path, {**credentials, "current": url, "accessTokens": tokens, "accounts": accounts})
    world.say(f"Logged in to {socket.gethostname()} as {getpass.getuser()} ({url})")


def logout(
    world: World, *, url: str = "", cloud_url: str = "", local: bool = False, all: bool = False
) -> None:
    """Forget a backend."""
    if all and (url or cloud_url):
        raise UsageError("only one of --all, --cloud-url or argument URL may be specified, not both")
    path = _credentials_path(world)
    if all:
        files.remove(path)
        world.say("Logged out of everything")
        return
    url = _one_url(url, cloud_url, local) or _current(world)
    credentials = _read(path)
    for section in ("accessTokens", "accounts"):
        kept = {k: v for k, v in (credentials.get(section) or {}).items() if k != url}
        credentials = {**credentials, section: kept}
    if credentials.get("current") == url:
        credentials = {k: v for k, v in credentials.items() if k != "current"}
    if any(credentials.values()):
        _write(path, credentials)
    else:
        files.remove(path)
    world.say(f"Logged out of {url}")


def _one_url(argument: str, flag: str, local: bool) -> str:
    if argument and flag:
        raise UsageError("only one of --cloud-url or argument URL may be specified, not both")
    url = argument or flag
    if local and url:
        raise UsageError("a URL may not be specified when --local mode is enabled")
    return "file://~" if local else url


def _current(world: World) -> str:
    try:
        project = find_project(world.cwd)
    except ProjectNotFoundError:
        project = None
    return backend_url(world.env, project.backend_url if project else None)


def _credentials_path(world: World) -> Path:
    folder = world.env.get("PULUMI_CREDENTIALS_PATH")
    return (Path(folder) if folder else world.pulumi_home) / "credentials.json"


def _read(path: Path) -> dict[str, Any]:
    try:
        credentials = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise EngineError(
            f"failed to read the Pulumi credentials file {path}: {error}. Fix or delete it"
        ) from error
    return credentials if isinstance(credentials, dict) else {}


def _write(path: Path, credentials: dict[str, Any]) -> None:
    files.write(path, json.dumps(credentials, indent=4).encode())


_FOLDER = re.compile(r"(?P<kind>resource|language|analyzer|converter|tool)-(?P<name>.+?)-v(?P<version>\d.*)")


def list_plugins(world: World, *, json: bool = False) -> None:
    """List the installed plugins."""
    found = sorted(_plugins(world.pulumi_home / "plugins"), key=lambda p: (p["name"], p["version"]))
    if json:
        world.stdout.write(json_document([{k: v for k, v in p.items() if k != "moment"} for p in found]))
        return
    now = datetime.now(UTC)
    rows = [[p["name"], p["kind"], p["version"], _size(p["size"]), ago(p["moment"], now)] for p in found]
    world.stdout.write(table(["NAME", "KIND", "VERSION", "SIZE", "INSTALLED"], rows))
    world.say(f"\nTOTAL plugin cache size: {_size(sum(p['size'] for p in found))}")


def _plugins(folder: Path) -> list[dict[str, Any]]:
    found = []
    for path in folder.iterdir() if folder.is_dir() else ():
        match = _FOLDER.fullmatch(path.name)
        # A .partial file beside it says that its installation was cut off.
        if match is None or not path.is_dir() or path.with_name(path.name + ".partial").exists():
            continue
        moment = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        found.append(
            {
                "name": match["name"],
                "kind": match["kind"],
                "version": match["version"],
                "size": sum(f.stat().st_size for f in path.rglob("*") if f.is_file()),
                "installTime": time_text(moment),
                "lastUsedTime": time_text(moment),
                "moment": moment,
            }
        )
    return found


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
