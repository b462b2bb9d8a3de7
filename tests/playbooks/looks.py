"""A look at a host: what it was before it became a node, to be compared with what it is when it was given back."""

from __future__ import annotations

from typing import Any, Final

from tests.playbooks.hosts import Host

#: Packages came and went: what apt, dpkg and whoever logged in wrote of that stays.
_WRITTEN: Final = (
    *("/proc", "/sys", "/dev", "/tmp", "/var/tmp", "/var/cache", "/var/lib/apt", "/var/lib/dpkg"),
    # A timer of Debian's keeps dpkg's state in the latter each night.
    *("/var/lib/ucf", "/var/backups"),
    *("/var/log/apt", "/var/log/dpkg.log", "/var/log/alternatives.log", "/var/log/journal", "/srv"),
    *("/run/lock", "/run/motd.dynamic", "/run/sudo", "/run/tidepool-node.lock"),
    "/home/admin/.sudo_as_admin_successful",
)
#: nft and what it needs, from packages that nobody installs: it is asked of hosts that have none.
_NFT: Final = """\
for each in nftables libnftables1 libnftnl11 libjansson4 libxtables12 libmnl0 libgmp10 libedit2 libbsd0 libmd0; do
    dpkg-deb -x /srv/packages/${each}_*.deb /tmp/nft
done
cd /tmp/nft
LD_LIBRARY_PATH=usr/lib/x86_64-linux-gnu:lib/x86_64-linux-gnu usr/sbin/nft list ruleset
"""


def look(host: Host) -> dict[str, Any]:
    """Return all of a host that others can see: each file by its path, and what it says of itself."""
    but = " -o ".join(f"-path {path}" for path in _WRITTEN)
    find = f"find / /run -xdev \\( {but} \\) -prune -o"
    listed = host.run("sh", "-c", f"{find} -printf '%p\\t%y %m %U %G %l\\n'", timeout_s=300).splitlines()
    found: dict[str, Any] = dict(line.split("\t") for line in listed)
    summed = host.run("sh", "-c", f"{find} -type f -print0 | xargs -0 sha256sum -z", timeout_s=300)
    for digest, path in (line.split("  ", 1) for line in summed.split("\0") if line):
        found[path] += digest
    return found | {
        "packages": host.run("dpkg-query", "-W", "-f", "${Package} ${Version} ${db:Status-Status}\n"),
        "addresses": host.run("ip", "-oneline", "-4", "addr"),
        "routes": host.run("ip", "route"),
        "links": host.run("sh", "-c", "ls /sys/class/net; cat /proc/sys/net/ipv4/ip_forward"),
        "mounts": host.run("cut", "-d", " ", "-f", "4-6", "/proc/self/mountinfo"),
        "filters": host.run("sh", "-ec", _NFT),
        "runs": {*host.run("ps", "-eo", "comm=").split()},
    }


def differences(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Return what is not the same in two looks, as it was and as it is."""
    return {
        key: (before.get(key), after.get(key))
        for key in before.keys() | after.keys()
        if before.get(key) != after.get(key)
    }
