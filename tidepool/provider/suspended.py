"""Services and clock of a node's machine, before its memory is saved and when it goes on.

While its memory is on disk a machine's clock stands. So what goes by the time, munge and slurmd, ends before and is started
when the clock is set; a lease of an address needs nothing, for the address is reserved for as long as the machine is there.
"""

from __future__ import annotations

from typing import Final

from tidepool.clients.transport import Transport

#: They end, and memory that only holds copies of files is given back: less is to be saved, and less of what jobs read is in it.
BEFORE: Final = """\
systemctl stop tidepool-slurmd.service tidepool-munged.service
sync
echo 3 >/proc/sys/vm/drop_caches
"""
#: Its argument is the time, in seconds since 1970. What keeps the clock right measures anew from there, in place of slewing for hours.
AFTER: Final = """\
date --utc --set="@$1" >/dev/null
for unit in systemd-timesyncd chrony chronyd ntpsec; do
    if systemctl --quiet is-active "$unit.service"; then systemctl --no-block restart "$unit.service"; fi
done
systemctl restart tidepool-munged.service tidepool-slurmd.service
"""
#: An emulated machine takes its time, where others have the processor.
_TIMEOUT_S: Final = 180.0


class NotReady(Exception):
    """A command ended with an error on the machine; the text says what it wrote."""


def prepare(machine: Transport) -> None:
    """Have the machine be ready to be saved.

    Raises:
        SlurmError: it does not answer.
        NotReady: its services do not end.
    """
    _run(machine, BEFORE)


def go_on(machine: Transport, now_s: float) -> None:
    """Set the clock of a machine that goes on, by ours, and start what its node needs. May be done again.

    Raises:
        SlurmError: it does not answer.
        NotReady: its services do not start.
    """
    _run(machine, AFTER, f"{now_s:.3f}")


def _run(machine: Transport, script: str, *arguments: str) -> None:
    ended = machine.run(["sh", "-ec", script, "sh", *arguments], timeout_s=_TIMEOUT_S)
    if ended.exit_code != 0:
        raise NotReady(f"{machine.where}: {' '.join(ended.stderr.split()) or f'exit code {ended.exit_code}'}")
