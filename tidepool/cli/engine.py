"""The engine seam: the same command lines for the Pulumi CLI and for the embedded engine, and the environment of both.

It says where state and its passphrase are, so that `pulumi` finds the same stack.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, TextIO

from tidepool.cli.errors import LACKS, Failure
from tidepool.cli.passphrase import ensure_passphrase, passphrase_file
from tidepool.cli.show import tell, warn
from tidepool.engine.choice import BUILT, EngineName, chosen_engine, pulumi_cli
from tidepool.engine.state import files


@dataclass(frozen=True, slots=True)
class Answer:
    """The exit code and the output of a quick verb of the engine."""

    code: int
    stdout: str
    stderr: str


class Engine(Protocol):
    """Carries out command lines of the Pulumi CLI in a project's folder. ``env`` is the whole environment."""

    @property
    def name(self) -> EngineName:
        """The name that TIDEPOOL_ENGINE chooses it by."""
        ...

    def run(self, words: Sequence[str], folder: Path, env: Mapping[str, str], *, aside: bool) -> int:
        """An operation, shown to the person as it goes on; its exit code.

        ``aside`` shows it on standard error: standard output is somebody else's.
        """
        ...

    def ask(self, words: Sequence[str], folder: Path, env: Mapping[str, str]) -> Answer:
        """A quick verb; nobody is asked anything."""
        ...


_ASK_S: Final = 60.0


def choose(env: Mapping[str, str], *, person: bool, owns_process: bool) -> Engine:
    """The engine that ``env`` wants (`tidepool.engine.command`); ``person`` and ``owns_process`` are as of a `Context`.

    Raises:
        EngineError: TIDEPOOL_ENGINE names none that is there.
    """
    if chosen_engine(env) == "embedded":
        return Embedded(person, owns_process)
    return Pulumi(str(pulumi_cli(env)))


@dataclass(frozen=True, slots=True)
class Embedded:
    """The embedded engine, in this process."""

    person: bool
    owns_process: bool
    name: EngineName = "embedded"

    def run(self, words: Sequence[str], folder: Path, env: Mapping[str, str], *, aside: bool) -> int:
        from tidepool.engine.command import main

        env = {"GRPC_VERBOSITY": "ERROR", **env}
        if self.owns_process:
            os.environ.update(env)  # gRPC reads the process's own
        stdout: TextIO = sys.stderr if aside else sys.stdout
        return main(words, folder, env, stdout, sys.stderr, self.person, owns_process=self.owns_process)

    def ask(self, words: Sequence[str], folder: Path, env: Mapping[str, str]) -> Answer:
        from tidepool.engine.command import main

        stdout, stderr = io.StringIO(), io.StringIO()
        code = main(
            ["--non-interactive", *words], folder, env, stdout, stderr, interactive=False, stdin=io.StringIO()
        )
        return Answer(code, stdout.getvalue(), stderr.getvalue())


