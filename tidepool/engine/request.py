"""A request for an operation, and the surroundings that a verb of the command line works in."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TextIO

OperationKind = Literal["preview", "up", "refresh", "destroy"]
Color = Literal["always", "never", "raw", "auto"]

#: The CLI's words for the operations, in history and display.
KINDS: Final[Mapping[str, Literal["preview", "update", "refresh", "destroy"]]] = {
    "preview": "preview",
    "up": "update",
    "refresh": "refresh",
    "destroy": "destroy",
}


@dataclass(frozen=True, slots=True)
class World:
    """The surroundings of a verb: what it may know of and do to. ``cwd`` is absolute.

    ``interactive`` says that there is a person to ask; ``color`` whether and how to color what is shown;
    ``qualify_names`` asks for full stack names; ``skip_integrity_checks`` lets damaged states pass.
    """

    cwd: Path
    env: Mapping[str, str]
    stdout: TextIO
    stderr: TextIO
    interactive: bool = False
    color: Color = "auto"
    qualify_names: bool = False
    skip_integrity_checks: bool = False
    #: How much is to be logged, 0 to 11; and whether to stderr instead of nowhere.
    verbosity: int = 0
    log_to_stderr: bool = False
    log_flow: bool = False
    #: What is piped in; None reads the process's own stdin.
    stdin: TextIO | None = None
    #: Whether the process is the engine's own, to run one program in: see :mod:`tidepool.engine.program`.
    owns_process: bool = False

    @property
    def input(self) -> TextIO:
        """The stream that answers and contents are read from."""
        return self.stdin if self.stdin is not None else sys.stdin

    @property
    def home(self) -> Path:
        return Path(self.env["HOME"]) if self.env.get("HOME") else Path.home()

    @property
    def pulumi_home(self) -> Path:
        """The folder of Pulumi's own files: logins, plugins, which stack is selected."""
        return (self.cwd / self.env["PULUMI_HOME"]) if self.env.get("PULUMI_HOME") else self.home / ".pulumi"

    def flag(self, name: str) -> bool:
        """Tell whether the environment variable ``name`` switches something on."""
        return self.env.get(name, "").lower() in ("1", "t", "true")

    def say(self, text: str = "") -> None:
        """A line on stdout."""
        self.stdout.write(f"{text}\n")

    def tell(self, text: str) -> None:
        """A line on stderr."""
        self.stderr.write(f"{text}\n")


@dataclass(frozen=True, slots=True)
class OperationRequest:
    """The request for a preview, up, refresh or destroy. URNs in lists may hold ``*`` and ``**``.

    ``stack`` None is the selected stack. ``parallel`` None is the engine's own choice. ``refresh`` None
    leaves it to the project. ``event_log`` is a path, or ``tcp://HOST:PORT`` of a gRPC server of
    ``pulumirpc.Events``, which the Automation API of SDKs since 3.205 passes. ``client`` is the address
    of a language runtime that runs an inline program; None runs the project's program.
    """

    kind: OperationKind
    stack: str | None = None
    targets: tuple[str, ...] = ()
    target_dependents: bool = False
    replace: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    exclude_dependents: bool = False
    #: destroy: leave protected resources and what they need.
    exclude_protected: bool = False
    parallel: int | None = None
    continue_on_error: bool = False
    #: refresh, destroy: run the program first; None where it was not said.
    run_program: bool | None = None
    refresh: bool | None = None
    expect_no_changes: bool = False
    message: str = ""
    # Approval.
    skip_preview: bool = False
    yes: bool = False
    preview_only: bool = False
    # Pending creates of an operation that was cut off.
    clear_pending_creates: bool = False
    #: destroy: remove the stack afterwards.
    remove: bool = False
    # Configuration: ``KEY=VALUE`` texts, written to the stack's file first.
    config: tuple[str, ...] = ()
    config_path: bool = False
    config_file: str | None = None
    skip_config_validation: bool = False
    # Who runs the program, and who is told.
    client: str | None = None
    exec_kind: str = ""
    exec_agent: str = ""
    event_log: str | None = None
    # What is shown.
    json: bool = False
    diff: bool = False
    debug: bool = False
    show_config: bool = False
    show_full_output: bool = False
    show_reads: bool = False
    show_replacement_steps: bool = False
    show_sames: bool = False
    show_secrets: bool = False
    show_urns: bool = False
    suppress_outputs: bool = False
    suppress_progress: bool = False
