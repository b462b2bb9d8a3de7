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
    KUBERNETES,
    BuildFailed,
    CannotBuild,
    Module,
    Source,
    ToolchainError,
    read_source,
)
from tidepool.toolchain.tools import MANIFEST, Toolchain, built, cache, lacking

#: Of one tool, the first of which compiles most of what the others are made of.
_TOOL_S: Final = 3600.0
_WAIT_S: Final = 7200.0
_LAST_LINES: Final = 15
_ASK_S: Final = 300.0
#: How often is said that a tool is still being built.
_SAY_AGAIN_S: Final = 20.0
#: What Go says of a proxy that does not answer, or that has not got a module.
_NOT_FETCHED: Final = re.compile(
    r"dial tcp|no such host|i/o timeout|proxyconnect|connection re(fused|set)|TLS handshake|module lookup disabled|"
    r"reading \S+: \d{3} |unrecognized import path"
)

Say = Callable[[str], None]
Done = subprocess.CompletedProcess[str]


def build(
    environment: Mapping[str, str], module: Module = KUBERNETES, *, say: Say, wait_s: float = _WAIT_S
) -> Toolchain:
    """Return the toolchain: from the cache where it is there, which takes milliseconds; else built.

    Go runs in ``environment``, which says where the cache is. ``say`` is called with a line for each thing that is
    under way; another builder is waited for ``wait_s`` seconds.

    Raises:
        CannotBuild: there is no Go, or one that is too old; the modules cannot be fetched.
        BuildFailed: a tool cannot be compiled; another builds for too long.
    """
    source = read_source(module)
    folder = cache(environment) / source.digest
    if not lacking(folder, module):
        return built(environment, module)
    go = _go(environment, module, source)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        wait = partial(say, "another builds it; waiting for that")
        with file_lock(folder.with_suffix(".lock"), wait_s, wait) as descriptor:
            if lacking(folder, module):
                _Build(go, module, source, folder, environment, say, descriptor).run()
    except StillHeld as error:
        raise BuildFailed(str(error)) from error
    except OSError as error:
        raise BuildFailed(
            f"{error.filename or folder}: {error.strerror}; XDG_CACHE_HOME names another cache"
        ) from error
    return built(environment, module)


@dataclass(frozen=True)
class _Go:
    program: str
    version: str


def _go(environment: Mapping[str, str], module: Module, source: Source) -> _Go:
    wanted = ".".join(map(str, source.go))
    remedy = f"{module.title} {source.version} is built with Go {wanted} or newer; install it, or put it first on PATH"
    program = shutil.which("go", path=environment.get("PATH"))
    if program is None:
        raise CannotBuild(f"there is no Go on PATH: {remedy}")
    # Asked within the module: where the machine's Go may fetch a newer one, it does.
    said = _run([program, "env", "GOVERSION"], module.folder, environment, _ASK_S)
    version = re.match(r"go(\d+)\.(\d+)", said.stdout)
    if said.returncode != 0 or version is None or (int(version[1]), int(version[2])) < source.go:
        raise CannotBuild(f"{program} says {(said.stderr or said.stdout).strip()}: {remedy}")
    return _Go(program, said.stdout.strip())


