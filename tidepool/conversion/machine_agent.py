"""The agent in a machine that takes a role or loses one. It runs there, by the machine's own Python, and alone.

`tidepool.conversion.machine` hands its text to the stdin of an interpreter, and after it a request in JSON. The
answer is JSON as well: ``{"roles": [...]}``, ``{"left": [...]}``, or ``{"error": "..."}``. Each verb may be repeated
after one that was cut off anywhere: what is put there is written down first, and that is forgotten last.

Its services are those of the machine's first process: Tidepool's own, which tells of them in a table, or systemd, whose target
of the role wants them.
"""

from __future__ import annotations

import binascii
import errno
import json
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # to import what is for types alone would be half of the time
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    Request = Mapping[str, Any]

ROLES = "/var/lib/tidepool/roles"
TABLE = "/run/tidepool/services"
GROUPS = "/sys/fs/cgroup"
CONTAINERS = "/var/lib/containerd"
#: Of containerd: a folder each for what it runs, or ran and has not cleared away.
RECORDS = f"{CONTAINERS}/io.containerd.grpc.v1.cri"
#: By a file of its name there the first process is asked to start a service that ended on purpose.
REQUESTS = "/run/tidepool/start"
UNITS = "/etc/systemd/system"
_LOOK_S = 0.005
#: Each look at systemd is a program, and it is looked at when it has done, or has not in time.
_LOOK_AT_SYSTEMD_S = 0.5
_HANG_UP = 1
_TERMINATE = 15
_KILL = 9
#: One that waits for a disk that does not answer outlives it, and is told of.
_KILLED_WITHIN_S = 5.0


class Refused(Exception):
    """It cannot be done; the text is for a person."""


# -- looking ----------------------------------------------------------------------------------------------------------


def rows(role: str) -> list[tuple[str, str, int]]:
    """A role's services as the first process tells of them: name, state, pid."""
    return units(role) if is_systemd() else table(role)


def is_systemd() -> bool:
    return os.path.isdir("/run/systemd/system")


def table(role: str) -> list[tuple[str, str, int]]:
    while True:
        try:
            with open(TABLE, encoding="utf-8") as file:
                *lines, last = file.read().splitlines(keepends=True) or [""]
        except FileNotFoundError:
            raise Refused("its first process knows no roles; `tidepool up` makes it anew") from None
        if last in (f"end\t{binascii.crc32(''.join(lines).encode())}\n", "end\n"):
            break  # else it is being written; a first process of before wrote no checksum
    fields = [line.rstrip("\n").split("\t") for line in lines]
    return [(name, state, int(pid)) for name, state, pid, _, its in fields if its == role]


def unit_names(role: str) -> list[str]:
    """A role's services as systemd calls them, in the order in which they start. Nobody is asked for it."""
    try:
        with open(f"{UNITS}/tidepool-{role}.target", encoding="utf-8") as file:
            wants = [line for line in file.read().splitlines() if line.startswith("Wants=")]
    except FileNotFoundError:
        return []
    return [name for line in wants for name in line[len("Wants=") :].split()]


def units(role: str) -> list[tuple[str, str, int]]:
    """The same of systemd."""
    names = unit_names(role)
    if not names:
        return []
    told = command("systemctl", "show", "--property=Id,ActiveState,SubState,MainPID", "--", *names)
    found, its = {}, {}
    for line in [*told, ""]:
        if line:
            key, _, its[key] = line.partition("=")
        elif its:
            found[its["Id"]] = (unit_state(its["ActiveState"], its["SubState"]), int(its.get("MainPID", 0)))
            its = {}
    if silent := [name for name in names if name not in found]:
        raise Refused(
            f"systemd does not tell of {', '.join(silent)}; see whether `systemctl status` answers there"
        )
    return [(name, *found[name]) for name in names]


def unit_state(active: str, sub: str) -> str:
    """Put what systemd says of a unit into the words of the table."""
    if active == "inactive":
        return "off"
    if active == "active":
        return "done" if sub == "exited" else "up"
    return active


def services(role: str) -> dict[str, str]:
    """The states of a role's services, by name."""
    return {name: state for name, state, _ in rows(role)}


def marker(role: str) -> str:
    return f"{ROLES}/{role}"


def record(role: str) -> str:
    return f"{ROLES}/{role}.files"


