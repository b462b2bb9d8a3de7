"""Hosts are spoken to by `virsh`: this is the one place that runs it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from tidepool.infrastructures.libvirt.capabilities import Host, read_host
from tidepool.infrastructures.libvirt.errors import LibvirtError

#: Over SSH to a host that is busy, it is seconds. A domain that does not end by itself is killed after 15.
_ANSWER_S: Final = 30.0

#: What the provider's plugin runs on the machine that it is on, and what has it.
_TOOLS: Final = {
    "virsh": ("libvirt-clients", "asks hosts what they have"),
    "xsltproc": ("xsltproc", "writes what the package has no field for"),
    "mkisofs": ("genisoimage", "writes seeds"),
}


@dataclass(frozen=True, slots=True)
class Said:
    """Result of a call of `virsh`."""

    code: int
    stdout: str
    stderr: str = ""


class Virsh(Protocol):
    """Runs a verb of `virsh` on the host of a URI. A single word may be several commands, with semicolons between."""

    def __call__(self, uri: str, *words: str, stdin: str = "") -> Said:
        """Run it, and return its output.

        Raises:
            LibvirtError: it could not be run, or did not answer.
        """
        ...


def tools_missing(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Return the tools that are not on PATH, each with the command that installs it."""
    path = environment.get("PATH")
    return tuple(
        f"{tool} is not on PATH of this machine, which {purpose}; run: apt-get install {package}"
        for tool, (package, purpose) in _TOOLS.items()
        if shutil.which(tool, path=path) is None
    )


def ask(uri: str) -> Host:
    """Ask what the host of that URI has.

    Raises:
        LibvirtError: it cannot be asked; says why, and the remedy.
    """
    asked = ("capabilities",), ("nodeinfo",), ("nodedev-list", "--cap", "pci")
    return read_host(*(output_of(virsh, uri, "--readonly", *words) for words in asked))


def output_of(run: Virsh, uri: str, *words: str, stdin: str = "") -> str:
    """Return the output of `virsh`, where it did what it was told.

    Raises:
        LibvirtError: it did not; with its own words, and how to try it by hand.
    """
    said = run(uri, *words, stdin=stdin)
    if said.code != 0:
        told = " ".join(said.stderr.split()) or f"virsh ended with {said.code}"
        raise LibvirtError(f"{uri} cannot be asked: {told}; {_by_hand(uri, words)}")
    return said.stdout


def virsh(uri: str, *words: str, stdin: str = "") -> Said:
    """The one that is installed: `Virsh`."""
    try:
        said = subprocess.run(
            ["virsh", "--quiet", "--connect", uri, *words],  # noqa: S607 - it is the one on PATH
            input=stdin,
            capture_output=True,
            text=True,
            timeout=_ANSWER_S,
            check=False,
            # Its words are read.
            env={**os.environ, "LC_ALL": "C.UTF-8"},
        )
    except FileNotFoundError:
        raise LibvirtError(
            "virsh is not on PATH of this machine; run: apt-get install libvirt-clients"
        ) from None
    except subprocess.TimeoutExpired:
        raise LibvirtError(f"{uri} does not answer within {_ANSWER_S:g} s; {_by_hand(uri, words)}") from None
    return Said(said.returncode, said.stdout, said.stderr)


def _by_hand(uri: str, words: tuple[str, ...]) -> str:
    return f"try it by hand: virsh --connect {uri} {' '.join(words)}"
