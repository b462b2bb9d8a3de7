"""The `up` that carries conversions out: limited to the roles of a few machines, in a process of its own.

That process is a fork, begun first of all: it imports the engine while the person's request is looked at, on another
processor. It has no terminal, so that whoever watches can go away, and the conversion goes on.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol

from tidepool.cli.errors import FAILED, OK, failure_of
from tidepool.cli.operation import carry_out, parallel, turn
from tidepool.cli.pools import open_conversions, pools_of
from tidepool.cli.stack import Stack, state_files
from tidepool.cluster.desired_state import DesiredNodes
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.roles import Role

#: In the stack's folder: what the operation said, and the lock by which conversions wait for each other's `up`.
LOG: Final = "convert.log"
_LOCK: Final = "convert.lock"
_LOG_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Moves:
    """The roles that machines are to have; those that ``waits`` names have work that is waited for.

    ``refresh``: look first at what they are, for the state may not know.
    """

    roles: Mapping[str, Role]
    refresh: bool = False
    waits: frozenset[str] = frozenset()

    def only(self, nodes: Iterable[str]) -> Moves:
        """The same for these, which are waited for no more."""
        return Moves({node: self.roles[node] for node in nodes}, self.refresh)


@dataclass(frozen=True, slots=True)
class Driven:
    """The outcome of the operation: its exit code, and its errors, a text each."""

    code: int
    said: tuple[str, ...] = ()


class Driver(Protocol):
    """An operation that runs beside this one."""

    def go(self, moves: Moves) -> None:
        """Begin."""
        ...

    def ended(self, timeout_s: float) -> Driven | None:
        """Return the outcome as soon as it has ended; None where it has not within that time."""
        ...

    def leave(self) -> None:
        """Do not wait for it any more. One that has not begun never will."""
        ...


def driver(stack: Stack) -> Driver:
    """Return a driver for ``stack``: in a process of its own, or in a thread where the process is somebody else's."""
    return _Fork(stack) if stack.context.owns_process else _Thread(stack)


def carry_out_all(stack: Stack, moves: Moves) -> Driven:
    """Run one `up` for the machines that can go at once, and one for each other as soon as it is empty.

    Raises:
        Failure: the stack cannot be read.
    """
    at_once = moves.only(node for node in moves.roles if node not in moves.waits)
    if not moves.waits:
        return carry_out_moves(stack, at_once)
    from tidepool.cli.cluster import parse_outputs
    from tidepool.cli.pools.emptying import Emptying

    outputs = stack.outputs() or {}
    pools, controller = pools_of(stack.name, outputs), parse_outputs(stack.name, outputs).controller
    waiting = Emptying(stack, pools, controller, moves.waits)
    came = [carry_out_moves(stack, at_once)] if at_once.roles else []
    came += [carry_out_moves(stack, moves.only(nodes)) for nodes in waiting.ready()]
    return Driven(
        max((each.code for each in came), default=0), tuple(said for each in came for said in each.said)
    )


def carry_out_moves(stack: Stack, moves: Moves) -> Driven:
    """Wait for the stack's turn, and run the `up`.

    Raises:
        Failure: the stack cannot be read.
    """
    in_turn = turn(stack, after_persons=True)
    with _one_after_the_other(stack), stack.without_new_encryptionsalt(), in_turn:
        if not (moves := moves.only(_under_way(stack, moves.roles))).roles:
            return Driven(OK)  # all that was ordered was cancelled meanwhile
        # Only now: whoever had the turn may have moved other machines of the pool.
        pools = pools_of(stack.name, stack.outputs() or {})
        words = [
            *("--yes", "--skip-preview", "--continue-on-error", "--suppress-outputs"),
            *(["--refresh"] if moves.refresh else []),
            *(word for node in sorted(moves.roles) for word in ("--target", f"**tidepool:pool:Role::{node}")),
            *parallel(None),
        ]
        wish = DesiredNodes(
            {},
            HostSet.from_names(moves.roles),
            kubernetes=desired_kubernetes(pools.serving, pools.machines, moves.roles),
        )
        outcome = carry_out(stack, "up", *words, counted=True, aside=True, settings=wish.environment)
    said = tuple(each["message"] for each in outcome.diagnostics if each["severity"] == "error")
    return Driven(outcome.code, said)


def _under_way(stack: Stack, nodes: Iterable[str]) -> list[str]:
    """Return the ``nodes`` whose conversion has not ended.

    Raises:
        ConversionError: the journal cannot be read.
    """
    with closing(open_conversions(stack)) as journal:
        return [node for node in nodes if journal.under_way(node) is not None]


def desired_kubernetes(
    serving: Mapping[str, HostSet], machines: Mapping[str, Any], roles: Mapping[str, Role]
) -> dict[str, HostSet]:
    """Return by pool the machines that are to serve Kubernetes, when those of ``roles`` have theirs."""
    pools = {machines[node].name for node in roles}
    to_slurm = HostSet.from_names(node for node, role in roles.items() if role == "slurm")
    return {
        pool: (serving.get(pool, HostSet("")) - to_slurm)
        | HostSet.from_names(
            node for node, role in roles.items() if role == "kubernetes" and machines[node].name == pool
        )
        for pool in sorted(pools)
    }


@contextmanager
def _one_after_the_other(stack: Stack) -> Iterator[None]:
    """Pulumi's own lock would fail the second of two persons, whose order is written down already."""
    folder = stack.data / stack.name
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


