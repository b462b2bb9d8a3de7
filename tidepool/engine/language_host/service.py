"""The service `LanguageRuntime`: Python programs and plugins, run for the CLI by the interpreters that their projects name.

Source: `sdk/python/cmd/pulumi-language-python/main.go` of Pulumi. What generates code and packages is not served, as the
protocol has it for hosts that cannot; debugging and policy packs are refused.
"""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from tidepool.engine.errors import EngineError
from tidepool.engine.language_host import packages
from tidepool.engine.language_host.children import Children, said
from tidepool.engine.program.checking import Checker
from tidepool.engine.providers import interpreters
from tidepool.engine.rpc import messages

_PROJECT_FILE: Final = "Pulumi.yaml"
_ABOUT: Final = "import platform, sys; print(sys.executable); print(platform.python_version())"

_language: Final = messages("language_pb2")
_plugin: Final = messages("plugin_pb2")


def _with_text(method: Callable[..., Any]) -> Callable[..., Any]:
    """Tell the CLI of an error by its text, which is for people."""

    @functools.wraps(method)
    def call(host: LanguageHost, request: Any, context: Any) -> Any:
        import grpc

        try:
            return method(host, request, context)
        except EngineError as error:
            return context.abort(grpc.StatusCode.UNKNOWN, str(error))

    return call


