"""Failures of verbs as a person reads them: the fault, its place, the remedy, and an exit code."""

from __future__ import annotations

from typing import Final

OK: Final = 0
#: It was tried, and did not work.
FAILED: Final = 1
#: The command line, the project or the spec is wrong. Nothing was changed.
USAGE: Final = 2
#: The cluster is not up, a machine is not there, Slurm does not answer.
NOT_THERE: Final = 3
#: This machine lacks what the cluster needs. Nothing was changed.
LACKS: Final = 4
#: Jobs would be lost. Nothing was changed.
JOBS: Final = 5
INTERRUPTED: Final = 130

#: Of `exec` and `kubectl`, whose other codes are the command's own.
EXEC_FAILED: Final = 125
#: Of `ssh`, whose other codes are the command's own: the one that ssh itself gives.
SSH_FAILED: Final = 255

#: As ``tidepool --help`` shows them.
EXIT_CODES: Final = (
    (OK, "done"),
    (FAILED, "failed: it was tried and did not work"),
    (USAGE, "the command line, the project or the spec is wrong; nothing was changed"),
    (NOT_THERE, "not there: the cluster is not up, no such machine, Slurm does not answer"),
    (LACKS, "this machine lacks something (`tidepool doctor`); nothing was changed"),
    (JOBS, "refused, because jobs would be lost; nothing was changed"),
    (10, "of `run`: it was not begun, and nothing was made"),
    (11, "of `run`: the cluster did not come up"),
    (12, "of `run`: the inputs did not come"),
    (13, "of `run`: the jobs were not submitted"),
    (14, "of `run`: jobs failed, or the cluster did not answer"),
    (15, "of `run`: outputs were not kept, or match nothing"),
    (16, "of `run`: the results are not what was written"),
    (20, "of `run`: its deadline passed; what was there is kept"),
    (21, "of `run`: its budget was used up; what was there is kept"),
    (22, "of `run`: it was cancelled; what was there is kept"),
    (EXEC_FAILED, "of `exec` and `kubectl`: Tidepool could not run it; all others are the command's own"),
    (INTERRUPTED, "interrupted before it began to change anything"),
    (SSH_FAILED, "of `ssh`: the machine was not reached; all others are the command's own"),
)


class Failure(Exception):
    """A verb ends here. ``what`` may have several lines; ``remedy`` is a step that mends it, or empty."""

    def __init__(self, what: str, *, remedy: str = "", code: int = FAILED) -> None:
        super().__init__(what)
        self.what = what
        self.remedy = remedy
        self.code = code


def failure_of(error: BaseException) -> Failure | None:
    """The failure that an error of the parts below is to a person; None for a fault of ours."""
    # Late: this costs an import of each part, which only a failure pays for.
    from tidepool.charts import DrawingError
    from tidepool.clients.kubernetes.contract import KubernetesError, Unreachable
    from tidepool.clients.slurm import SlurmError
    from tidepool.cluster.hostlist import HostlistError
    from tidepool.cluster.spec_reading import SpecError
    from tidepool.conversion.ports import ConversionError
    from tidepool.engine.config import ConfigError
    from tidepool.engine.errors import EngineError
    from tidepool.engine.project import ProjectError
    from tidepool.images import ImageError
    from tidepool.infrastructures.kubernetes_access import NoAccess
    from tidepool.infrastructures.local.kernel import BadSpec, LocalError, NoSuchMachine, NoSuchNetwork
    from tidepool.lab.errors import LabError
    from tidepool.runs.ports import RunError
    from tidepool.scaling.ports import JournalError, StackError

    match error:
        case Failure():
            return error
        case SlurmError():
            return Failure(
                f"{error.what} ({error.where})", remedy=error.remedy, code=_code_of_slurm_error(error)
            )
        case BadSpec() | SpecError() | ProjectError() | ConfigError() | HostlistError():
            return Failure(str(error), code=USAGE)
        case NoAccess():
            return Failure(str(error), code=NOT_THERE)
        case NoSuchMachine() | NoSuchNetwork():
            return Failure(str(error), remedy="`tidepool status` shows what is there", code=NOT_THERE)
        case KubernetesError():
            return Failure(str(error), code=NOT_THERE if isinstance(error, Unreachable) else FAILED)
        case (
            DrawingError()
            | ConversionError()
            | LocalError()
            | ImageError()
            | EngineError()
            | JournalError()
            | LabError()
            | RunError()
            | StackError()
        ):
            return Failure(str(error))
        case PermissionError():
            where = f"{error.filename}: " if error.filename else ""
            return Failure(f"{where}{error.strerror}", remedy="run it with sudo")
        case OSError():
            where = f"{error.filename}: " if error.filename else ""
            return Failure(f"{where}{error.strerror or error}")
        case _:
            return None


def _code_of_slurm_error(error: Exception) -> int:
    from tidepool.clients.slurm import ControllerDown, NotFound, TimedOut, Unreachable

    return NOT_THERE if isinstance(error, ControllerDown | NotFound | TimedOut | Unreachable) else FAILED