class _Thread:
    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._done: list[Driven] = []
        self._thread: threading.Thread | None = None

    def go(self, moves: Moves) -> None:
        self._thread = threading.Thread(
            target=lambda: self._done.append(_run_and_tell(lambda: carry_out_all(self._stack, moves))),
            daemon=True,
        )
        self._thread.start()

    def ended(self, timeout_s: float) -> Driven | None:
        if self._thread is not None:
            self._thread.join(timeout_s)
        return self._done[0] if self._done else None

    def leave(self) -> None:
        """It goes on by itself."""


class _Fork:
    def __init__(self, stack: Stack) -> None:
        hear, self._orders = os.pipe()
        self._answers, tell = os.pipe()
        self._said = b""
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._orders)
            os.close(self._answers)
            _child(stack, hear, tell)
        os.close(hear)
        os.close(tell)

    def go(self, moves: Moves) -> None:
        words = {"roles": dict(moves.roles), "refresh": moves.refresh, "waits": sorted(moves.waits)}
        try:
            os.write(self._orders, json.dumps(words).encode())
        except BrokenPipeError:
            pass  # it died: `ended` says how
        os.close(self._orders)

    def ended(self, timeout_s: float) -> Driven | None:
        readable, _, _ = select.select([self._answers], [], [], timeout_s)
        if not readable:
            return None
        piece = os.read(self._answers, 1 << 16)
        self._said += piece
        if piece:
            return None
        try:
            told = json.loads(self._said)
            return Driven(int(told["code"]), tuple(told["said"]))
        except ValueError:
            code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            return Driven(FAILED, (f"the process that carried it out {how}",))

    def leave(self) -> None:
        for descriptor in (self._orders, self._answers):
            try:
                os.close(descriptor)
            except OSError:
                pass  # closed already: its order is given


def _child(stack: Stack, hear: int, tell: int) -> None:
    """The forked process: never returns."""
    code = FAILED
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # A pipe that nobody reads any more is no reason to stop halfway.
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        _into_log(stack.data / stack.name / LOG)
        with ahead(stack) as known:
            words = b"".join(iter(lambda: os.read(hear, 1 << 16), b""))
            if words:
                told = json.loads(words)
                alone = replace(stack.context, person=False)
                quiet = replace(
                    stack, context=alone, engine=alone.chosen_engine(), settings={**stack.settings, **known()}
                )
                moves = Moves(told["roles"], told["refresh"], frozenset(told["waits"]))
                signal.signal(signal.SIGINT, signal.default_int_handler)
                driven = _run_and_tell(lambda: carry_out_all(quiet, moves))
                code = driven.code
                _answer(tell, driven)
    except BaseException:  # noqa: BLE001  (nothing above this is its own)
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _answer(tell: int, driven: Driven) -> None:
    """Answer at once: nobody waits for what is to be tidied up yet."""
    try:
        os.write(tell, json.dumps({"code": driven.code, "said": driven.said}).encode())
    except BrokenPipeError:
        pass  # whoever watched has gone
    os.close(tell)


def _into_log(path: Path) -> None:
    """Standard streams go there, and none comes from a terminal."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    log = os.open(path, flags, 0o600)
    if os.fstat(log).st_size > _LOG_BYTES:
        os.ftruncate(log, 0)
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)


def _run_and_tell(work: Callable[[], Driven]) -> Driven:
    """Run ``work``; turn what it raises into a text for a person."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001  (told to whoever watches, and into the log)
        failure = failure_of(error)
        if failure is None:
            traceback.print_exc()
            return Driven(FAILED, (f"a fault of Tidepool: {error!r}",))
        return Driven(failure.code, tuple(filter(None, (failure.what, failure.remedy))))


#: What the program and the engine import.
_MODULES: Final = (
    "pulumi",
    "tidepool.components",
    "tidepool.cluster.spec_reading",
    "tidepool.engine.running",
)
_PLUGINS: Final = ("tidepool",)


@contextmanager
def ahead(stack: Stack) -> Iterator[Callable[[], Mapping[str, str]]]:
    """Import, start the plugin, and derive the key of the secrets, side by side; the plugin ends with it.

    Gives what waits for that, and says what to add to the operation's environment. What goes wrong here is not told: the
    operation does it again, and tells.
    """
    from tidepool.engine.errors import EngineError
    from tidepool.engine.providers.standing import StandingPlugins

    found: dict[str, str] = {}
    with StandingPlugins(stack.project, _PLUGINS, stack.environment) as plugins:

        def start() -> None:
            try:
                found.update(plugins.ready())
            except EngineError:
                pass

        beside = [threading.Thread(target=work) for work in (start, lambda: _derive_key(stack))]
        for thread in beside:
            thread.start()
        for name in _MODULES:
            import_module(name)

        def known() -> Mapping[str, str]:
            for thread in beside:
                thread.join()
            return found

        yield known


def _derive_key(stack: Stack) -> None:
    """Derive the key ahead, which takes a third of a second; whoever needs it later in this process has it then."""
    from tidepool.engine.state.secrets import PassphraseCrypter, SecretsError

    env = stack.environment
    try:
        path = state_files(stack)[0]
        if path is None or not (file := env.get("PULUMI_CONFIG_PASSPHRASE_FILE")):
            return
        salt = json.loads(path.read_text())["checkpoint"]["latest"]["secrets_providers"]["state"]["salt"]
        PassphraseCrypter(Path(file).read_text().strip(), salt).verify()
    except (OSError, ValueError, KeyError, TypeError, SecretsError):
        return
