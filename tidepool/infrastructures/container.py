"""A boot as files of a container, and the program that is its first process: where there is no systemd, and no init of ours.

The program keeps the promises of `boot`: folders and files first, then services in their order, each when the one before is
ready; one that ends is started again, unless that was on purpose; when the container is to stop, they stop backwards.
"""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from pulumi import Output

from tidepool.cluster.boot import Service
from tidepool.infrastructures.contract import Boot, File

#: One that ended on purpose is started again when a file of its name is there, as by the first process of ours.
_REQUESTS: Final = "/run/tidepool/start"
_PROGRAM: Final = """\
#!/bin/sh
# What this machine does when it boots. It is the first process of its container.
set -u
files={folder}
kept=
given=

# Until it is there: path:FILE, unix:SOCKET, tcp:PORT.
await() {{
    while :; do
        case $1 in
            started) return ;;
            path:*) test -e "${{1#path:}}" && return ;;
            unix:*) test -S "${{1#unix:}}" && return ;;
            tcp:*) ss -Hltn "sport = :${{1#tcp:}}" | grep -q . && return ;;
            *) echo "$1 is nothing to wait for" >&2; exit 2 ;;
        esac
        sleep 0.2
    done
}}

# A service, for as long as the machine runs. A signal ends the waiting, and not the child. One that ends well, and has a
# file $1, is started again when that is there.
keep() {{
    (
        asked=$1 child= ending=
        shift
        trap 'ending=1; test -z "$child" || kill -TERM "$child" 2>/dev/null' TERM
        until test -n "$ending"; do
            test -z "$asked" || rm -f "$asked"
            "$@" &
            child=$!
            wait "$child"
            ended=$?
            while kill -0 "$child" 2>/dev/null; do wait "$child"; done
            child=
            if test -n "$asked" && test "$ended" = 0; then
                until test -n "$ending" || test -e "$asked"; do sleep 0.2; done
            else
                test -n "$ending" || sleep 1
            fi
        done
    ) &
    kept="$! $kept"
}}

# The last one first, each when the one after it has stopped.
stop() {{
    trap '' TERM INT
    for each in $kept; do
        kill -TERM "$each" 2>/dev/null
        while kill -0 "$each" 2>/dev/null; do wait "$each"; done
    done
    exit 0
}}
trap stop TERM INT

# Slurm is told of devices by names, and those that a container is given may have other numbers.
device() {{
    test -e "$1" && return
    name=${{1##*/}}
    for each in "${{1%/*}}/${{name%%[0-9]*}}"[0-9]*; do
        case " $given " in *" $each "*) continue ;; esac
        test -e "$each" || continue
        ln -s "$each" "$1" && given="$given $each $1"
        return
    done
}}

{steps}
while :; do
    sleep 3600 &
    wait $!
done
"""


def start(boot: Boot, folder: str, requests: str = _REQUESTS) -> str:
    """The program, where files are in ``folder`` by their `key_of`, and in ``requests`` what services are asked for by.

    Raises:
        ValueError: a service is one of a role, which containers do not take.
    """
    if roles := sorted({service.role for service in boot.services if service.role}):
        raise ValueError(f"services of the role {', '.join(roles)} run on machines of `local` alone")
    return _PROGRAM.format(folder=shlex.quote(folder), steps="\n".join(_steps(boot, requests)))


def files(boot: Boot) -> Output[dict[str, str]]:
    """The files by their `key_of`, in base64; secret, where one of them is."""
    return Output.all(*(file.content for file in boot.files)).apply(
        lambda contents: {
            key_of(file.path): content if file.is_base64 else packed(content)
            for file, content in zip(boot.files, contents, strict=True)
        }
    )


def packed(text: str) -> str:
    """As files are told: in base64."""
    return base64.b64encode(text.encode()).decode()


def key_of(path: str) -> str:
    """Return the name of a file among others, without folders: ``etc.munge.munge.key``."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", path.strip("/").replace("/", "."))


def _steps(boot: Boot, requests: str) -> Iterator[str]:
    for folder in boot.folders:
        how = ("-d", "-m", folder.mode, "-o", folder.owner, "-g", folder.group)
        yield shlex.join(("install", *how, folder.path))
    for file in boot.files:
        yield _install(file)
    present = " ".join(shlex.quote(device.path) for device in boot.devices)
    if present:
        yield f'for each in {present}; do test ! -e "$each" || given="$given $each"; done'
        yield f'for wanted in {present}; do device "$wanted"; done'
    for service in boot.services:
        yield from _service(service, requests)


def _install(file: File) -> str:
    how = shlex.join(["-D", "-m", file.mode, "-o", file.owner, "-g", file.group])
    return f'install {how} "$files"/{shlex.quote(key_of(file.path))} {shlex.quote(file.path)}'


def _service(service: Service, requests: str) -> Iterator[str]:
    if service.begins:
        yield shlex.join(("await", service.begins))
    argv: Sequence[str] = service.argv
    if service.user != "root":
        argv = ("setpriv", f"--reuid={service.user}", f"--regid={service.user}", "--init-groups", "--", *argv)
    if service.once:
        yield f"until {shlex.join(argv)}; do sleep 1; done"
    else:
        asked = f"{requests}/{service.name}" if service.restart == "on-failure" else ""
        yield shlex.join(("keep", asked, *argv))
    if service.ready != "started":
        yield shlex.join(("await", service.ready))