def put_there(role: str) -> list[str]:
    """The files that were put there with a role."""
    try:
        with open(record(role), encoding="utf-8") as file:
            return file.read().splitlines()
    except FileNotFoundError:
        return []


def has(role: str, layout: Request) -> bool:
    """Return whether the machine has the role, or anything of it that counts: a marker, a service, a secret."""
    if os.path.exists(marker(role)) or set(services(role).values()) - {"off"}:
        return True
    return any(True for path in (*put_there(role), *layout["secrets"]) for _ in secret_files(path))


def secret_files(path: str) -> Iterator[str]:
    """The files that a path names: itself, half-written, or those in it."""
    for each in (path, path + ".new"):
        if os.path.isdir(each) and not os.path.islink(each):
            for folder, _, names in os.walk(each):
                yield from (f"{folder}/{name}" for name in names)
        elif os.path.lexists(each):
            yield each


def links(prefixes: list[str]) -> list[str]:
    return [name for name in sorted(os.listdir("/sys/class/net")) if name.startswith(tuple(prefixes))]


def roles(layouts: Mapping[str, Request]) -> list[str]:
    """The roles that the machine has, of these."""
    return [role for role, layout in layouts.items() if has(role, layout)]


def left(role: str, layout: Request) -> list[str]:
    """All that is there of a role which the machine has not."""
    found = [f"the service {name} is {state}" for name, state in services(role).items() if state != "off"]
    found += [path for path in (marker(role), record(role)) if os.path.exists(path)]
    found += [path for each in (*put_there(role), *layout["secrets"]) for path in secret_files(each)]
    found += [path for path in layout["state"] if os.path.lexists(path)]
    found += [f"{folder}/{name}" for folder in layout["emptied"] for name in names_in(folder)]
    found += [f"the network device {name}" for name in links(layout["links"])]
    if layout["routes"]:
        found += [f"the route {line}" for line in ip("route", "show", "proto", str(layout["routes"]))]
    if layout["links"]:
        found += containers()
    found += [path for path in groups(role, layout) if os.path.exists(path)]
    found += processes(role, layout)
    found += [f"the mount {path}" for path in mounts(layout)]
    return list(dict.fromkeys(found))


def mounts(layout: Request) -> list[str]:
    """The mounts in its places, the last one first."""
    places = (*layout["state"], *layout["emptied"])
    with open("/proc/self/mounts", encoding="utf-8") as file:
        paths = [line.split()[1] for line in file]
    return [path for path in reversed(paths) if path.startswith(places)]


def groups(role: str, layout: Request) -> list[str]:
    """The control groups of what the role has started, and of what that has."""
    if is_systemd():
        its = [f"tidepool.slice/tidepool-{role}.slice", *layout["groups"]]
        return [f"{GROUPS}/{group}" for group in its]
    return [f"{GROUPS}/{role}", *(f"{GROUPS}/{name}/{role}" for name in names_in(GROUPS))]


def processes(role: str, layout: Request) -> list[str]:
    return [f"the process {pid}" for pid in members(role, layout)]


def members(role: str, layout: Request) -> list[int]:
    """The processes of the role's control groups."""
    its = [group[len(GROUPS) :] + "/" for group in groups(role, layout)] if is_systemd() else [f"/{role}/"]
    found = []
    for pid in names_in("/proc"):
        if not pid.isdigit():
            continue
        try:
            with open(f"/proc/{pid}/cgroup", encoding="utf-8") as file:
                paths = [line.split(":", 2)[2] + "/" for line in file.read().splitlines()]
        except OSError:
            continue  # it ended
        if any(path.startswith(tuple(its)) for path in paths):
            found.append(int(pid))
    return found


def containers() -> list[str]:
    return [
        f"{RECORDS}/{kind}/{id}"
        for kind in ("containers", "sandboxes")
        for id in names_in(f"{RECORDS}/{kind}")
    ]