@dataclass(frozen=True)
class _Build:
    """One build, into ``folder``. ``descriptor`` is the lock's: it is held as long as anything of the build lives."""

    go: _Go
    module: Module
    source: Source
    folder: Path
    environment: Mapping[str, str]
    say: Say
    descriptor: int

    def run(self) -> None:
        unfinished, log = self.folder.with_suffix(".partial"), self.folder.with_suffix(".log")
        for remains in (unfinished, self.folder):  # cut off; not whole, as tools were taken from it
            shutil.rmtree(remains, ignore_errors=True)
        unfinished.mkdir()
        log.unlink(missing_ok=True)
        began = time.monotonic()
        tools = self.module.tools
        for number, (tool, origin) in enumerate(tools.items(), 1):

            def tell(tool: str = tool, number: int = number) -> None:
                self.say(
                    f"building {tool} ({number} of {len(tools)}, after {time.monotonic() - began:.0f} s)"
                )

            tell()
            file = unfinished / tool
            done = self._copied(origin, file) if ":" in origin else self._compiled(origin, file, tell)
            with log.open("a") as kept:
                kept.write(done.stdout + done.stderr)
            if done.returncode != 0:
                shutil.rmtree(unfinished)
                raise _failure(tool, done.stderr, log)
        manifest = {self.module.name: self.source.version, "go": self.go.version, "tools": list(tools)}
        (unfinished / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
        os.sync()
        unfinished.rename(self.folder)
        log.unlink()
        took = time.monotonic() - began
        self.say(f"{self.module.title} {self.source.version} is built, in {took:.0f} s: {self.folder}")

    def _compiled(self, package: str, file: Path, tell: Callable[[], None]) -> Done:
        flags = ["-s", "-w"]
        if package.startswith(self.module.stamped):
            version = self.source.version
            major, minor, _ = version.split(".", 2)
            for variable, value in self.module.stamps.items():
                flags.append(f"-X {variable}={value.format(version=version, major=major, minor=minor)}")
        command = ["build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", " ".join(flags)]
        if self.module.tags:
            command += ["-tags", self.module.tags]
        return self._go([*command, "-o", str(file), package], tell)

    def _copied(self, origin: str, file: Path) -> Done:
        """Copy a file that a module of the build has: ``MODULE:PATH``."""
        required, _, path = origin.partition(":")
        found = self._go(["list", "-mod=readonly", "-m", "-f", "{{.Dir}}", required])
        if found.returncode == 0:
            shutil.copyfile(Path(found.stdout.strip()) / path, file)
            file.chmod(0o755)
        return found

    def _go(self, words: Sequence[str], tell: Callable[[], None] | None = None) -> Done:
        settings = {**self.environment, "CGO_ENABLED": "0"}
        command = [self.go.program, *words]
        return _run(command, self.module.folder, settings, _TOOL_S, inherited=(self.descriptor,), tell=tell)


def _run(
    command: Sequence[str],
    cwd: Path,
    environment: Mapping[str, str],
    timeout_s: float,
    *,
    inherited: Sequence[int] = (),
    tell: Callable[[], None] | None = None,
) -> Done:
    """Run a command to its end. ``inherited`` are descriptors that it keeps open; ``tell`` is called now and then."""
    deadline = time.monotonic() + timeout_s
    with subprocess.Popen(
        command,
        cwd=cwd,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        pass_fds=inherited,
    ) as process:
        while True:
            try:
                stdout, stderr = process.communicate(timeout=_SAY_AGAIN_S)
                return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)
            except subprocess.TimeoutExpired:
                if time.monotonic() > deadline:
                    process.kill()
                    raise BuildFailed(
                        f"`{shlex.join(command)}` did not end within {timeout_s:.0f} s"
                    ) from None
                if tell is not None:
                    tell()
            except BaseException:
                process.kill()
                raise


def _failure(tool: str, said: str, log: Path) -> ToolchainError:
    lines = [line.rstrip() for line in said.splitlines() if line.strip()]
    ending = f"All that was said is in {log}, which ends:" + "".join(
        f"\n  {line}" for line in lines[-_LAST_LINES:]
    )
    if _NOT_FETCHED.search(said):
        return CannotBuild(
            f"the modules of {tool} cannot be fetched: `go env GOPROXY` says from where, which has to answer; the next try goes on from what is "
            f"there. {ending}"
        )
    remedy = ""
    if "no space left" in said.lower():
        remedy = ": the disk is full, and it takes about 4 GB (`go env GOCACHE GOMODCACHE` says where)"
    elif "checksum mismatch" in said:
        remedy = (
            ": what was fetched are other bytes than go.sum has; ask whoever keeps this machine's Go proxy"
        )
    return BuildFailed(f"building {tool} failed{remedy}. {ending}")
