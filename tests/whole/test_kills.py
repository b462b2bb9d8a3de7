"""kill -9 of the provider, and of everything, at each step of a grow and of a shrink: the next `up` ends right."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests import versions
from tests.whole.cluster import TIDEPOOL, Cluster, until
from tests.whole.conftest import a_cluster
from tidepool.infrastructures.local import kernel

pytestmark = [pytest.mark.slow, pytest.mark.runs("local", versions.slurm())]

# The blow falls at the first machine or node, on the way, and at the last; on the provider and on everything in turns.
_MOST = 6
#: How often it is tried to strike before an operation's end, each time earlier.
_TRIES = 3


@pytest.fixture(scope="module")
def cluster(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One whose fleet grows and goes again."""
    with a_cluster(tmp_path_factory.mktemp("kills"), images) as it:
        it.spec["fleets"][0]["max_nodes"] = _MOST
        it.spec["fleets"][0]["min_nodes"] = 0
        it.up()
        yield it


@pytest.mark.parametrize(("step", "victim"), [(1, "provider"), (3, "everything"), (6, "provider")])
def test_killed_while_machines_are_made(cluster: Cluster, step: int, victim: str) -> None:
    _killed(
        cluster,
        victim,
        [max(1, step - n) for n in range(_TRIES)],
        lambda: _is_to_grow(cluster),
        lambda made: len(_machines(cluster)) >= made,
    )
    cluster.up()
    assert cluster.idle() == _names(_MOST)
    assert _machines(cluster) == _names(_MOST)


@pytest.mark.parametrize(("step", "victim"), [(1, "everything"), (3, "provider"), (6, "everything")])
def test_killed_while_nodes_join(cluster: Cluster, step: int, victim: str) -> None:
    _killed(
        cluster,
        victim,
        [max(1, step - n) for n in range(_TRIES)],
        lambda: _is_to_grow(cluster),
        lambda up: len(cluster.nodes()) >= up,
    )
    cluster.up()
    assert cluster.idle() == _names(_MOST)
    assert _machines(cluster) == _names(_MOST)


@pytest.mark.parametrize(("left", "victim"), [(5, "everything"), (3, "provider"), (0, "everything")])
def test_killed_while_nodes_leave(cluster: Cluster, left: int, victim: str) -> None:
    _fleet(cluster, _MOST)
    fleets = cluster.spec["fleets"]

    def is_to_shrink() -> None:
        cluster.spec["fleets"] = fleets
        cluster.up()
        cluster.spec["fleets"] = []

    try:
        _killed(
            cluster,
            victim,
            [min(_MOST - 1, left + n) for n in range(_TRIES)],
            is_to_shrink,
            lambda left: len(_machines(cluster)) <= left,
        )
        cluster.up()
        assert _machines(cluster) == []
        assert cluster.nodes() == {}
    finally:
        cluster.spec["fleets"] = fleets
    cluster.up()


@pytest.mark.parametrize("victim", ["provider", "everything"])
def test_killed_in_a_down(images: Path, tmp_path: Path, victim: str) -> None:
    with a_cluster(tmp_path / "project", images) as cluster:
        before = len(kernel.list_machines(cluster.data, cluster.stack))
        _killed(
            cluster,
            victim,
            [1] * _TRIES,
            cluster.up,
            lambda gone: len(kernel.list_machines(cluster.data, cluster.stack)) <= before - gone,
            verb=("down", "--yes"),
        )
        cluster.tidepool("down", "--yes", "--force")
        assert kernel.list_machines(cluster.data, cluster.stack) == ()
        assert kernel.list_networks(cluster.data, cluster.stack) == ()


def _fleet(cluster: Cluster, nodes: int) -> None:
    cluster.spec["fleets"][0]["min_nodes"] = nodes


def _emptied(cluster: Cluster) -> None:
    """Without its nodes: a fleet that goes and comes again."""
    fleets = cluster.spec["fleets"]
    cluster.spec["fleets"] = []
    cluster.up()
    cluster.spec["fleets"] = fleets
    _fleet(cluster, 0)
    cluster.up()
    assert _machines(cluster) == []


def _machines(cluster: Cluster) -> list[str]:
    """Those of nodes."""
    return sorted(
        m.name for m in kernel.list_machines(cluster.data, cluster.stack) if m.name.startswith("cpu-")
    )


def _names(number: int) -> list[str]:
    return [f"cpu-{n}" for n in range(1, number + 1)]


def _is_to_grow(cluster: Cluster) -> None:
    _emptied(cluster)
    _fleet(cluster, _MOST)


def _killed(
    cluster: Cluster,
    victim: str,
    steps: Sequence[int],
    prepared: Callable[[], object],
    moment: Callable[[int], bool],
    verb: tuple[str, ...] = ("up", "--yes"),
) -> None:
    """Run the verb, and strike at the first of the steps; where it was over by then, all again, and at the next of them."""
    for step in steps:
        prepared()
        if _is_struck(cluster, victim, lambda step=step: moment(step), verb):  # type: ignore[misc]
            return
    pytest.fail(f"it was over before each of {steps}")


def _is_struck(cluster: Cluster, victim: str, moment: Callable[[], bool], verb: tuple[str, ...]) -> bool:
    """Run the verb, and strike when the moment has come; whether that was before its end. It stands still meanwhile."""
    cluster.write_spec()
    provider: int | None = None
    with _running(cluster, verb) as operation:

        def is_now() -> bool | None:
            nonlocal provider
            provider = provider or _provider(operation.pid)
            return moment() or operation.poll() is not None or None

        until(is_now, "the moment", 60, 0.002)
        # Both, the plugin first: a removal is soon done.
        if provider is not None:
            with suppress(ProcessLookupError):
                os.kill(provider, signal.SIGSTOP)
        if operation.poll() is None:
            os.killpg(operation.pid, signal.SIGSTOP)
        if operation.poll() is not None:
            with suppress(ProcessLookupError):  # whoever ends after it
                os.killpg(operation.pid, signal.SIGCONT)
            said, _ = operation.communicate(timeout=120)
            assert operation.returncode == 0, said.decode()
            return False
        is_hit = False
        if provider is not None:
            with suppress(ProcessLookupError):  # it had ended by itself: once more
                os.kill(provider, signal.SIGKILL)
                is_hit = True
        os.killpg(operation.pid, signal.SIGKILL if victim == "everything" else signal.SIGCONT)
        operation.communicate(timeout=120)
        # Without the plugin it may only end well where it had no more to ask of it.
        return is_hit and operation.returncode != 0


@contextmanager
def _running(cluster: Cluster, verb: tuple[str, ...]) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [str(TIDEPOOL), "--stack", cluster.stack, *verb],
        cwd=cluster.folder,
        env=cluster.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as operation:
        try:
            yield operation
        finally:
            # One that stands still would be waited for without end.
            with suppress(ProcessLookupError):
                os.killpg(operation.pid, signal.SIGKILL)


def _provider(session: int) -> int | None:
    """The plugin's process in the session of an operation."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().split(b"\0")
            its = int((folder / "stat").read_text().rpartition(")")[2].split()[3])
        except (OSError, ValueError, IndexError):
            continue
        if its == session and any(part.endswith(b"/provider") for part in command):
            return int(folder.name)
    return None
