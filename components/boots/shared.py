"""Parts of every machine of a cluster: its munge key, and an sshd that lets its people in by key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pulumi import Input

from tidepool.cluster.roles import MUNGE_KEY
from tidepool.infrastructures.boot import File, Folder, Service

_HOST_KEY: Final = "/etc/ssh/ssh_host_ed25519_key"
#: One kind of host key, made at the machine's first boot: what `ssh-keygen -A` makes besides takes a second. The
#: public one is written last, so a key that has none may be half of one.
_SSHD: Final = f"""\
if ! test -s {_HOST_KEY}.pub; then
    rm -f {_HOST_KEY}
    ssh-keygen -q -t ed25519 -N '' -C '' -f {_HOST_KEY}
fi
exec /usr/sbin/sshd -D -e -h {_HOST_KEY}
"""

#: Folders that each machine has in /run, which is empty at each boot.
RUN_FOLDERS: Final = (Folder("/run/munge", owner="munge", group="munge"), Folder("/run/sshd"))
MUNGED: Final = Service(
    "munged",
    ("/usr/sbin/munged", "--foreground", "--num-threads=2"),
    user="munge",
    ready="unix:/run/munge/munge.socket.2",
)
SSHD: Final = Service("sshd", ("/bin/sh", "-ec", _SSHD), ready="tcp:22")


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys by which the machines of a cluster know each other, and know whom to let in.

    ``munge`` is the munge key in base64, and secret. ``ssh`` is a public key, one line; with it ``people``, users
    of the image, log in.
    """

    munge: Input[str]
    ssh: Input[str]
    people: tuple[str, ...] = ("root", "researcher")

    @property
    def files(self) -> tuple[File, ...]:
        """The keys, where munged and sshd look for them."""
        return (self.munge_file, *self.people_files)

    @property
    def munge_file(self) -> File:
        """The munge key."""
        return File(MUNGE_KEY, self.munge, "0400", "munge", "munge", is_base64=True)

    @property
    def people_files(self) -> tuple[File, ...]:
        """The files that let people in."""
        return tuple(File(f"/etc/ssh/authorized_keys.d/{person}", self.ssh) for person in self.people)

    @property
    def homes(self) -> tuple[Folder, ...]:
        """The folders of people in a /home that is a volume, and empty at first."""
        return tuple(
            Folder(f"/home/{person}", "0700", person, person) for person in self.people if person != "root"
        )
