"""`doctor`: what this machine lacks, and the command that mends it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from tidepool.cli import errors, show
from tidepool.cli.context import Context
from tidepool.cli.errors import Failure
from tidepool.cli.options import json_option, perhaps_stack_options
from tidepool.cli.remote_infrastructure import Named, unnamed
from tidepool.cli.stack import Stack
from tidepool.cli.stack_spec import installed, package_lacks_of
from tidepool.cluster.failures import InfrastructureError, Permanent
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_reading import SpecError
from tidepool.infrastructures.finding import Finding
from tidepool.infrastructures.registry import checks_of, descriptor
from tidepool.infrastructures.several import Answer

#: What is run on this machine, with the Debian package that has it, and what for. `make setup` installs them.
COMMANDS: Final = (
    ("gcc", "gcc", "compiles the first process of machines"),
    ("ip", "iproute2", "cables machines"),
    ("nsenter", "util-linux", "enters machines' networks"),
    ("mmdebstrap", "mmdebstrap", "builds images"),
    ("mke2fs", "e2fsprogs", "writes images as ext4"),
    ("ssh", "openssh-client", "`tidepool ssh`"),
)
_SETUP: Final = "`make setup` installs it (or: apt-get install {})"
_FULL_MIB: Final = 2048
_VERSION_S: Final = 20.0
#: With less room than for so many, a word is said.
_FEW_KUBELETS: Final = 8


@click.command("doctor")
@json_option
@perhaps_stack_options
def doctor_verb(context: Context, stack: Stack | Failure, as_json: bool) -> int:
    """Say what this machine lacks, and what mends it.

    Also looks at the data folder, the engine, the virtual environment, the package mirror and Kubernetes. Of a stack, at
    the infrastructures that it names: packages, plugins, whether they answer, and have what is asked of them. The exit
    code is 4 where something is missing without which nothing works.
    """
    findings = [*examine(context), *examine_stack(stack)]
    if as_json:
        show.emit(show.document(findings))
    else:
        styles = {"well": "green", "note": "yellow", "lacks": "bold red"}
        rows = [((f.state, styles[f.state]), f.what, f.detail, f.remedy) for f in findings]
        title = f"this machine, and stack {stack.name}" if isinstance(stack, Stack) else "this machine"
        show.show(show.table(title, ["", "what", "is", "remedy"], rows))
    return errors.LACKS if any(f.state == "lacks" for f in findings) else errors.OK


def examine(context: Context) -> Iterator[Finding]:
    """Yield the findings about this machine, in order."""
    yield from _commands(context)
    yield from _kernel(context)
    yield from _confinement()
    yield _data_folder(context.data)
    yield _engine(context)
    yield _pulumi(context)
    yield _environment()
    yield _mirror(context)
    yield _kubernetes(context)
    yield _kubelets()


def examine_stack(stack: Stack | Failure) -> Iterator[Finding]:
    """Look at each infrastructure of ``stack``; say so where it is not known which stack is meant."""
    if isinstance(stack, Failure):
        yield Finding(
            "infrastructures", "note", f"not looked at, for none is named: {stack.what}", stack.remedy
        )
        return
    from tidepool.cli.homes import home_findings
    from tidepool.cli.remote_infrastructure import named_infrastructures
    from tidepool.cli.stack_spec import described_spec
    from tidepool.engine.errors import EngineError

    try:
        described_spec(stack)
    except (Failure, EngineError) as error:
        yield Finding("spec", "lacks", str(error), getattr(error, "remedy", ""))
    try:
        outputs = stack.outputs() if stack.may_have_state else None
        named = named_infrastructures(stack, outputs)
    except (Failure, EngineError) as error:
        yield Finding("state", "lacks", str(error), getattr(error, "remedy", ""))
        return
    yield from fitness(stack, named)
    yield from home_findings(stack, outputs)


def _commands(context: Context) -> Iterator[Finding]:
    path = context.env.get("PATH")
    for command, package, purpose in COMMANDS:
        found = shutil.which(command, path=path)
        if found:
            yield Finding(command, "well", found)
        else:
            yield Finding(command, "lacks", f"not on PATH; {purpose}", _SETUP.format(package))


def _kernel(context: Context) -> Iterator[Finding]:
    from tidepool.infrastructures.local.kernel import preflight

    if os.geteuid() != 0:
        # The rest cannot be tried without it.
        yield Finding(
            "root", "lacks", f"this is user {os.geteuid()}; machines are made by root", "sudo tidepool doctor"
        )
        return
    lacks = preflight(context.data)
    for lack in lacks:
        yield Finding("machines", "lacks" if lack.fatal else "note", lack.what, lack.remedy)
    if not any(lack.fatal for lack in lacks):
        yield Finding(
            "machines", "well", "namespaces, overlay, control groups and cables were tried, and work"
        )


def _confinement() -> Iterator[Finding]:
    from tidepool.infrastructures.local.kernel import unheld, version

    lacks = unheld()
    yield from (Finding("confinement", "note", lack.what, lack.remedy) for lack in lacks)
    if not lacks:
        told = "jobs hold to their memory, processors and devices, by control groups of version"
        yield Finding("confinement", "well", f"{told} {version()}")


def _data_folder(data: Path) -> Finding:
    there = next(folder for folder in (data, *data.parents) if folder.exists())
    kind = _file_system(there, Path("/proc/self/mountinfo").read_text())
    free_mib = shutil.disk_usage(there).free >> 20
    detail = f"{data} on {kind}, {free_mib} MiB free"
    if kind == "overlay":
        remedy = "name a folder on ext4, xfs, btrfs or tmpfs by TIDEPOOL_DATA"
        return Finding("data folder", "lacks", detail, remedy)
    if not os.access(there, os.W_OK):
        return Finding("data folder", "lacks", f"{detail}; it may not be written", "run it with sudo")
    if free_mib < _FULL_MIB:
        return Finding("data folder", "note", detail, "free some space: an image takes about 1 GiB")
    return Finding("data folder", "well", detail)


def _file_system(folder: Path, mountinfo: str) -> str:
    """The kind of file system that ``folder`` is on: ext4, overlay, ..."""
    resolved = folder.resolve()
    kinds: dict[Path, str] = {}
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        # Later mounts lie over earlier ones; spaces are written as octal.
        kinds[Path(before.split()[4].replace("\\040", " "))] = after.split()[0]
    return next((kinds[each] for each in (resolved, *resolved.parents) if each in kinds), "unknown")


def _engine(context: Context) -> Finding:
    from tidepool.engine.choice import chosen_engine
    from tidepool.engine.errors import EngineError

    try:
        name = chosen_engine(context.env)
    except EngineError as error:
        remedy = "unset TIDEPOOL_ENGINE" if context.env.get("TIDEPOOL_ENGINE") else "TIDEPOOL_ENGINE=embedded"
        return Finding("engine", "lacks", str(error), remedy)
    return Finding("engine", "well", name)


def _pulumi(context: Context) -> Finding:
    from tidepool.engine.choice import find_cli, pulumi_cli
    from tidepool.engine.errors import EngineError
    from tidepool.toolchain import PULUMI, read_source

    if find_cli(context.env) is None:
        return Finding("Pulumi CLI", "note", "not there; the embedded engine does without it", PULUMI.remedy)
    try:
        program = pulumi_cli(context.env)
    except EngineError as error:
        return Finding("Pulumi CLI", "note", str(error), "`make pulumi`")
    version = _version_of(program, context)
    if version is None:
        return Finding("Pulumi CLI", "note", f"{program} does not say its version", "`make pulumi`")
    detail, tested = f"{'.'.join(map(str, version))}, {program}", read_source(PULUMI).version
    ours = tuple(map(int, tested.split(".")))
    if version < ours or version[0] > ours[0]:
        age = "older" if version < ours else "newer"
        told = f"{detail}: {age} than {tested}, with which this release is tested"
        return Finding("Pulumi CLI", "note", told, f"take it off PATH; {PULUMI.remedy}")
    return Finding("Pulumi CLI", "well", detail)


def _version_of(program: Path, context: Context) -> tuple[int, ...] | None:
    env = {**context.env, "PULUMI_SKIP_UPDATE_CHECK": "true"}
    try:
        done = subprocess.run(
            [program, "version"], env=env, capture_output=True, text=True, timeout=_VERSION_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.match(r"v?(\d+)\.(\d+)\.(\d+)", done.stdout)
    return tuple(map(int, found.groups())) if found else None


def _environment() -> Finding:
    root = Path(__file__).parents[2]
    stamp = root / ".venv" / ".setup-all"
    if not (root / "Makefile").exists():
        return Finding("Python", "well", f"{sys.prefix}, installed as a package")
    venv = root / ".venv"
    if not (venv.exists() and Path(sys.prefix).samefile(venv)):
        remedy = "`make setup`, then .venv/bin/tidepool"
        return Finding("Python", "note", f"{sys.prefix}, and not {venv}", remedy)
    if not stamp.exists():
        return Finding("Python", "lacks", f"{venv} was not made to its end", "`make setup`")
    made = stamp.stat().st_mtime
    sources = [root / name for name in ("pyproject.toml", "requirements.txt")]
    newer = [path.name for path in sources if path.exists() and path.stat().st_mtime > made]
    if newer:
        return Finding("Python", "note", f"{', '.join(newer)} changed since .venv was made", "`make setup`")
    return Finding("Python", "well", str(sys.prefix))


def _mirror(context: Context) -> Finding:
    from tidepool.images.machine import Machine

    if sources := Machine(dict(context.env)).package_sources():
        return Finding("package mirror", "well", f"{len(sources)} files of package sources")
    remedy = "write /etc/apt/sources.list, then apt-get update"
    return Finding(
        "package mirror", "lacks", "apt has no package sources, from which images are built", remedy
    )


def _kubernetes(context: Context) -> Finding:
    from tidepool.toolchain import ToolchainError, find

    try:
        tools = find(context.env)
    except ToolchainError as error:
        return Finding("Kubernetes", "note", f"{error.what}; only converged pools need it", error.remedy)
    return Finding("Kubernetes", "well", f"{tools.version or 'of another build'}, {tools.folder}")


def _kubelets() -> Finding:
    from tidepool.infrastructures.local.kernel import kubelets_at_most

    room = kubelets_at_most()
    detail = f"room for {room} machines of converged pools, by fs.inotify.max_user_instances"
    if room < _FEW_KUBELETS:
        return Finding("kubelets", "note", detail, "sysctl -w fs.inotify.max_user_instances=1024")
    return Finding("kubelets", "well", detail)


#: Time-outs of what is asked are shorter, one by one.
_PATIENCE_S: Final = 60.0


def fitness(stack: Stack, named: Named, patience_s: float = _PATIENCE_S) -> Iterator[Finding]:
    """Yield the findings of each infrastructure. All are asked at the same time; one that does not answer holds up no other."""
    answers = {
        name: Answer(lambda name=name, spec=spec: tuple(_checks(stack, name, spec)))  # type: ignore[misc]
        for name, spec in named.items()
    }
    for name, answer in answers.items():
        yield from _packages(name, stack)
        yield from _deletion(name)
        try:
            yield from answer.wait(patience_s)
        except (InfrastructureError, SpecError, OSError) as error:
            yield Finding(name, "lacks", str(error), _page(name))


def _checks(stack: Stack, name: str, spec: ClusterSpec | None) -> Iterator[Finding]:
    if spec is None:
        yield Finding(name, "lacks", unnamed(name), _page(name))
        return
    for found in checks_of(name, spec, stack.name, stack.data):
        # They end with what mends them, as a preview tells it.
        remedy = "" if found.state == "well" else found.remedy or _page(name)
        yield Finding(found.what, found.state, found.detail, remedy)


def _packages(name: str, stack: Stack) -> Iterator[Finding]:
    """The Python package that programs need, and its plugin."""
    try:
        package = descriptor(name).package
    except Permanent:
        return  # its checks say so
    if package is None:
        return
    if lacks := tuple(package_lacks_of(name, stack)):
        yield from (Finding(package.name, "lacks", lack.what, lack.remedy) for lack in lacks)
        return
    there = installed(package.name)
    if there and there != package.version:
        told = f"{there}, and this release is tested with {package.version}"
        yield Finding(package.name, "note", told, package.install)
    else:
        plugin = ", with its plugin" if package.plugin else ""
        yield Finding(package.name, "well", f"{package.version}{plugin}")


def _deletion(name: str) -> Iterator[Finding]:
    """Say what somebody who deletes a machine there takes with it. On this machine, only root could."""
    try:
        known = descriptor(name)
    except Permanent:
        return  # its checks say so
    if not known.checks:
        return
    what = f"deletions of machines of {name}"
    if known.objects:
        yield Finding(what, "well", known.objects)
    else:
        told = "nothing objects where somebody else deletes one, and what runs on it ends: Slurm queues its jobs anew"
        yield Finding(what, "note", told, "let few have the right to")


def _page(name: str) -> str:
    return f"see docs/infrastructures/{name}.md"