@dataclass(frozen=True, slots=True)
class Pulumi:
    """The Pulumi CLI: its path."""

    program: str
    name: EngineName = "pulumi"

    def run(self, words: Sequence[str], folder: Path, env: Mapping[str, str], *, aside: bool) -> int:
        stdout = sys.stderr if aside else None
        if Path(self.program).is_relative_to(BUILT):
            tell(f"engine: the Pulumi CLI that `make pulumi` built, {self.program}")
        # It hears of the terminal's interrupts by itself, and ends what is under way before it ends.
        with (
            _passing_on() as begun,
            subprocess.Popen([self.program, *words], cwd=folder, env=env, stdout=stdout) as process,
        ):
            begun(process)
            return process.wait()

    def ask(self, words: Sequence[str], folder: Path, env: Mapping[str, str]) -> Answer:
        command = [self.program, "--non-interactive", *words]
        try:
            ended = subprocess.run(
                command,
                cwd=folder,
                env=env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_ASK_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Failure(f"`pulumi {' '.join(words)}` did not end within {_ASK_S:g} s") from None
        return Answer(ended.returncode, ended.stdout, ended.stderr)


@contextlib.contextmanager
def _passing_on() -> Iterator[Callable[[subprocess.Popen[bytes]], None]]:
    """Outlive interrupts, which are the child's to answer, and pass on what only this process was sent.

    It begins before the child, which must not be left alone; gives what is told of the child once it is there.
    """
    children: list[subprocess.Popen[bytes]] = []
    early: list[int] = []

    def pass_on(number: int, _frame: object) -> None:
        for child in children:
            child.send_signal(number)
        if not children:
            early.append(number)

    def begun(child: subprocess.Popen[bytes]) -> None:
        children.append(child)
        for number in early:
            child.send_signal(number)

    with handled_signals({signal.SIGINT: ignore, signal.SIGTERM: pass_on}):
        yield begun


def ignore(_number: int, _frame: object) -> None:
    """Ignore a signal, without SIG_IGN, which a child would inherit."""


@contextlib.contextmanager
def handled_signals(handlers: Mapping[signal.Signals, Callable[[int, object], object]]) -> Iterator[None]:
    """Have signals handled so, and afterwards as before."""
    kept = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, before in kept.items():
            signal.signal(number, before)


_SETTINGS = {
    # There is nothing to download, and looking costs seconds.
    "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
    "PULUMI_SKIP_UPDATE_CHECK": "true",
}


def engine_settings(env: Mapping[str, str], data: Path, project_backend: str = "") -> dict[str, str]:
    """Return the variables that the engine needs beyond ``env``. Those that a person set are left as they are.

    ``project_backend`` is the backend's URL that Pulumi.yaml names, or empty.
    """
    settings = {"TIDEPOOL_DATA": str(data)}
    if not (env.get("PULUMI_BACKEND_URL") or project_backend):
        settings["PULUMI_BACKEND_URL"] = f"file://{data / 'state'}"
    # An empty passphrase is one: it is that the variable is there that counts.
    if "PULUMI_CONFIG_PASSPHRASE" not in env and not env.get("PULUMI_CONFIG_PASSPHRASE_FILE"):
        settings["PULUMI_CONFIG_PASSPHRASE_FILE"] = str(passphrase_file(data, env))
        # Then the salt is in the state alone: see `tidepool.cli.engine`.
        settings["PULUMI_FALLBACK_TO_STATE_SECRETS_MANAGER"] = "true"
    settings.update({name: value for name, value in _SETTINGS.items() if not env.get(name)})
    return settings


def plugin_settings(env: Mapping[str, str]) -> dict[str, str]:
    """Return a PATH on which `pulumi` finds the plugin `tidepool` that pip installed; nothing where it is on it already."""
    script = Path(sys.executable).with_name("pulumi-resource-tidepool")
    path = env.get("PATH", "")
    if not script.is_file() or shutil.which(script.name, path=path):
        return {}
    return {"PATH": os.pathsep.join(filter(None, [str(script.parent), path]))}


def prepare(settings: Mapping[str, str], data: Path, env: Mapping[str, str], backend: str) -> None:
    """Make what ``settings`` name below the data folder: the state's folder, and a passphrase where there is none.

    ``env`` is the engine's whole environment, and ``backend`` the URL of the state.

    Raises:
        Failure: it may not be written, or there is no passphrase that others share.
        EngineError: the shared one cannot be had.
    """
    try:
        data.mkdir(parents=True, exist_ok=True)
        if settings.get("PULUMI_BACKEND_URL") == f"file://{data / 'state'}":
            (data / "state").mkdir(mode=0o700, exist_ok=True)
            (data / "state").chmod(0o700)
        if settings.get("PULUMI_CONFIG_PASSPHRASE_FILE") == str(passphrase_file(data, env)):
            ensure_passphrase(data, env, backend)
    except OSError as error:
        raise Failure(
            f"the data folder {data} cannot be written: {error.strerror} ({error.filename})",
            remedy="run it as root, with sudo; or name another folder by TIDEPOOL_DATA",
            code=LACKS,
        ) from error


_NAME: Final = "encryptionsalt"
_KEY: Final = f"{_NAME}:".encode()


@contextmanager
def without_new_encryptionsalt(file: Path, *, ours: bool) -> Iterator[None]:
    """Keep the salt that an engine makes out of ``Pulumi.<stack>.yaml``, where the passphrase is ``ours``.

    A passphrase that Tidepool made is the data folder's. A salt of it in a file that people share would be a wrong
    one on every other machine, and here when the data folder is made anew. The state has the salt as well, and
    PULUMI_FALLBACK_TO_STATE_SECRETS_MANAGER has both engines look there.
    """
    if not ours or _has_encryptionsalt(file):
        yield
        return
    before = file.read_bytes() if file.exists() else None
    try:
        yield
    finally:
        _remove_new_encryptionsalt(file, before)


def _remove_new_encryptionsalt(file: Path, before: bytes | None) -> None:
    if _has_encryptionsalt(file):
        # Whoever writes YAML writes all of it a little different: where a person wrote nothing meanwhile, theirs is back.
        kept = _without_encryptionsalt(file)
        same = before is not None and before != kept and _content(before) == _content(kept)
        files.write(file, before if before is not None and same else kept)


def remove_stale_encryptionsalt(file: Path, project: str) -> bool:
    """Take a salt of another passphrase out of ``file``; whether it was. Not where something is encrypted with it."""
    from tidepool.engine.config import is_secure
    from tidepool.engine.config_file import read

    if not _has_encryptionsalt(file) or any(map(is_secure, read(file, project).values.values())):
        return False
    warn(
        f"{file}: encryptionsalt was of another passphrase, and nothing is encrypted with it; it is taken out"
    )
    files.write(file, _without_encryptionsalt(file))
    return True


def _content(text: bytes) -> Any:
    """Return the content of a stack's file without the encryption salt."""
    from tidepool.engine.yaml_reading import load

    document = load(text.decode())
    return {k: v for k, v in document.items() if k != _NAME} if isinstance(document, dict) else document


def _without_encryptionsalt(file: Path) -> bytes:
    kept = [line for line in file.read_bytes().splitlines(keepends=True) if not line.startswith(_KEY)]
    return b"".join(kept)


def _has_encryptionsalt(file: Path) -> bool:
    try:
        return any(line.startswith(_KEY) for line in file.read_bytes().splitlines())
    except FileNotFoundError:
        return False
