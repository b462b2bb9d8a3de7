"""One machine of a pool: the port `Machine`, over a transport. It takes roles and loses them, one round trip a call."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, Final, cast

from tidepool.clients.slurm import SlurmError, Transport
from tidepool.cluster import kubelet_files
from tidepool.cluster.failures import InfrastructureError, Permanent
from tidepool.cluster.roles import BOOTSTRAP, CNI_CONFIG, LAYOUTS, ROLES, ROUTES, Role
from tidepool.conversion import machine_agent
from tidepool.conversion.ports import ConversionError, Refused
from tidepool.infrastructures.imaging import Imaging

#: What runs there: by no file that would have to be there, and without the site's modules. Its text comes by its stdin as well, before
#: the request: what sudo runs, hosts keep in their logs.
_PROGRAM: Final = ("/usr/bin/python3", "-ISc", "import sys; exec(sys.stdin.read(int(sys.stdin.readline())))")
_TEXT: Final = Path(machine_agent.__file__).read_text("utf-8")
#: Beyond what services take to start or to stop.
_MARGIN_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class RoleFile:
    """A file that a machine has while it has a role. ``mode`` is octal; owner and group are names of the image."""

    path: str
    content: bytes = field(repr=False)
    mode: str = "0644"
    owner: str = "root"
    group: str = "root"


@dataclass(frozen=True, slots=True)
class RoleProgram:
    """A machine, ``node``, behind ``transport``.

    ``files`` gives what it has with a role, when it takes that role: its credentials, its configuration. They reach the
    machine through a pipe. Its services have ``start_s`` to start and ``stop_s`` to stop. Where the roles have an image each, or
    the machine holds nothing while it is off, ``imaging`` has it boot that of a role.
    """

    transport: Transport
    node: str
    files: Callable[[Role], Sequence[RoleFile]]
    start_s: float = 20.0
    stop_s: float = 60.0
    imaging: Imaging | None = None

    def roles(self) -> frozenset[Role]:
        return _roles_in(self._ask_unless_blank("roles", None, self.start_s))

    def take(self, role: Role) -> frozenset[Role]:
        files = [
            asdict(file) | {"content": base64.b64encode(file.content).decode()} for file in self.files(role)
        ]
        return _roles_in(self._ask("take", role, self.start_s, files=files))

    def lose(self, role: Role) -> frozenset[Role]:
        told = self._ask_unless_blank("lose", role, self.stop_s)
        if told is not None and (left := told["left"]):
            raise ConversionError(f"{self.node} lost the role {role}, but there is still {', '.join(left)}")
        return _roles_in(told)

    def can_image(self) -> bool:
        return self.imaging is not None

    def imaged(self) -> frozenset[Role]:
        if self.imaging is None:
            return frozenset(ROLES)
        with self._as_conversion_errors():
            return self.imaging.imaged()

    def image(self, role: Role) -> None:
        if self.imaging is None:
            raise Refused(f"{self.node} has one image for all that it can be")
        with self._as_conversion_errors():
            self.imaging.image(role)
        # Who answered is gone, and would be waited for.
        self.transport.close()

    def left_behind(self, role: Role) -> tuple[str, ...]:
        return tuple(self._ask("left", role, self.start_s)["left"])

    @contextmanager
    def _as_conversion_errors(self) -> Iterator[None]:
        try:
            yield
        except InfrastructureError as error:
            kind = Refused if isinstance(error, Permanent) else ConversionError
            raise kind(f"{self.node}: {error}") from error

    def _ask_unless_blank(self, verb: str, role: Role | None, timeout_s: float) -> Mapping[str, Any] | None:
        """Return what it says; None where it says nothing as there is nothing on it."""
        try:
            return self._ask(verb, role, timeout_s)
        except ConversionError:
            if self.imaging is None:
                raise
            with self._as_conversion_errors():
                is_blank = self.imaging.is_blank()
            if not is_blank:
                raise
            return None

    def _ask(self, verb: str, role: Role | None, timeout_s: float, **more: object) -> Mapping[str, Any]:
        layouts = {each: asdict(LAYOUTS[each]) for each in ROLES}
        request = {"verb": verb, "role": role, "layouts": layouts, "timeout_s": timeout_s, **more}
        stdin = f"{len(_TEXT)}\n{_TEXT}{json.dumps(request)}"
        try:
            ended = self.transport.run(_PROGRAM, stdin=stdin, timeout_s=timeout_s + _MARGIN_S)
        except SlurmError as error:  # of the transport, which both sides share
            raise ConversionError(f"{self.node} cannot be asked: {error}") from error
        try:
            answer: Mapping[str, Any] = json.loads(ended.stdout)
        except ValueError:
            said = ended.stderr.strip().splitlines()[-1:] or [f"exit code {ended.exit_code}"]
            raise ConversionError(f"{self.node} did not come to the end of it: {said[0]}") from None
        if "error" in answer:
            raise ConversionError(f"{self.node}: {answer['error']}")
        return answer


def _roles_in(told: Mapping[str, Any] | None) -> frozenset[Role]:
    """Return the roles that a machine told of; of one that has nothing on it, none."""
    return frozenset(cast("Sequence[Role]", told["roles"] if told is not None else ()))


def kubernetes_files(files: Sequence[RoleFile], *, pods: IPv4Network, bootstrap: str) -> tuple[RoleFile, ...]:
    """Return the files of one machine with the role: those of the role's boot, and those of this machine alone.

    ``pods`` is where its pods have their addresses, ``bootstrap`` the kubeconfig by which its kubelet asks for a certificate
    (`kubelet_files.bootstrap_kubeconfig`).
    """

    def its_own(file: RoleFile) -> RoleFile:
        if file.path != ROUTES:
            return file
        return replace(file, content=kubelet_files.routes_without(file.content.decode(), pods).encode())

    return (
        *map(its_own, files),
        RoleFile(CNI_CONFIG, kubelet_files.cni_config(pods).encode()),
        RoleFile(BOOTSTRAP, bootstrap.encode(), "0600"),
    )
