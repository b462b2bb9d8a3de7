"""Which Python runs a project's program."""

from __future__ import annotations

import sys
from pathlib import Path

from tidepool.engine.errors import EngineError
from tidepool.engine.project import Project


def interpreter(project: Project) -> Path:
    """The interpreter of the project's virtual environment; this one where it names none.

    Raises:
        EngineError: where it names one that is not there.
    """
    named = project.runtime_options.get("virtualenv")
    if not named:
        return Path(sys.executable)
    folder = project.root / str(named)
    python = folder / "bin" / "python"
    if not python.exists():
        raise EngineError(
            f"the virtual environment {folder}, which {project.file} names under runtime.options.virtualenv, "
            f"has no bin/python. Make it: `python3 -m venv {folder}` and install the program's requirements"
        )
    if folder.resolve() == Path(sys.prefix).resolve():
        return Path(sys.executable)
    return python
