"""Services by which a controller of a run's cluster ends the run where who began it is gone."""

from __future__ import annotations

from importlib.resources import files

from tidepool.cluster.boot import Folder, Service
from tidepool.cluster.run_service import CREDENTIALS_FILE, RUN_FILES_PROGRAM, RUN_FOLDER, RUN_PROGRAM
from tidepool.infrastructures.contract import Boot, File


def run_boot() -> Boot:
    """Run the program that ends the run, once the machine has the credentials for it: they come while it runs.

    None is in the boot, nor in the stack's state. The service is the last: nothing waits for it.
    """
    programs = files("tidepool.runs")
    serve = ("/usr/bin/python3", "-I", "-S", RUN_PROGRAM, "serve")
    return Boot(
        services=(Service("run", serve, begins=f"path:{CREDENTIALS_FILE}"),),
        files=(
            File(RUN_PROGRAM, programs.joinpath("controller_agent.py").read_text(encoding="utf-8")),
            File(RUN_FILES_PROGRAM, programs.joinpath("files_agent.py").read_text(encoding="utf-8")),
        ),
        folders=(Folder(RUN_FOLDER, "0700"),),
    )
