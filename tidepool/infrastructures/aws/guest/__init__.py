"""Programs that machines run, brought there as text and imported by tests alone; and user data, by which the first one comes.

No secret is in user data, as whoever is on the machine can read it.

What it is for is the value of a secret of Secrets Manager, which the machine's role may read, and no other.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Final

from tidepool.cluster.boot import cloud_config

#: What EC2 takes, before it is made base64.
MOST_BYTES: Final = 16 * 1024
#: What a secret holds at most.
MOST_SECRET_BYTES: Final = 65_536
_SMT: Final = "/sys/devices/system/cpu/smt/control"
#: As long as an ARN of a secret can be.
_ANY_ARN: Final = "arn:aws-us-gov:secretsmanager:" + "x" * 300


def user_data(region: str, secret: str, first_boot: str = "", *, smt: bool = True) -> str:
    """Return the user data of all machines of a kind. ``secret`` is an ARN; without ``smt`` a core has one thread."""
    commands = [["/usr/bin/python3", "-I", "-c", guest_program("bootstrap"), region, secret]]
    if not smt:
        commands.insert(0, ["/bin/sh", "-c", f"echo off >{_SMT} || true"])
    if first_boot:
        commands.insert(0, ["cloud-init-per", "instance", "first-boot", "/bin/sh", "-ec", first_boot])
    said = {
        # Nothing of the image's own starts, and no key of its own is made.
        "ssh_deletekeys": False,
        "manage_etc_hosts": False,
        "preserve_hostname": True,
        # At each boot: another boot of its kind is taken then.
        "bootcmd": commands,
    }
    return cloud_config(said)


def size(first_boot: str) -> int:
    """Return the most bytes that it has with that script."""
    return len(user_data("us-gov-west-1", _ANY_ARN, first_boot, smt=False).encode())


def guest_program(name: str) -> str:
    """The text of a program of machines."""
    return files(__name__).joinpath(f"{name}.py").read_text(encoding="utf-8")
