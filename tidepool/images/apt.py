"""Asks the machine's mirror, through the machine's own apt, in folders that are apart from the machine's own state.

The mirror, its keys and its proxies are what the machine's apt is set to. They are copied into a private folder for
one run and removed with it.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, get_args

from tidepool.images.errors import BuildFailed, MirrorError, MirrorSilent
from tidepool.images.locked import LockedPackage
from tidepool.images.machine import Machine, run
from tidepool.images.recipe import Release
from tidepool.images.sources import sources_beside, sources_for, suites_in, suites_of
from tidepool.images.store import ImageStore

_UPDATE_S: Final = 300.0
_ASK_S: Final = 120.0
_DOWNLOAD_S: Final = 900.0

#: Of the machine's settings, those that act on the machine, name its folders, or fetch what nobody here reads.
_NOT_OURS: Final = re.compile(
    r'(?i)(dir|dir::.*|binary::.*|.*-invoke.*|acquire::indextargets::.*|commandline.*)\s"'
)
_INSTALL: Final = re.compile(r"Inst (?P<name>\S+) \((?P<version>\S+) .*\[(?P<architecture>\S+)\]\)")


@dataclass(frozen=True)
class Apt:
    """The machine's apt at work in a private folder, with the package lists of one release."""

    folder: Path
    machine: Machine
    log: Path

    def resolve(self, packages: Iterable[str]) -> tuple[LockedPackage, ...]:
        """Return the packages and Debian's essential ones, with all that they need, as apt would install them now.

        Raises:
            MirrorError: the mirror has no such package, or they cannot be together.
        """
        wanted = sorted(packages)
        try:
            said = self._apt(
                "apt-get", "--simulate", "--no-install-recommends", "install", "?essential", *wanted
            )
        except BuildFailed as error:
            reasons = [line[3:] for line in error.last_lines if line.startswith("E: ")]
            raise MirrorError(
                f"the mirror cannot give the recipe's packages: {'; '.join(reasons)}"
            ) from error
        chosen = {
            m["name"]: (m["version"], m["architecture"]) for m in map(_INSTALL.match, said.splitlines()) if m
        }
        offered = {(p.name, p.version, p.architecture): p for p in self.offered(chosen)}
        return tuple(sorted(offered[name, *rest] for name, rest in chosen.items()))

    def offered(self, names: Iterable[str]) -> tuple[LockedPackage, ...]:
        try:
            said = self._apt("apt-cache", "show", *sorted(names))
        except BuildFailed as error:
            if any("No packages found" in line for line in error.last_lines):
                return ()
            raise
        return tuple(_package(stanza) for stanza in said.split("\n\n") if re.match(r"Package: ", stanza))

    def download(
        self, packages: Sequence[LockedPackage], folder: Path, on_package: Callable[[int, str], None]
    ) -> None:
        """Fetch the packages into ``folder``; apt checks them against the signed lists.

        Raises:
            BuildFailed: the mirror does not give one of them.
        """
        seen = 0

        def read(line: str) -> None:
            nonlocal seen
            if match := re.match(r"Get:\d+ \S+ \S+ \S+ (\S+)", line):
                on_package(seen, match[1])
                seen += 1

        versions = [f"{package.name}={package.version}" for package in packages]
        self._apt("apt-get", "download", *versions, cwd=folder, timeout_s=_DOWNLOAD_S, on_line=read)

    def gone(self, packages: Sequence[LockedPackage]) -> tuple[str, ...]:
        """Return those of the packages that the mirror has no more with these bytes, each with what it has."""
        offered: dict[str, list[LockedPackage]] = {}
        for one in self.offered({package.name for package in packages}) if packages else ():
            offered.setdefault(one.name, []).append(one)
        wrong = []
        for package in packages:
            here = offered.get(package.name, [])
            if package in here:
                continue
            if any(one.version == package.version for one in here):
                wrong.append(f"{package.name} {package.version} (the mirror has it with other bytes)")
            else:
                versions = ", ".join(sorted({one.version for one in here})) or "no version"
                wrong.append(f"{package.name} {package.version} (the mirror has {versions})")
        return tuple(wrong)

    def refuse_what_is_gone(self, packages: Sequence[LockedPackage], name: str) -> None:
        """Raise MirrorError where the mirror has not got all of the packages of the image ``name``; names all such."""
        if wrong := self.gone(packages):
            raise MirrorError(
                "the lock asks for what the machine's mirror does not have any more:\n"
                + "".join(f"  {line}\n" for line in wrong)
                + f"Make the lock anew: `tidepool image lock {name}`, or set this machine's apt to a snapshot of the mirror "
                "that still has them."
            )

    def _apt(
        self,
        program: str,
        *arguments: str,
        timeout_s: float = _ASK_S,
        cwd: Path | None = None,
        on_line: Callable[[str], None] | None = None,
    ) -> str:
        return run(
            [program, "--yes", *arguments] if program == "apt-get" else [program, *arguments],
            what=f"{program} {next(a for a in arguments if not a.startswith('-'))}",
            log=self.log,
            environment={
                **self.machine.environment,
                "APT_CONFIG": str(self.folder / "apt.conf"),
                "DEBIAN_FRONTEND": "noninteractive",
                "LC_ALL": "C.UTF-8",
            },
            timeout_s=timeout_s,
            cwd=cwd,
            on_line=on_line,
            network=True,
        )


