"""`sudoers`: the rules by which sudo lets one group of this machine administrate the cluster, and another look and drain."""

from __future__ import annotations

import grp
import os
import re
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import click

import tidepool
from tidepool.cli import show
from tidepool.cli.errors import LACKS, USAGE, Failure
from tidepool.cli.operator import PROGRAM
from tidepool.cli.options import json_option, stack_options
from tidepool.cli.passphrase import VARIABLE as PASSPHRASE_URL
from tidepool.cli.stack import Stack
from tidepool.engine.state import files

RULES: Final = Path("/etc/sudoers.d/tidepool")
SCRIPT: Final = Path("/usr/local/sbin") / PROGRAM
#: What operators' calls are told of this person's environment. Credentials are no part of it: root's own are used.
_SETTINGS: Final = (
    "TIDEPOOL_DATA",
    "TIDEPOOL_IMAGES",
    "TIDEPOOL_JOURNAL",
    "TIDEPOOL_ENGINE",
    "PULUMI_BACKEND_URL",
    "PULUMI_CONFIG_PASSPHRASE_FILE",
    PASSPHRASE_URL,
)
#: What sudo hands on of administrators' environment beside these: variables that documentation names, and none that Python, the
#: shell or the loader read.
_KEPT: Final = (
    *("TIDEPOOL_STACK", "TIDEPOOL_TOOLCHAIN", "NO_COLOR"),
    *("PULUMI_CONFIG_PASSPHRASE", "PULUMI_STACK", "PULUMI_HOME", "PULUMI_CREDENTIALS_PATH"),
    # How state is written, which others read.
    *("PULUMI_DIY_BACKEND_GZIP", "PULUMI_DIY_BACKEND_RETAIN_CHECKPOINTS", "PULUMI_DIY_BACKEND_DISABLE_CHECKPOINT_BACKUPS"),
    *("PULUMI_SKIP_CONFIRMATIONS", "PULUMI_CONTINUE_ON_ERROR", "PULUMI_RUN_PROGRAM", "PULUMI_PARALLEL"),
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"),
    *("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "AWS_CA_BUNDLE"),
    *("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"),
    *("PGPASSWORD", "PGPASSFILE", "PGSSLMODE", "NOMAD_TOKEN"),
)  # fmt: skip
#: So many paths of a tree are named, and others counted.
_SHOWN: Final = 3
#: As the kernel's.
_MOST_LINKS: Final = 40
#: uv's lock of an environment, which all may lock.
_LOCK: Final = "/.lock"
_GROUP: Final = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_PATH: Final = re.compile(r"[A-Za-z0-9/._+-]+")


@click.command("sudoers")
@click.option("--admins", default="tidepool-admins", show_default=True, help="The group that may do all.")
@click.option(
    "--operators", default="tidepool-operators", show_default=True, help="The group that may look and drain."
)
@click.option("--nopasswd", is_flag=True, help="Have sudo ask for no password.")
@click.option("--print", "only_print", is_flag=True, help="Print what would be written, and write nothing.")
@json_option
@stack_options
def sudoers_verb(
    stack: Stack, admins: str, operators: str, nopasswd: bool, only_print: bool, as_json: bool
) -> None:
    """Write sudo's rules: who administrates, and who looks and drains.

    One group may do all with this project's clusters, another looks at them and takes nodes out of service. Both groups have to be there. The rules are checked by visudo before they are written; --print shows them.
    """
    program = Path(sys.prefix) / "bin" / "tidepool"
    settings = {name: stack.context.env[name] for name in _SETTINGS if stack.context.env.get(name)}
    rules = sudo_rules(program, admins, operators, nopasswd=nopasswd)
    script = operator_script(Path(sys.prefix) / "bin" / "python", stack.project.root, settings, admins)
    if only_print and not as_json:
        show.say(f"# {RULES}\n{rules}\n# {SCRIPT}\n{script}".rstrip())
        return
    if not only_print:
        mistakes = [
            *_wrong_groups(admins, operators),
            *_wrong_settings(settings),
            *_trusted(program, stack.project.root),
        ]
        if mistakes:
            raise Failure("\n".join(mistakes), code=USAGE)
        stack.require_root()
        _write(rules, script)
    if as_json:
        show.emit({"files": {str(RULES): rules, str(SCRIPT): script}, "written": not only_print})
    else:
        show.say(f"{RULES}: {admins} may run {program.name}, {operators} {PROGRAM}, both by sudo")
        show.say(
            f"{SCRIPT}: on {stack.project.root}, with {', '.join(settings) or 'no settings of their own'}"
        )


def sudo_rules(program: Path, admins: str, operators: str, *, nopasswd: bool = False) -> str:
    """Return the file of rules. Arguments need none: the operators' program refuses what is not theirs."""
    tags = f"NOSETENV: {'NOPASSWD: ' if nopasswd else ''}"
    return (
        "# Written by `tidepool sudoers`, which writes it anew. Administrators run programs of their project as root: they are\n"
        "# root's equals. Operators have a program that refuses what is not theirs, and looks at nothing of the caller's.\n"
        f"Cmnd_Alias TIDEPOOL = {program}\n"
        f"Cmnd_Alias TIDEPOOL_OPERATOR = {SCRIPT}\n"
        "Defaults!TIDEPOOL,TIDEPOOL_OPERATOR env_reset\n"
        f'Defaults!TIDEPOOL env_keep += "{" ".join((*_SETTINGS, *_KEPT))}"\n'
        f"%{admins} ALL = (root) {tags}TIDEPOOL, TIDEPOOL_OPERATOR\n"
        f"%{operators} ALL = (root) {tags}TIDEPOOL_OPERATOR\n"
    )


def operator_script(python: Path, project: Path, settings: Mapping[str, str], admins: str) -> str:
    """Return the program of operators: isolated from the caller's variables and folder, with all that it goes by in it."""
    return (
        f"#!{python} -I\n"
        "# Written by `tidepool sudoers`, which writes it anew.\n"
        "from tidepool.cli.operator import main\n"
        "\n"
        f"main({str(project)!r}, {dict(settings)!r}, {admins!r})\n"
    )


def _wrong_groups(*names: str) -> Iterator[str]:
    for name in names:
        if not _GROUP.fullmatch(name):
            yield f"{name!r} is no name of a group; lower-case letters, digits, - and _ are allowed"
            continue
        try:
            grp.getgrnam(name)
        except KeyError:
            yield f"there is no group {name}; make it: groupadd --system {name}, then usermod -aG {name} PERSON"
    if len(set(names)) != len(names):
        yield f"administrators and operators are one group, {names[0]}; name two"


def _wrong_settings(settings: Mapping[str, str]) -> Iterator[str]:
    for name, value in settings.items():
        if urlsplit(value).password or "password=" in value:
            yield f"{name} has a password in it, which all could read in {SCRIPT}; give it by PGPASSFILE or root's ~/.pgpass"


def _trusted(program: Path, project: Path) -> Iterator[str]:
    """Say of what is run as root, or read by it, what others may change: who can could do all."""
    for path in (program, project):
        if not _PATH.fullmatch(str(path)):
            yield f"{path} cannot be in sudo's rules; letters, digits and ._+- are allowed in it"
    package = Path(tidepool.__path__[0])
    # In a clone the package has links to what a wheel has copies of.
    linked = (
        each for folder in (package, package / "shipped") for each in folder.iterdir() if each.is_symlink()
    )
    trees = (Path(sys.prefix), Path(sysconfig.get_path("stdlib")), package, *sorted(linked), project)
    yield from open_to_others((program, Path(sys.executable)), trees)


def open_to_others(paths: Iterable[Path], trees: Iterable[Path]) -> Iterator[str]:
    """Say what others than root may change of what leads to ``paths`` and ``trees``, and is in these."""
    trees = tuple(trees)
    passed = dict.fromkeys(str(each) for path in (*paths, *trees) for each in _way(path))
    told = [said for each in passed if (said := _is_open(each))]
    yield from told
    tops = dict.fromkeys(str(each.resolve()) for each in trees)
    for tree in tops:
        wrong = [
            said
            for each in (tree, *_entries_below(tree, tops))
            if (said := _is_open(each, is_within=True)) and said not in told
        ]
        yield from wrong[:_SHOWN]
        if len(wrong) > _SHOWN:
            yield f"so are {len(wrong) - _SHOWN} more in {tree}; chown -hR root {tree} && chmod -R go-w {tree}"


def _way(path: Path) -> Iterator[Path]:
    """Yield all that is passed on the way to ``path``: each folder, each link with the way to where it leads, and what is there."""
    left, at, links = [*reversed(path.parts)], Path(), 0
    while left:
        part = left.pop()
        at = at.parent if part == ".." else at / part
        yield at
        if at.is_symlink() and links < _MOST_LINKS:
            links += 1
            left += reversed(at.readlink().parts)
            at = at.parent


def _entries_below(tree: str, others: Collection[str]) -> Iterator[str]:
    """Yield what is in a tree, without ``others`` in it, which are looked at by themselves."""
    with os.scandir(tree) as entries:
        for entry in entries:
            if entry.path not in others:
                yield entry.path
                if entry.is_dir(follow_symlinks=False):
                    yield from _entries_below(entry.path, others)


def _is_open(path: str, *, is_within: bool = False) -> str:
    """Say why others than root may change a path, else nothing. In a folder ``is_within`` what is read they may not add anything, either."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return ""
    if found.st_uid != 0:
        return f"{path} is not root's, and what is run as root depends on it; chown -h root {path}"
    may_write = found.st_mode & 0o022 and not stat.S_ISLNK(found.st_mode)
    if may_write and (is_within or not found.st_mode & stat.S_ISVTX) and not path.endswith(_LOCK):
        return f"{path} may be written by others than root, and what is run as root depends on it; chmod go-w {path}"
    return ""


def _write(rules: str, script: str) -> None:
    visudo = shutil.which("visudo", path="/usr/sbin:/usr/bin")
    if visudo is None or not RULES.parent.is_dir():
        raise Failure("there is no sudo on this machine", remedy="apt-get install sudo", code=LACKS)
    with tempfile.NamedTemporaryFile("w", prefix="sudoers-") as made:
        made.write(rules)
        made.flush()
        checked = subprocess.run(
            [visudo, "--check", "--strict", "--file", made.name], capture_output=True, text=True, check=False
        )
    if checked.returncode:
        raise Failure(f"visudo refuses the rules: {(checked.stderr or checked.stdout).strip()}")
    # The rules come last: until then there is nothing that they allow.
    files.write(SCRIPT, script.encode(), mode=0o755)
    SCRIPT.chmod(0o755)
    files.write(RULES, rules.encode(), mode=0o440)
    RULES.chmod(0o440)
