"""The stack that a verb is about: the project's folder, the stack's name, and the engine that knows it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tidepool.cli.context import Connection, Context
from tidepool.cli.engine import (
    Answer,
    Engine,
    engine_settings,
    plugin_settings,
    prepare,
    remove_stale_encryptionsalt,
    without_new_encryptionsalt,
)
from tidepool.cli.errors import FAILED, LACKS, NOT_THERE, USAGE, Failure
from tidepool.cli.passphrase import COPY as SHARED_PASSPHRASE
from tidepool.cli.passphrase import NAME as PASSPHRASE
from tidepool.cli.ssh_access import ensure_ssh_access
from tidepool.cluster.desired_state import FORCE_SETTINGS as REGARDLESS
from tidepool.cluster.desired_state import NODES_VARIABLE, ONLY_VARIABLE, ROLES_VARIABLE
from tidepool.cluster.frozen import FrozenDict
from tidepool.engine.errors import INCORRECT_PASSPHRASE
from tidepool.engine.project import Project, find_project

if TYPE_CHECKING:
    from tidepool.clients.kubernetes.contract import KubernetesClient
    from tidepool.clients.slurm import SlurmClient

#: Of the engine: there is no stack of that name.
_NO_SUCH_STACK: Final = 6
#: What else is in the data folder.
_FORBIDDEN: Final = frozenset({"images", PASSPHRASE, "runs", SHARED_PASSPHRASE, "state"})


@dataclass(frozen=True, slots=True)
class Stack:
    """A stack of a project. It need not have been made yet."""

    context: Context
    project: Project
    name: str
    engine: Engine
    #: What the engine is told beyond the person's environment.
    settings: Mapping[str, str]

    @property
    def file(self) -> Path:
        """``Pulumi.<stack>.yaml``."""
        return self.project.stack_file(self.name)

    @property
    def data(self) -> Path:
        return self.context.data

    @property
    def environment(self) -> dict[str, str]:
        """The engine's whole environment. A person goes by the file: what is said to one operation is for that one alone."""
        own = (NODES_VARIABLE, ROLES_VARIABLE, ONLY_VARIABLE, *REGARDLESS)
        told = {name: value for name, value in self.context.env.items() if name not in own}
        return {**told, **self.settings}

    @property
    def may_have_state(self) -> bool:
        """There may be a state. Where its folder was never made, the engine is not asked, nor a folder made."""
        folder = self.data / "state"
        return self.environment.get("PULUMI_BACKEND_URL") != f"file://{folder}" or folder.is_dir()

    def require_root(self) -> None:
        """Machines of this machine are root's.

        Raises:
            Failure: this is somebody else.
        """
        if not self.context.root:
            raise Failure("machines here are root's", remedy="run it with sudo", code=LACKS)

    def open_slurm(self, connection: Connection) -> SlurmClient:
        return self.context.open_slurm(connection, self.data)

    def open_kubernetes(self, connection: Connection) -> KubernetesClient:
        return self.context.open_kubernetes(connection, self.data)

    def prepare(self) -> None:
        """Make what the engine needs in the data folder: see `tidepool.cli.engine`."""
        backend = self.environment.get("PULUMI_BACKEND_URL") or self.project.backend_url
        prepare(self.settings, self.data, self.environment, backend)

    def run(
        self,
        verb: str,
        *words: str,
        log: Path | None = None,
        aside: bool = False,
        settings: Mapping[str, str] = FrozenDict(),
    ) -> int:
        """An operation of the engine's on this stack; its exit code.

        With ``log``, its events are written there, a JSON document a line. ``aside`` shows it on standard error.
        ``settings`` are variables of this operation's alone, which tell the program or its providers something.
        """
        words = (verb, "--stack", self.name, *words)
        env = {**self.environment, **settings}
        if log is not None:
            # The CLI knows the flag only then.
            words, env = (*words, "--event-log", str(log)), {**env, "PULUMI_DEBUG_COMMANDS": "true"}
        with self.without_new_encryptionsalt():
            return self.engine.run(words, self.project.root, env, aside=aside)

    def ask(self, *words: str) -> Answer:
        """A quick verb of the engine's on this stack."""
        return self.engine.ask([*words, "--stack", self.name], self.project.root, self.environment)

    def outputs(self) -> dict[str, Any] | None:
        """The stack's outputs, with secrets masked; None where there is no such stack.

        Raises:
            Failure: the engine does not tell them.
        """
        found = self._document("the stack's outputs cannot be read", "output", "--json")
        if found:
            # Another administrator's machine may have made it.
            ensure_ssh_access(self.data, found, self._state_in_clear, lambda: is_changing(self))
        return found

    def _state_in_clear(self) -> dict[str, Any]:
        self.prepare()
        failed = f"the keys of the machines of stack {self.name} cannot be read from its state"
        return self._document(failed, "export", "--show-secrets") or {}

    def exported(self) -> dict[str, Any]:
        """The stack's state, with secrets encrypted; empty where there is no such stack.

        Raises:
            Failure: the engine does not tell it.
        """
        return self._document("the stack's state cannot be read", "export") or {}

    def _document(self, failed: str, *words: str) -> dict[str, Any] | None:
        answer = self.ask("stack", *words)
        if _is_missing(answer):
            return None
        found: dict[str, Any] = json.loads(_checked(answer, failed) or "{}")
        return found

    def secret(self, name: str) -> Any:
        """Return one output in the clear. It takes a third of a second: the key is derived from the passphrase.

        Raises:
            Failure: the engine does not tell it, or there is none of that name.
        """
        self.prepare()
        answer = self.ask("stack", "output", "--json", "--show-secrets", name)
        return json.loads(_checked(answer, f"the output '{name}' of stack {self.name} cannot be read"))

    def create(self) -> None:
        """Make it, empty; it is not selected.

        Raises:
            Failure: the engine does not make it.
        """
        command = ["stack", "init", self.name, "--no-select"]
        with self.without_new_encryptionsalt():
            answer = self.engine.ask(command, self.project.root, self.environment)
            lost = INCORRECT_PASSPHRASE in answer.stderr and self._has_own_passphrase
            if lost and remove_stale_encryptionsalt(self.file, self.project.name):
                answer = self.engine.ask(command, self.project.root, self.environment)
        _checked(answer, f"the stack {self.name} cannot be made")

    @property
    def _has_own_passphrase(self) -> bool:
        return "PULUMI_CONFIG_PASSPHRASE_FILE" in self.settings

    def without_new_encryptionsalt(self) -> AbstractContextManager[None]:
        """Guard a verb that may make a salt: see `tidepool.cli.engine`. Within another, the outer one counts."""
        return without_new_encryptionsalt(self.file, ours=self._has_own_passphrase)

    def remove(self) -> None:
        """Remove it from the engine's books, its history too; its configuration file stays.

        Raises:
            Failure: it still has resources, or the engine does not do it.
        """
        answer = self.ask("stack", "rm", "--yes", "--preserve-config")
        if not _is_missing(answer):
            _checked(answer, f"the stack {self.name} cannot be removed")


