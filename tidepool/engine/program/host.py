"""The run of a Pulumi program: its settings, its event loop, its outputs, and the report of what went wrong.

The engine imports this module to run a program in its own process, and runs it as a script, by path, with
the interpreter of a project that has one of its own. So it imports nothing but the standard library and
the SDK. It does what the CLI's ``pulumi-language-python-exec`` does.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
import importlib.util
import json
import logging
import os
import runpy
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import ModuleSpec, PathFinder
from itertools import takewhile
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Final

#: Exit codes: the program failed and told why; it failed and something still has to be said.
REPORTED: Final = 32
FAILED: Final = 1


def run(
    program: str,
    *,
    settings: Mapping[str, Any],
    config: Mapping[str, str],
    secret_keys: Sequence[str],
    hidden: Sequence[str] = (),
    debug: bool = True,
    executor: Callable[[int], ThreadPoolExecutor] = ThreadPoolExecutor,
) -> int:
    """Run ``program`` (a file or a folder with ``__main__.py``) to its end; gives its exit code.

    ``settings`` are those of ``pulumi.runtime.Settings``. Frames of files below the folders in ``hidden`` are left out
    of tracebacks: they are not the person's. Without ``debug`` nobody sees debugging messages. ``executor`` makes that of the
    program's event loop, of so many threads.
    """
    try:
        import_sdk()
        import pulumi
        import pulumi.runtime
    except ImportError:
        print(
            "It looks like the Pulumi SDK has not been installed in "
            f"{sys.executable}. Have you run `pip install -r requirements.txt` there?",
            file=sys.stderr,
        )
        return FAILED
    _remember_what_is_constant()
    if not debug:
        # The SDK makes several for each resource.
        pulumi.log.debug = lambda *_args, **_kwargs: None
    pulumi.runtime.set_all_config(dict(config), list(secret_keys))
    configured = pulumi.runtime.Settings(**settings)
    configured.outputs = outputs = OutstandingOutputs()
    pulumi.runtime.configure(configured)
    sys.argv = [program]
    # As the CLI does: the program may import its neighbours.
    sys.path.insert(0, os.getcwd())  # noqa: PTH109
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    threads = executor(max(configured.parallel or 1, 1) * 4)
    loop.set_default_executor(threads)
    # A program that fails leaves futures that nobody awaits; asyncio's word on them helps nobody.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    path = os.path.abspath(program)  # noqa: PTH100 - no pathlib at this point of the start-up

    def execute() -> None:
        if os.path.isdir(path) and not os.path.exists(os.path.join(path, "__main__.py")):  # noqa: PTH110, PTH112, PTH118
            pulumi.log.error(f"unable to find main python program `__main__.py` in `{path}`")
            raise _Reported
        runpy.run_path(program, run_name="__main__")

    try:
        with outputs.tracking():
            loop.run_until_complete(pulumi.runtime.run_in_stack(execute))
    except _Reported:
        return REPORTED
    except pulumi.RunError as error:
        pulumi.log.error(str(error))
        return FAILED
    except SystemExit as error:
        return _exit_code(error)
    except Exception as error:  # noqa: BLE001 - whatever the program raises is told to its author
        message = "Program failed with an unhandled exception:\n"
        pulumi.log.error(message + own_traceback(error, path, hidden))
        return REPORTED
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
        loop.close()
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


#: Parts of the SDK that few programs use, and that take a quarter of its import (dill, http.client).
_LATER: Final = ("automation", "dynamic")


class _LaterModule(ModuleType):
    """A module that is imported when it is first asked for something; then it is an ordinary one.

    Not ``importlib.util.LazyLoader``: with Python 3.11 two threads must not use one at the same time.
    """

    _lock = threading.RLock()

    def __init__(self, spec: ModuleSpec) -> None:
        super().__init__(spec.name)
        self.__spec__ = spec
        self.__loader__ = spec.loader
        self.__file__ = spec.origin
        self.__package__ = spec.name

    def __getattr__(self, name: str) -> Any:
        with self._lock:
            # Its path is the first that an import below it asks for, and what importing it needs.
            if "__path__" not in vars(self):
                self._load()
        try:
            return vars(self)[name]
        except KeyError:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}") from None

    def __dir__(self) -> list[str]:
        self.__getattr__("__path__")
        return list(vars(self))

    def __reduce__(self) -> tuple[Any, ...]:
        # As modules are pickled by those who do: by name.
        return importlib.import_module, (self.__name__,)

    def _load(self) -> None:
        spec = self.__spec__
        assert spec is not None
        assert spec.loader is not None
        self.__path__ = list(spec.submodule_search_locations or ())
        try:
            spec.loader.exec_module(self)
        except BaseException:
            del self.__path__
            raise
        self.__class__ = ModuleType  # type: ignore[assignment]


def import_sdk() -> None:
    """Import the SDK, but for parts that a program may never use.

    Raises:
        ImportError: when it is not installed.
    """
    if "pulumi" not in sys.modules:
        sdk = importlib.util.find_spec("pulumi")
        folders = sdk.submodule_search_locations if sdk is not None else []
        for name in _LATER:
            spec = PathFinder.find_spec(f"pulumi.{name}", folders)
            if spec is not None and spec.submodule_search_locations:
                sys.modules[spec.name] = _LaterModule(spec)
    import pulumi

    for name in _LATER:
        # Also where this SDK leaves it to the program to import it.
        if (module := sys.modules.get(f"pulumi.{name}")) is not None:
            setattr(pulumi, name, module)


class _Reported(Exception):
    """The person was told what is wrong."""


def _remember_what_is_constant() -> None:
    """Let the SDK work out once what is the same for all resources of a class, or of a line of the program.

    It does so for each resource anew, which takes a fifth of the whole time. Other SDKs may not have these.
    """
    from pulumi import _types
    from pulumi.runtime import resource

    types_of = getattr(_types, "resource_types", None)
    if types_of is not None and not hasattr(types_of, "cache_info"):
        _types.resource_types = functools.cache(types_of)
    position_of = getattr(resource, "_get_source_position_for_frame", None)
    if position_of is not None:
        positions: dict[tuple[str, int | None], Any] = {}

        def position(frame: traceback.FrameSummary) -> Any:
            place = (frame.filename, frame.lineno)
            if place not in positions:
                positions[place] = position_of(frame)
            return positions[place]

        resource._get_source_position_for_frame = position
    if hasattr(resource, "traceback"):
        resource.traceback = SimpleNamespace(**{**vars(traceback), "extract_stack": _extract_stack})


def _extract_stack() -> list[traceback.FrameSummary]:
    """As ``traceback.extract_stack``, without the lines' text, for which that looks at each file anew.

    It begins with the program: the engine has no use for the frames of what runs it, which are most.
    """
    frames = takewhile(
        lambda each: each[0].f_code.co_filename != __file__, traceback.walk_stack(sys._getframe(1))
    )
    return [
        traceback.FrameSummary(frame.f_code.co_filename, line, frame.f_code.co_name, lookup_line=False)
        for frame, line in frames
    ][::-1]


def own_traceback(error: BaseException, program: str, hidden: Sequence[str]) -> str:
    """The traceback of ``error`` from the program's first frame on, without frames of ``hidden`` folders.

    What was not raised in the program's code, nor in code that it called, is told without a traceback: a refused
    request or a mistake in the program's text.
    """
    from grpc import RpcError

    report = traceback.TracebackException.from_exception(error)
    main = program if program.endswith(".py") else os.path.join(program, "__main__.py")  # noqa: PTH118
    machinery = _machinery(hidden)
    seen: set[int] = set()
    pending: list[tuple[traceback.TracebackException | None, BaseException | None]] = [(report, error)]
    while pending:
        part, raised = pending.pop()
        if part is None or raised is None or id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(raised.__context__, RpcError):
            # The SDK made its own error of it, with the same text.
            part.__context__ = None
        frames = list(part.stack)
        own = [n for n, f in enumerate(frames) if os.path.abspath(f.filename) == main]  # noqa: PTH100
        own = own or [n for n, f in enumerate(frames) if not f.filename.startswith(machinery)]
        if own:
            kept = [f for f in frames[own[0] :] if not (hidden and f.filename.startswith(tuple(hidden)))]
            part.stack = traceback.StackSummary.from_list(kept)
        else:
            part.stack = None  # type: ignore[assignment]  # then there is no heading either
        pending += [(part.__cause__, raised.__cause__), (part.__context__, raised.__context__)]
    return "".join(report.format())


def _machinery(hidden: Sequence[str]) -> tuple[str, ...]:
    """Return the paths of code that runs programs: the standard library, the SDK, the engine."""
    import pulumi

    library = Path(os.__file__).parent
    parts = [str(library / name) for name in ("asyncio", "concurrent", "threading.py", "contextlib.py")]
    sdk = f"{Path(pulumi.__file__).parent}{os.sep}"
    return ("<frozen ", sdk, *parts, *hidden)


def _exit_code(error: SystemExit) -> int:
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code
    print(error.code, file=sys.stderr)
    return FAILED


class OutstandingOutputs:
    """The outputs of a program that are not known yet, in place of the SDK's set of them.

    At its end a program waits for its outputs. The SDK does so with ``asyncio.wait`` over all of them, again
    for each that completes: with ten outputs a resource that is 10 s for 1,000 resources, and a hundred times
    that for 10,000. This stands where the SDK keeps its set (see ``Output._track`` and ``wait_for_rpcs``), and gives
    it one future to wait for: of all outputs, or of the first that fails.

    What succeeded is forgotten; what failed stays, to be told at the end, unless ``Output.recover`` discards it.
    """

    def __init__(self) -> None:
        self._running: set[asyncio.Future[Any]] = set()
        self._settled: asyncio.Future[None] | None = None

    @contextlib.contextmanager
    def tracking(self) -> Iterator[None]:
        """While this is entered, outputs are told to this object alone.

        The SDK looks its set up in the context, and locks it, twice for each output: a fifth of its time.
        """
        from pulumi import Output

        track = getattr(Output, "_track", None)
        if track is None:  # of another SDK, which does all of it
            yield
            return
        Output._track = lambda output: self.add(output._data)  # type: ignore[method-assign,assignment]
        try:
            yield
        finally:
            Output._track = track  # type: ignore[method-assign]

    def __len__(self) -> int:
        return len(self._running)

    def __iter__(self) -> Iterator[asyncio.Future[None]]:
        if self._settled is None or self._settled.done():
            self._settled = asyncio.get_running_loop().create_future()
            for output in [o for o in self._running if o.done()]:
                self._consider(output)
            self._settle_if_empty()
        yield self._settled

    def add(self, output: asyncio.Future[Any]) -> None:
        """Wait for ``output``, too; the future that was given out is not one of them."""
        if output is not self._settled:
            self._running.add(output)
            output.add_done_callback(self._done)

    def remove(self, output: asyncio.Future[Any]) -> None:
        """Forget ``output``; raises KeyError where it is not known."""
        self._running.remove(output)
        self._settle_if_empty()

    def discard(self, output: asyncio.Future[Any]) -> None:
        """Forget ``output``."""
        self._running.discard(output)
        self._settle_if_empty()

    def clear(self) -> None:
        """Nothing: the SDK takes the outputs out to put them back."""

    def _done(self, output: asyncio.Future[Any]) -> None:
        if not output.cancelled() and output.exception() is None:
            self.discard(output)
        else:
            # Not at once: whoever recovers from the failure is woken by it, and comes first.
            output.get_loop().call_soon(self._consider, output)

    def _consider(self, output: asyncio.Future[Any]) -> None:
        """Tell of a failure, where somebody waits and nobody recovered from it."""
        if output not in self._running or self._settled is None or self._settled.done():
            return
        self._running.discard(output)
        if output.cancelled():
            self._settled.set_exception(asyncio.CancelledError())
            return
        error = output.exception()
        if error is not None and not _is_expected(error):
            self._settled.set_exception(error)
        else:
            self._settle_if_empty()

    def _settle_if_empty(self) -> None:
        if not self._running and self._settled is not None and not self._settled.done():
            self._settled.set_result(None)


def _is_expected(error: BaseException) -> bool:
    # The engine told the program that the resource failed, and goes on with the others.
    from pulumi.runtime.stack import ResourceRegistrationFailed

    return isinstance(error, ResourceRegistrationFailed)


def _main() -> int:
    """Run as a script: the settings come as JSON in the environment, not in the arguments that all can see."""
    task = json.loads(os.environ.pop("TIDEPOOL_PROGRAM"))
    os.chdir(task["folder"])
    return run(
        task["program"],
        settings=task["settings"],
        config=json.loads(os.environ.get("PULUMI_CONFIG", "{}")),
        secret_keys=json.loads(os.environ.get("PULUMI_CONFIG_SECRET_KEYS", "[]")),
        hidden=[os.path.dirname(os.path.abspath(__file__))],  # noqa: PTH100, PTH120
        debug=task["debug"],
    )


if __name__ == "__main__":
    # The program must not import what lies beside this script by accident.
    sys.path.pop(0)
    sys.exit(_main())
