"""Commands over SSH, to a real sshd."""

from __future__ import annotations

import fcntl
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

import paramiko
import pytest

from tests.clients.slurm.real import eventually
from tests.clients.slurm.sshd import Sshd
from tidepool.clients.slurm import Completed, TimedOut, Unreachable
from tidepool.clients.ssh import Ssh


@pytest.fixture
def ssh(sshd: Sshd) -> Iterator[Ssh]:
    made = connection(sshd)
    yield made
    made.close()


def connection(sshd: Sshd, key: Path | None = None, port: int = 0) -> Ssh:
    return Ssh(
        "127.0.0.1",
        port=port or sshd.port,
        user="root",
        key=key or sshd.key,
        known_hosts=sshd.known_hosts,
        environment={"SLURM_CONF": "/a b"},
    )


def test_a_command_is_an_argument_list_that_no_shell_reads(ssh: Ssh) -> None:
    completed = ssh.run(["printf", "%s|", "a b", "$HOME;*", "'\"", "\x1e\n", ""], timeout_s=10)
    assert completed == Completed(0, "a b|$HOME;*|'\"|\x1e\n||", "")


def test_it_has_the_environment_that_was_given_and_no_other(ssh: Ssh) -> None:
    seen = ssh.run(["env"], timeout_s=10).stdout.splitlines()
    assert {line for line in seen if not line.startswith("PATH=")} == {"SLURM_CONF=/a b"}


def test_input_output_errors_and_the_exit_code_come_through(ssh: Ssh) -> None:
    script = "import sys; sys.stderr.write('e' * 3_000_000); print(len(sys.stdin.read()) * 'o'); sys.exit(7)"
    completed = ssh.run(["python3", "-c", script], stdin="x" * 3_000_000, timeout_s=30)
    assert completed.exit_code == 7
    assert len(completed.stdout) == 3_000_001
    assert len(completed.stderr) == 3_000_000


def test_one_connection_serves_all_and_more_at_once_than_sshd_lets(sshd: Sshd, ssh: Ssh) -> None:
    before = sshd.logins()

    def say(number: int) -> str:
        return ssh.run(["sh", "-c", f"sleep 0.2; printf {number}"], timeout_s=30).stdout

    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(say, range(16)))
    assert answers == [str(n) for n in range(16)]
    assert sshd.logins() == before + 1


def test_who_closes_it_takes_it_from_nobody_whose_command_runs(ssh: Ssh, tmp_path: Path) -> None:
    began, goes_on = tmp_path / "began", tmp_path / "goes_on"
    script = f"touch {began}; until test -e {goes_on}; do sleep 0.02; done; echo whole"
    with ThreadPoolExecutor(1) as threads:
        other = threads.submit(ssh.run, ["sh", "-c", script], timeout_s=20)
        eventually(began.exists, bool)
        ssh.close()
        goes_on.touch()
        assert other.result().stdout == "whole\n"


def test_a_broken_connection_is_made_again(sshd: Sshd, ssh: Ssh) -> None:
    before = sshd.logins()
    assert ssh.run(["true"], timeout_s=10).exit_code == 0
    sshd.break_connections()
    assert ssh.run(["true"], timeout_s=10).exit_code == 0
    assert sshd.logins() == before + 2


def test_a_command_whose_connection_broke_is_not_sent_again(sshd: Sshd, ssh: Ssh, tmp_path: Path) -> None:
    began = tmp_path / "began"

    def pull() -> None:
        eventually(began.exists, bool)
        sshd.break_connections()

    puller = threading.Thread(target=pull)
    puller.start()
    script = f"import time; open({str(began)!r}, 'a').write('x'); time.sleep(20)"
    with pytest.raises(Unreachable, match="may have done its work"):
        ssh.run(["python3", "-c", script], timeout_s=20)
    puller.join()
    assert began.read_text() == "x"


def test_a_command_that_hangs_is_killed_there_too(ssh: Ssh, tmp_path: Path) -> None:
    held = tmp_path / "held"
    # A lock tells that the process is there: sshd has a PID namespace, whose numbers are other processes' here.
    script = f"import fcntl, time; file = open({str(held)!r}, 'w'); fcntl.flock(file, fcntl.LOCK_EX); time.sleep(600)"
    # The connection is there by then: the time is for the command alone, which has to begin in it.
    assert ssh.run(["true"], timeout_s=10).exit_code == 0
    began = time.monotonic()
    with pytest.raises(TimedOut, match="python3 did not end"):
        ssh.run(["python3", "-c", script], timeout_s=5)
    assert time.monotonic() - began < 15
    with held.open() as file:
        eventually(lambda: _locked(file), lambda locked: not locked)
    assert ssh.run(["true"], timeout_s=10).exit_code == 0


def _locked(file: IO[str]) -> bool:
    """Whether another process holds the lock of this file."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def test_an_unknown_host_is_refused_and_not_learned(sshd: Sshd) -> None:
    known = sshd.known_hosts.read_text()
    sshd.known_hosts.write_text("")
    try:
        with pytest.raises(Unreachable, match="the host's key is not the one that is known"):
            connection(sshd).run(["true"], timeout_s=10)
        assert sshd.known_hosts.read_text() == ""
    finally:
        sshd.known_hosts.write_text(known)


def test_a_host_with_another_key_is_refused(sshd: Sshd) -> None:
    sshd.write_known_hosts("other_key")
    try:
        with pytest.raises(Unreachable, match="the host's key is not the one that is known"):
            connection(sshd).run(["true"], timeout_s=10)
    finally:
        sshd.write_known_hosts("host_key")


def test_a_key_that_is_not_let_in_is_named(sshd: Sshd) -> None:
    with pytest.raises(Unreachable, match="other_key is not accepted"):
        connection(sshd, key=sshd.other_key).run(["true"], timeout_s=10)


_HOST_KEY = paramiko.ECDSAKey.generate()


class _Slow(paramiko.ServerInterface):
    """Looks at a key for as long as the test takes."""

    def __init__(self) -> None:
        self.is_over = threading.Event()

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        self.is_over.wait(60)
        return int(paramiko.common.AUTH_FAILED)


def test_a_host_that_does_not_come_to_look_at_the_key_is_slow_and_refuses_nobody(sshd: Sshd) -> None:
    slow = _Slow()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        sshd.known_hosts.write_text(f"[127.0.0.1]:{port} {_HOST_KEY.get_name()} {_HOST_KEY.get_base64()}\n")
        client = Ssh("127.0.0.1", port=port, user="root", key=sshd.key, known_hosts=sshd.known_hosts)

        def serve() -> None:
            accepted, _ = listening.accept()
            server = paramiko.Transport(accepted)
            server.add_server_key(_HOST_KEY)
            server.start_server(server=slow)
            slow.is_over.wait(60)
            server.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with pytest.raises(Unreachable, match="did not say in time whether it takes the key") as raised:
                client.run(["true"], timeout_s=3)
        finally:
            slow.is_over.set()
            thread.join()
            sshd.write_known_hosts("host_key")
    assert isinstance(raised.value.__cause__, TimeoutError)


def test_nobody_there_is_told_at_once(sshd: Sshd) -> None:
    with pytest.raises(Unreachable, match="no connection"):
        connection(sshd, port=1).run(["true"], timeout_s=10)


def test_known_hosts_that_are_missing_are_told_of(sshd: Sshd) -> None:
    client = Ssh("127.0.0.1", port=sshd.port, user="root", key=sshd.key, known_hosts=sshd.folder / "nowhere")
    with pytest.raises(Unreachable, match="nowhere"):
        client.run(["true"], timeout_s=10)