def find_stack(context: Context, name: str | None, folder: str | None) -> Stack:
    """The stack ``name`` of the project in ``folder`` (or above it); both may be left out.

    Raises:
        Failure: there is no project, no such folder, or no telling which stack.
        EngineError: the project is not right, or TIDEPOOL_ENGINE.
    """
    if folder:
        context = replace(context, cwd=(context.cwd / folder).resolve())
        if not context.cwd.is_dir():
            raise Failure(f"there is no folder {context.cwd}", code=USAGE)
    project = find_project(context.cwd)
    settings = engine_settings(context.env, context.data, project.backend_url)
    if not any(each.name == "tidepool" for each in project.providers):
        settings |= plugin_settings(context.env)
    backend = (
        settings.get("PULUMI_BACKEND_URL") or context.env.get("PULUMI_BACKEND_URL") or project.backend_url
    )
    stack = Stack(context, project, "", context.chosen_engine(), settings)
    named = name or context.env.get("TIDEPOOL_STACK") or _selected(context, project, backend) or _only(stack)
    return replace(stack, name=_checked_name(named))


def stacks_with_files(project: Project) -> list[str]:
    """The names of the stacks that have a configuration file."""
    suffix = project.file.suffix
    files = (project.root / project.stack_config_dir).glob(f"Pulumi.*{suffix}")
    return sorted(each.name.removeprefix("Pulumi.").removesuffix(suffix) for each in files)


def _selected(context: Context, project: Project, backend: str) -> str | None:
    """The stack that a person selected with the engine, where its configuration is still there."""
    from tidepool.engine.state.layout import selected_stack

    home = Path(context.env.get("HOME") or Path.home())
    pulumi_home = Path(context.env["PULUMI_HOME"]) if context.env.get("PULUMI_HOME") else home / ".pulumi"
    name = context.env.get("PULUMI_STACK") or selected_stack(pulumi_home, project, backend)
    return name.rpartition("/")[2] if name else None