class LanguageHost(messages("language_pb2_grpc").LanguageRuntimeServicer):  # type: ignore[misc]
    """The service's methods, as gRPC calls them, each on a thread of its own."""

    def __init__(self, executor: Path, environ: Mapping[str, str], engine: str = "") -> None:
        """``executor`` is the script that runs a program; ``engine`` the engine's address, where it is known."""
        self.children = Children()
        self._executor = executor
        self._environ = dict(environ)
        self._engine = engine

    def Handshake(self, request: Any, _context: Any) -> Any:  # noqa: N802 - the service's names
        self._engine = request.engine_address
        return _language.LanguageHandshakeResponse()

    def GetPluginInfo(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        """Tell of the host: its version is that of the SDK whose protocol it speaks."""
        from importlib.metadata import version

        return _plugin.PluginInfo(version=version("pulumi"))

    @_with_text
    def About(self, request: Any, _context: Any) -> Any:  # noqa: N802
        python, env = self._interpreter(request.info)
        try:
            said = subprocess.run([python, "-c", _ABOUT], env=env, capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise EngineError(f"{python} cannot be run: {error}") from error
        executable, release = said.stdout.splitlines()
        options = _options(request.info)
        used = {name: str(options[name]) for name in ("toolchain", "typechecker") if name in options}
        return _language.AboutResponse(executable=executable, version=release, metadata=used)

    @_with_text
    def GetRequiredPackages(self, request: Any, _context: Any) -> Any:  # noqa: N802
        """Tell which plugins the packages of the program's interpreter ask for."""
        from google.protobuf.json_format import ParseDict

        try:
            python, env = self._interpreter(request.info)
        except EngineError:
            # `Run` says so, where the CLI shows it; of an error here it ends without a word.
            return _language.GetRequiredPackagesResponse()
        plugins = packages.required_plugins(packages.installed(python, env))
        found = [ParseDict(each, _plugin.PackageDependency(), ignore_unknown_fields=True) for each in plugins]
        return _language.GetRequiredPackagesResponse(packages=found)

    @_with_text
    def GetProgramDependencies(self, request: Any, _context: Any) -> Any:  # noqa: N802
        """Tell which packages the program's interpreter has."""
        found = packages.installed(*self._interpreter(request.info))
        dependencies = [
            _language.DependencyInfo(name=each.name, version=each.version)
            for each in found
            if request.transitiveDependencies or not each.needed
        ]
        return _language.GetProgramDependenciesResponse(dependencies=dependencies)

    @_with_text
    def Run(self, request: Any, context: Any) -> Any:  # noqa: N802
        from tidepool.engine.program.host import REPORTED

        _refuse_debugger(request)
        folder = Path(request.info.program_directory)
        python, env = self._interpreter(request.info)
        if name := _options(request.info).get("typechecker"):
            self._check(Checker.of(name, Path(python), folder, _project(request.info)), env, context)
        env["PULUMI_CONFIG"] = json.dumps(dict(request.config))
        env["PULUMI_CONFIG_SECRET_KEYS"] = json.dumps(list(request.configSecretKeys))
        code = self._run([python, "-u", str(self._executor), *self._arguments(request)], env, folder, context)
        if code == REPORTED:
            return _language.RunResponse(bail=True)
        # As Pulumi's host tells of one that a signal ended, too.
        failed = f"program exited with non-zero exit code: {max(code, -1)}" if code else ""
        return _language.RunResponse(error=failed)

    @_with_text
    def RunPlugin(self, request: Any, context: Any) -> Iterator[Any]:  # noqa: N802
        """Run a plugin that is Python source, until the CLI ends it; what it says comes as it is said."""
        _refuse_debugger(request)
        if request.kind == "analyzer":
            raise EngineError("this language host runs no policy packs; the one that comes with Pulumi does")
        environ = {**self._environ, **dict(each.split("=", 1) for each in request.env)}
        folder = Path(request.info.program_directory)
        argv, more = interpreters.plugin_command(folder, environ, self._python())
        with ExitStack() as stack:
            process = stack.enter_context(
                self.children.running(
                    [*argv, *request.args], env=_activated(environ, more), cwd=Path(request.pwd), piped=True
                )
            )
            context.add_callback(lambda: self.children.end(process))
            held = stack.pop_all()

        def answers() -> Iterator[Any]:
            with held:
                for stream, piece in said(process):
                    yield _language.RunPluginResponse(**{stream: piece})
                if code := process.wait():
                    yield _language.RunPluginResponse(exitcode=code)

        return answers()

    def Cancel(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        from google.protobuf.empty_pb2 import Empty

        self.children.end_all()
        return Empty()

    @_with_text
    def InstallDependencies(self, request: Any, context: Any) -> Iterator[Any]:  # noqa: N802
        """Refuse: environments are used, and made by whoever has the project."""
        folder = request.info.root_directory
        venv = Path(folder) / str(_options(request.info).get("virtualenv") or "venv")
        raise EngineError(
            f"this language host installs no packages: `python3 -m venv {venv}` and "
            f"`{venv}/bin/python -m pip install -r {folder}/requirements.txt` do"
        )

    def RuntimeOptionsPrompts(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        """Ask nothing of whoever makes a project."""
        return _language.RuntimeOptionsResponse()

    def Template(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        """Leave a project as its template made it."""
        return _language.TemplateResponse()

    def _interpreter(self, info: Any) -> tuple[str, dict[str, str]]:
        """The interpreter that a project names, and its environment."""
        python, more = interpreters.find(
            Path(info.root_directory), _options(info), self._environ, self._python(), file=_project(info)
        )
        return python, _activated(self._environ, more)

    def _python(self) -> str:
        """The interpreter where none is named."""
        path = self._environ.get("PATH")
        return shutil.which("python3", path=path) or shutil.which("python", path=path) or sys.executable

    def _arguments(self, request: Any) -> list[str]:
        """The executor's, but for the configuration: arguments can be seen by all."""
        given = {
            "monitor": request.monitor_address,
            "engine": self._engine,
            "project": request.project,
            "root_directory": request.info.root_directory,
            "stack": request.stack,
            "pwd": request.pwd,
            "dry_run": "true" if request.dryRun else "false",
            "parallel": str(request.parallel),
            "organization": request.organization,
        }
        named = [word for name, value in given.items() if value for word in (f"--{name}", value)]
        return [*named, request.info.entry_point, *request.args]

    def _check(self, checker: Checker, env: Mapping[str, str], context: Any) -> None:
        with self.children.running(checker.command, env=env, cwd=checker.folder, piped=True) as process:
            context.add_callback(lambda: self.children.end(process))
            output = b"".join(piece for _, piece in said(process)).decode(errors="replace")
            code = process.wait()
        if checker.is_missing(code, output):
            raise EngineError(checker.missing())
        sys.stdout.write(output)
        sys.stdout.flush()
        if code:
            raise EngineError(checker.failed(code, output))

    def _run(self, argv: Sequence[str], env: Mapping[str, str], cwd: Path, context: Any) -> int:
        with self.children.running(argv, env=env, cwd=cwd) as process:
            # Called when the request is over, in whatever way.
            context.add_callback(lambda: self.children.end(process))
            return process.wait()


def _options(info: Any) -> dict[str, Any]:
    from google.protobuf.json_format import MessageToDict

    return dict(MessageToDict(info.options))


def _project(info: Any) -> Path:
    return Path(info.root_directory) / _PROJECT_FILE


def _activated(environ: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """The environment with a virtual one's variables, where there is one."""
    left_out = "PYTHONHOME" if more else None
    return {name: value for name, value in {**environ, **more}.items() if name != left_out}


def _refuse_debugger(request: Any) -> None:
    if request.attach_debugger:
        raise EngineError("this language host attaches no debugger; the one that comes with Pulumi does")