def names_in(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


# -- changing ---------------------------------------------------------------------------------------------------------


def take(request: Request) -> None:
    """Put the files there, then the marker, and wait until the services were started.

    Where they run already, and read other files before, each is started again; what they started goes on. So is one that
    ended on purpose.
    """
    role = request["role"]
    for other, layout in request["layouts"].items():
        if other != role and has(other, layout):
            raise Refused(f"it still has the role {other}, which it has to lose first")
    before = rows(role)
    if not before:
        raise Refused(f"its boot has no services of the role {role}; `tidepool up` makes it anew")
    os.makedirs(ROLES, 0o700, exist_ok=True)
    paths = [file["path"] for file in request["files"]]
    write(record(role), "\n".join(dict.fromkeys((*put_there(role), *paths))).encode(), 0o600, 0, 0)
    changed = sum(put(file) for file in request["files"]) > 0
    old = {pid for _, _, pid in before if pid and changed}
    write(marker(role), b"", 0o600, 0, 0)
    if is_systemd():
        if anew := [name for name, _, pid in before if pid in old]:
            command("systemctl", "restart", "--no-block", "--", *anew)
        have_done(request, "start", [name for name, _, _ in before])
    else:
        for name, state, pid in before:
            if pid in old or state == "ended":
                ask_for(name)
        os.kill(1, _HANG_UP)
        for pid in old:
            end(pid)
    if changed and (ways := request["layouts"][role]["routes_file"]):
        ip("-force", "-batch", ways)

    def is_new() -> bool:
        return all(state in ("up", "done") and pid not in old for _, state, pid in rows(role))

    wait(request, is_new, "did not start")


def lose(request: Request) -> list[str]:
    """Stop the services, and take away all that the role left; gives what is there nevertheless."""
    role, layout = request["role"], request["layouts"][request["role"]]
    remove(marker(role))
    if is_systemd():
        have_done(request, "stop", unit_names(role))
    else:
        os.kill(1, _HANG_UP)
    states = {}

    def has_stopped() -> bool:
        states.update(services(role))
        return set(states.values()) <= {"off", "failed"}

    wait(request, has_stopped, "did not stop")
    if is_systemd():
        if failed := [name for name, state in states.items() if state == "failed"]:
            command("systemctl", "reset-failed", "--", *failed)
        end_all(role, layout)
        for mount in mounts(layout):
            command("umount", "--lazy", "--", mount)
    for path in (*layout["secrets"], *put_there(role)):
        for each in secret_files(path):
            shred(each)
        remove(path)
    for path in layout["state"]:
        remove(path)
    for folder in layout["emptied"]:
        for name in names_in(folder):
            remove(f"{folder}/{name}")
    # What still has containers would start with them again; what has none keeps the images.
    if layout["links"] and containers():
        for name in names_in(CONTAINERS):
            remove(f"{CONTAINERS}/{name}")
    cut(layout)
    remove(record(role))
    # The kernel takes the ends of cables away by itself, when it has time.
    deadline = time.monotonic() + 2
    while (found := left(role, layout)) and time.monotonic() < deadline:
        time.sleep(_LOOK_S)
        cut(layout)
    return found


def cut(layout: Request) -> None:
    """Take its network devices and its routes away."""
    for name in links(layout["links"]):
        ip("link", "delete", name)
    if layout["routes"]:
        ip("route", "flush", "proto", str(layout["routes"]))


def ask_for(service: str) -> None:
    os.makedirs(REQUESTS, 0o700, exist_ok=True)
    write(f"{REQUESTS}/{service}", b"", 0o600, 0, 0)


def have_done(request: Request, verb: str, units: list[str]) -> None:
    """Have systemd do it, and wait for that: to look again and again would take long where the machine is slow."""
    command("timeout", f"{request['timeout_s']:g}", "systemctl", verb, "--", *units)


def wait(request: Request, holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + request["timeout_s"]
    while not holds():
        if time.monotonic() > deadline:
            states = ", ".join(f"{name} is {state}" for name, state in services(request["role"]).items())
            raise Refused(
                f"the services of the role {request['role']} {what} in {request['timeout_s']:g} s: {states}"
            )
        time.sleep(_LOOK_AT_SYSTEMD_S if is_systemd() else _LOOK_S)


def end_all(role: str, layout: Request) -> None:
    """Kill what services of systemd left behind, which a first process of ours does itself, and take its control groups away.

    The slice is systemd's to take away, which else would not hand controllers down to the next one.
    """
    deadline = time.monotonic() + _KILLED_WITHIN_S
    while (left := members(role, layout)) and time.monotonic() < deadline:
        for pid in left:
            end(pid, _KILL)
        time.sleep(_LOOK_S)
    command("systemctl", "stop", "--", f"tidepool-{role}.slice")
    for group in layout["groups"]:
        for folder, _, _ in os.walk(f"{GROUPS}/{group}", topdown=False):
            try:
                os.rmdir(folder)
            except OSError:
                pass  # what is left is told of


def put(file: Request) -> bool:
    """Put a file there; whether there was another."""
    content, mode = binascii.a2b_base64(file["content"]), int(file["mode"], 8)
    owner, group = ids(file["owner"], file["group"])
    try:
        with open(file["path"], "rb") as there:
            its = os.fstat(there.fileno())
            if (its.st_mode & 0o7777, its.st_uid, its.st_gid, there.read()) == (mode, owner, group, content):
                return False
    except FileNotFoundError:
        os.makedirs(os.path.dirname(file["path"]), exist_ok=True)
    write(file["path"], content, mode, owner, group)
    return True


def end(pid: int, by: int = _TERMINATE) -> None:
    try:
        os.kill(pid, by)
    except ProcessLookupError:
        pass  # by itself


def write(path: str, content: bytes, mode: int, owner: int, group: int) -> None:
    """Whole or not at all; nobody else reads it meanwhile."""
    beside = path + ".new"
    remove(beside)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        os.fchown(descriptor, owner, group)
        os.fchmod(descriptor, mode)
    os.replace(beside, path)


def ids(owner: str, group: str) -> tuple[int, int]:
    """A user's and a group's number, by name or number."""
    if owner == group == "root":
        return 0, 0
    import grp
    import pwd

    return (
        int(owner) if owner.isdigit() else pwd.getpwnam(owner).pw_uid,
        int(group) if group.isdigit() else grp.getgrnam(group).gr_gid,
    )


def shred(path: str) -> None:
    """Overwrite what it holds, on the disk, and remove it."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOENT):
            raise
        return remove(path)
    try:
        size = os.fstat(descriptor).st_size
        os.write(descriptor, bytes(size))
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)
    remove(path)
    return None


def remove(path: str) -> None:
    """A file, or a folder with all that is in it; what is gone is no error."""
    try:
        if os.path.isdir(path) and not os.path.islink(path):
            for folder, folders, names in os.walk(path, topdown=False):
                for name in names:
                    os.unlink(f"{folder}/{name}")
                for name in folders:
                    inner = f"{folder}/{name}"
                    (os.unlink if os.path.islink(inner) else os.rmdir)(inner)
            os.rmdir(path)
        else:
            os.unlink(path)
    except FileNotFoundError:
        pass


def ip(*arguments: str) -> list[str]:
    """The lines that `ip` says; its errors say what is gone already."""
    return command("/sbin/ip", "-o", *arguments)


def command(*argv: str) -> list[str]:
    """The lines that a program says, whatever comes of it."""
    reading, writing = os.pipe2(os.O_CLOEXEC)
    nowhere = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    actions = [(os.POSIX_SPAWN_DUP2, writing, 1), (os.POSIX_SPAWN_DUP2, nowhere, 2)]
    child = os.posix_spawnp(argv[0], argv, os.environ, file_actions=actions)
    os.close(writing)
    os.close(nowhere)
    with os.fdopen(reading, encoding="utf-8") as said:
        lines = said.read().splitlines()
    os.waitpid(child, 0)
    return lines


# -- the request ------------------------------------------------------------------------------------------------------


def answer(request: Request) -> dict[str, Any]:
    layouts = request["layouts"]
    match request["verb"]:
        case "roles":
            return {"roles": roles(layouts)}
        case "take":
            take(request)
            return {"roles": roles(layouts)}
        case "lose":
            # One that left nothing has been looked at.
            others = {role: layout for role, layout in layouts.items() if role != request["role"]}
            return {"left": lose(request), "roles": roles(others)}
        case "left":
            return {"left": left(request["role"], layouts[request["role"]])}
    raise Refused(f"nobody knows how to {request['verb']}")


def main() -> None:
    try:
        told = answer(json.load(sys.stdin))
    except Refused as refusal:
        told = {"error": str(refusal)}
    except (OSError, KeyError) as error:  # a user or group that the image has not is a KeyError
        told = {"error": f"{type(error).__name__}: {error}"}
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()