def _only(stack: Stack) -> str:
    """The only stack of the project that is described, or that was made."""
    root, described = stack.project.root, stacks_with_files(stack.project)
    if not described:
        raise Failure(
            f"{root} has no Pulumi.<stack>.yaml, so no stack is described",
            remedy="write one, with the cluster's spec under cluster:spec (docs/cluster-spec.md)",
            code=USAGE,
        )
    if len(described) == 1:
        return described[0]
    made = [name for name in _made(stack) if name in described]
    if len(made) == 1:
        return made[0]
    first, *_ = made or described
    raise Failure(
        f"which stack? {root} has {', '.join(described)}",
        remedy=f"name it: --stack {first}, or TIDEPOOL_STACK={first}",
        code=USAGE,
    )


def _made(stack: Stack) -> list[str]:
    """The names of the project's stacks that the engine knows; none where it cannot tell."""
    if not stack.may_have_state:
        return []
    answer = stack.engine.ask(["stack", "ls", "--json"], stack.project.root, stack.environment)
    return [] if answer.code else [each["name"].rpartition("/")[2] for each in json.loads(answer.stdout)]


def _checked_name(name: str) -> str:
    from tidepool.infrastructures.local.kernel.spec import is_name

    if not is_name(name) or name in _FORBIDDEN:
        raise Failure(
            f"{name!r} cannot be a stack's name here; allowed are lower-case letters, digits and '-' within, at most "
            f"63 of them, and neither of {', '.join(sorted(_FORBIDDEN))}",
            code=USAGE,
        )
    return name


def _is_missing(answer: Answer) -> bool:
    # The code is the CLI's as well; older ones give 255 and the words.
    return answer.code == _NO_SUCH_STACK or (answer.code != 0 and "no stack named" in answer.stderr)


def _checked(answer: Answer, what: str) -> str:
    if answer.code:
        said = answer.stderr.strip().removeprefix("error: ")
        raise Failure(f"{what}: {said}", code=NOT_THERE if _is_missing(answer) else FAILED)
    return answer.stdout


def state_files(stack: Stack) -> tuple[Path | None, Path | None, Path | None]:
    """Return the file of the state, the folder of its locks and the engine's journal, where the backend is a folder."""
    from tidepool.engine.errors import NotSupportedError
    from tidepool.engine.state.layout import Layout, StackReference, backend_url
    from tidepool.engine.state.location import root_of

    env = stack.environment
    try:
        url = backend_url(env, stack.project.backend_url)
        layout = Layout(root_of(url, Path(env.get("HOME") or Path.home()), stack.project.root))
    except NotSupportedError:
        return None, None, None
    ref = StackReference(stack.project.name, stack.name)
    return layout.checkpoint(ref), layout.locks(ref), layout.journal(ref)


def is_changing(stack: Stack) -> bool:
    """Return whether somebody holds the lock of the stack, as far as its backend is one that is read here."""
    from tidepool.engine.errors import NotSupportedError
    from tidepool.engine.state.backend import DiyBackend
    from tidepool.engine.state.layout import StackReference, backend_url

    env = stack.environment
    try:
        url = backend_url(env, stack.project.backend_url)
        backend = DiyBackend.from_url(url, Path(env.get("HOME") or Path.home()), stack.project.root, env)
    except NotSupportedError:
        return False
    return bool(backend.bucket.names(backend.layout.locks(StackReference(stack.project.name, stack.name))))


#: In the stack's folder.
_SCALER_FOLDER: Final = "scaler"


def scaler_folder(stack: Stack) -> Path:
    """Return the folder of the scaler's journal and log."""
    return stack.data / stack.name / _SCALER_FOLDER


def has_journal(stack: Stack) -> bool:
    """Return whether there is a journal to read. Reading makes none."""
    folder = scaler_folder(stack)
    if not folder.exists() and "TIDEPOOL_JOURNAL" not in stack.context.env:
        return False
    # Late: it costs more than all that `status` needs besides.
    from tidepool.scaling.journal import JOURNAL_FILE, JOURNAL_VARIABLE

    return bool(stack.context.env.get(JOURNAL_VARIABLE)) or (folder / JOURNAL_FILE).exists()
