"""Reading a `Workload` from its file, and telling of all mistakes at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from tidepool.cluster.part_reading import mistake_of, seems_short
from tidepool.cluster.spec_entries import Mistake
from tidepool.engine.yaml_reading import YamlError, load
from tidepool.runs.urls import without_secrets
from tidepool.runs.workload import Workload
from tidepool.runs.workload_checks import disagreements

#: Slurm refuses longer ones by default (max_script_size, slurm.conf(5)).
_LONGEST_SCRIPT: Final = 4 * 2**20


class WorkloadError(ValueError):
    """A workload that cannot be run. Its text is for people and tells of all ``mistakes``."""

    def __init__(self, mistakes: tuple[Mistake, ...]) -> None:
        number = "one mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
        super().__init__("\n  ".join([f"{number} in the workload:", *map(str, mistakes)]))
        self.mistakes = mistakes


def read_workload_file(path: Path) -> Workload:
    """Read the file, and the scripts that it names, which stand beside it.

    Raises:
        WorkloadError: with every mistake in it.
    """
    try:
        given = load(path.read_text())
    except OSError as error:
        raise WorkloadError(
            (Mistake(str(path), None, f"{error.strerror}; name a workload's file"),)
        ) from error
    except (UnicodeDecodeError, YamlError) as error:
        raise WorkloadError((Mistake(str(path), None, f"{error}; write YAML in UTF-8"),)) from error
    if not isinstance(given, dict):
        raise WorkloadError((Mistake(str(path), None, "write keys and values: name, jobs, outputs"),))
    return read_workload(given, lambda name: _script(path.parent, name))


def read_workload(given: Mapping[str, Any], script: Callable[[str], str]) -> Workload:
    """Return the workload that ``given`` says, as YAML gives it. ``script`` reads the file of a script.

    Raises:
        WorkloadError: with every mistake in it, those of ``script`` (ValueError) among it.
    """
    mistakes: list[Mistake] = []
    workload: Workload | None = None
    try:
        workload = Workload.model_validate(dict(given))
    except ValidationError as error:
        # What the parts say to each other is asked once more, for pydantic asks only where every part is right.
        errors = [each for each in error.errors(include_url=False) if each["loc"]]
        mistakes += [_mistake(each) for each in errors if not seems_short(each, errors)]
        mistakes += disagreements(given)
    texts: dict[int, str] = {}
    for i, job in enumerate(workload.jobs if workload is not None else ()):
        if (name := job.script_file) is not None:
            try:
                texts[i] = script(name)
            except ValueError as error:
                mistakes.append(Mistake(f"jobs[{i}].script", name, str(error)))
    hook = None if workload is None else workload.first_boot
    if hook is not None and not hook.startswith("#!"):
        try:
            hook = script(hook)
        except ValueError as error:
            mistakes.append(Mistake("first_boot", hook, str(error)))
    if workload is None or mistakes:
        raise WorkloadError(tuple(mistakes))
    jobs = [
        job.model_copy(update={"script": texts.get(i, job.script)}) for i, job in enumerate(workload.jobs)
    ]
    return workload.model_copy(update={"jobs": tuple(jobs), "first_boot": hook})


def _mistake(error: ErrorDetails) -> Mistake:
    found = mistake_of(error, Workload)
    is_url = found.path.endswith(".url") and isinstance(found.value, str)
    return Mistake(found.path, without_secrets(str(found.value)), found.message) if is_url else found


def _script(folder: Path, name: str) -> str:
    try:
        text = (folder / name).read_text()
    except OSError as error:
        raise ValueError(
            f"{error.strerror}; name a file beside the workload's, or write the script here, `#!` first"
        ) from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{error}; a batch script is text in UTF-8") from error
    if not text.startswith("#!"):
        raise ValueError(
            "its first line is no `#!` with an interpreter, such as #!/bin/sh; Slurm refuses it so"
        )
    if len(text) > _LONGEST_SCRIPT:
        raise ValueError(
            f"Slurm takes scripts of {_LONGEST_SCRIPT} characters; name what is large among the inputs"
        )
    return text
