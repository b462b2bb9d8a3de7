"""Builds the tools, once for each digest of their source: in a folder beside, then renamed, so that they are whole.

Of two builders the second waits, and takes what the first made. What Go fetched and compiled stays in its own caches,
as the machine's Go is configured: a build that was cut off goes on where it was.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from tidepool.toolchain.file_lock import StillHeld, file_lock
from tidepool.toolchain.source import (
    SOURCE,
    TOOLS,
    BuildFailed,
    CannotBuild,
    Source,
    ToolchainError,
    read_source,
)
from tidepool.toolchain.tools import MANIFEST, TOOLCHAIN, Toolchain, cache, find, lacking

#: Of one tool, the first of which compiles most of what the others are made of.
_TOOL_S: Final = 3600.0
_WAIT_S: Final = 7200.0
_LAST_LINES: Final = 15
_ASK_S: Final = 300.0
#: What Go says of a proxy that does not answer, or that has not got a module.
_NOT_FETCHED: Final = re.compile(
    r"dial tcp|no such host|i/o timeout|proxyconnect|connection re(fused|set)|TLS handshake|module lookup disabled|"
    r"reading \S+: \d{3} |unrecognized import path"
)

Say = Callable[[str], None]


def build(
    environment: Mapping[str, str], *, say: Say, source: Path = SOURCE, wait_s: float = _WAIT_S
) -> Toolchain:
    """Return the toolchain: from the cache where it is there, which takes milliseconds; else built.

    Args:
        environment: Go runs in it, and it says where the cache is.
        say: called with a line for each thing that is under way.
        source: the folder of the Go module.
        wait_s: how long another builder is waited for.

    Raises:
        CannotBuild: there is no Go, or one that is too old; the modules cannot be fetched.
        BuildFailed: a tool cannot be compiled; another builds for too long.
    """
    module = read_source(source)
    folder = cache(environment) / module.digest
    ours = {**environment, TOOLCHAIN: ""}
    if not lacking(folder):
        return find(ours, source)
    go = _go(environment, module)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        wait = partial(say, "another builds it; waiting for that")
        with file_lock(folder.with_suffix(".lock"), wait_s, wait) as descriptor:
            if lacking(folder):
                _build(go, module, folder, environment, say, descriptor)
    except StillHeld as error:
        raise BuildFailed(str(error)) from error
    except OSError as error:
        raise BuildFailed(
            f"{error.filename or folder}: {error.strerror}; XDG_CACHE_HOME names another cache"
        ) from error
    return find(ours, source)


@dataclass(frozen=True)
class _Go:
    program: str
    version: str


def _go(environment: Mapping[str, str], module: Source) -> _Go:
    wanted = ".".join(map(str, module.go))
    remedy = f"Kubernetes {module.kubernetes} is built with Go {wanted} or newer; install it, or put it first on PATH"
    program = shutil.which("go", path=environment.get("PATH"))
    if program is None:
        raise CannotBuild(f"there is no Go on PATH: {remedy}")
    # Asked within the module: where the machine's Go may fetch a newer one, it does.
    said = _run([program, "env", "GOVERSION"], module.folder, environment, _ASK_S)
    version = re.match(r"go(\d+)\.(\d+)", said.stdout)
    if said.returncode != 0 or version is None or (int(version[1]), int(version[2])) < module.go:
        raise CannotBuild(f"{program} says {(said.stderr or said.stdout).strip()}: {remedy}")
    return _Go(program, said.stdout.strip())


def _build(
    go: _Go, module: Source, folder: Path, environment: Mapping[str, str], say: Say, descriptor: int
) -> None:
    unfinished, log = folder.with_suffix(".partial"), folder.with_suffix(".log")
    for remains in (unfinished, folder):  # cut off; not whole, as tools were taken from it
        shutil.rmtree(remains, ignore_errors=True)
    unfinished.mkdir()
    log.unlink(missing_ok=True)
    began = time.monotonic()
    for number, (tool, package) in enumerate(TOOLS.items(), 1):
        say(f"building {tool} ({number} of {len(TOOLS)}, after {time.monotonic() - began:.0f} s)")
        command = [go.program, "build", "-trimpath", "-buildvcs=false", "-mod=readonly"]
        command += ["-ldflags", _ldflags(module, package), "-o", str(unfinished / tool), package]
        settings = {**environment, "CGO_ENABLED": "0"}
        done = _run(command, module.folder, settings, _TOOL_S, inherited=(descriptor,))
        with log.open("a") as file:
            file.write(done.stdout + done.stderr)
        if done.returncode != 0:
            shutil.rmtree(unfinished)
            raise _failure(tool, done.stderr, log)
    manifest = {"kubernetes": module.kubernetes, "go": go.version, "tools": list(TOOLS)}
    (unfinished / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
    os.sync()
    unfinished.rename(folder)
    log.unlink()
    say(f"Kubernetes {module.kubernetes} is built, in {time.monotonic() - began:.0f} s: {folder}")


def _ldflags(module: Source, package: str) -> str:
    flags = ["-s", "-w"]
    if package.startswith("k8s.io/"):
        major, minor, _ = module.kubernetes.split(".", 2)
        of = "k8s.io/component-base/version"
        flags += [
            f"-X {of}.gitVersion=v{module.kubernetes}",
            f"-X {of}.gitMajor={major}",
            f"-X {of}.gitMinor={minor}",
        ]
    return " ".join(flags)


def _run(
    command: Sequence[str],
    cwd: Path,
    environment: Mapping[str, str],
    timeout_s: float,
    *,
    inherited: Sequence[int] = (),
) -> subprocess.CompletedProcess[str]:
    """``inherited`` are descriptors that it keeps open: the lock is held as long as anything of a build lives."""
    try:
        return subprocess.run(
            command,
            cwd=cwd,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            pass_fds=inherited,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise BuildFailed(f"`{shlex.join(command)}` did not end within {timeout_s:.0f} s") from None


def _failure(tool: str, said: str, log: Path) -> ToolchainError:
    lines = [line.rstrip() for line in said.splitlines() if line.strip()]
    ending = f"All that was said is in {log}, which ends:" + "".join(
        f"\n  {line}" for line in lines[-_LAST_LINES:]
    )
    if _NOT_FETCHED.search(said):
        return CannotBuild(
            f"the modules of {tool} cannot be fetched: `go env GOPROXY` says from where, which has to answer. {ending}"
        )
    remedy = ""
    if "no space left" in said.lower():
        remedy = ": the disk is full, and it takes about 4 GB (`go env GOCACHE GOMODCACHE` says where)"
    elif "checksum mismatch" in said:
        remedy = (
            ": what was fetched are other bytes than go.sum has; ask whoever keeps this machine's Go proxy"
        )
    return BuildFailed(f"building {tool} failed{remedy}. {ending}")