@contextmanager
def private_apt(
    machine: Machine,
    release: str,
    store: ImageStore,
    others: Mapping[Release, Sequence[str]] | None = None,
    *,
    log: Path | None = None,
) -> Iterator[Apt]:
    """Give an `Apt` with lists of ``release`` as they are now, in a folder of its own that is gone afterwards.

    The lists stay in ``store``, so that the next time only what is new is fetched; one process at a time has them.
    ``others`` are packages that are to be another release's; of its other ones, only what ``release`` has not is taken.
    ``log`` is one of ``store``'s where none is named.

    Raises:
        MirrorSilent: the machine has no package sources of a release of Debian, or its mirror does not answer.
    """
    others = others or {}
    all_files = machine.package_sources()
    chosen = [
        file
        for each in (release, *others)
        for file in sources_for(each, all_files) or sources_beside(each, get_args(Release), all_files)
    ]
    if not chosen:
        has = ", ".join(suites_in(all_files)) or "nothing"
        raise MirrorSilent(
            f"this machine's apt has no package sources of {release} (it has {has}): add its suites "
            f"{', '.join(suites_of(release))} below {machine.apt_folder}/sources.list.d, or change the recipe's release"
        )
    key = hashlib.sha256("\n".join(file.text for file in chosen).encode()).hexdigest()[:16]
    own_log = store.log(f"mirror-{key}") if log is None else log
    # Only its owner can look in: the settings may hold a proxy's password.
    with store.mirror(key) as lists, tempfile.TemporaryDirectory(prefix="tidepool-apt-") as name:
        folder = Path(name)
        for part in (
            folder / "state",
            folder / "sources",
            lists / "lists/partial",
            lists / "cache/archives/partial",
        ):
            part.mkdir(parents=True, exist_ok=True)
        (folder / "status").touch()
        for number, file in enumerate(chosen):
            (folder / "sources" / f"{number}.{file.form}").write_text(file.text)
        (folder / "preferences").write_text(_preferences(others))
        (folder / "apt.conf").write_text(_settings(machine, folder, lists))
        # It names the mirror.
        own_log.touch(0o600)
        apt = Apt(folder, machine, own_log)
        try:
            apt._apt("apt-get", "update", "--error-on=any", timeout_s=_UPDATE_S)
        except BuildFailed as error:
            raise MirrorSilent(
                f"the machine's mirror does not answer as it should. `apt-get update` mends it or says why.\n{error}"
            ) from error
        yield apt
    if log is None:
        own_log.unlink(missing_ok=True)


def _preferences(others: Mapping[Release, Sequence[str]]) -> str:
    """Return apt's preferences (apt_preferences(5)): the packages named of the other release, else the other least."""
    stanzas = []
    for release, names in others.items():
        suites = [f"Pin: release n={suite}" for suite in suites_of(release)]
        for words, priority in ((" ".join(names), 990), ("*", 100)):
            stanzas += [f"Package: {words}\n{pin}\nPin-Priority: {priority}\n" for pin in suites]
    return "\n".join(stanzas)


def _settings(machine: Machine, folder: Path, lists: Path) -> str:
    command = ["apt-config", "dump"]
    dump = subprocess.run(
        command,
        check=True,
        capture_output=True,
        text=True,
        timeout=30,
        env={**machine.environment, "LC_ALL": "C.UTF-8"},
    ).stdout
    theirs = [line for line in dump.splitlines() if not _NOT_OURS.match(line)]
    ours = {
        "Dir::State": f"{folder}/state",
        "Dir::State::status": f"{folder}/status",
        "Dir::State::lists": f"{lists}/lists",
        "Dir::Cache": f"{lists}/cache",
        "Dir::Etc::sourcelist": "/dev/null",
        "Dir::Etc::sourceparts": f"{folder}/sources",
        "Dir::Etc::main": "/dev/null",
        "Dir::Etc::parts": "/dev/null",
        "Dir::Etc::preferences": f"{folder}/preferences",
        "Dir::Etc::preferencesparts": "/dev/null",
        "Dir::Etc::trustedparts": f"{machine.apt_folder}/trusted.gpg.d",
        "Acquire::Languages": "none",
        # A release that becomes oldstable is the same release: sources name it by its own name.
        "Acquire::AllowReleaseInfoChange": "true",
        # The private folder is root's, and so is what is downloaded.
        "APT::Sandbox::User": "root",
    }
    return "\n".join([*theirs, *(f'{key} "{value}";' for key, value in ours.items()), ""])


def _package(stanza: str) -> LockedPackage:
    fields = dict(re.findall(r"(?m)^(Package|Version|Architecture|Size|SHA256): (.*)$", stanza))
    return LockedPackage(
        fields["Package"], fields["Version"], fields["Architecture"], int(fields["Size"]), fields["SHA256"]
    )
