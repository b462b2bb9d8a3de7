"""Record what the Pulumi CLI answers to the scenarios: ``python -m tests.engine.verbs.record [NAME...]``.

Needs a ``pulumi`` command on PATH; its version is kept in the recordings.
"""

from __future__ import annotations

import getpass
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.engine.verbs.scenarios import SCENARIOS, UNSET, Scenario

RECORDED = Path(__file__).parent / "recorded"

#: A line of every help text.
_HELP = "\nUsage:\n"

#: What differs from run to run, and what stands for it in a recording.
_VOLATILE = (
    (re.compile(r"v1:[A-Za-z0-9+/=]{8,}:v1:[A-Za-z0-9+/=]+:[A-Za-z0-9+/=]+"), "<salt>"),
    (re.compile(r"v1:[A-Za-z0-9+/=]{16}:[A-Za-z0-9+/=]+"), "<ciphertext>"),
    (re.compile(r"20[23]\d-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*(Z|[+-]\d\d:\d\d)"), "<time>"),
    (re.compile(r"Last updated: .* \(.*\)"), "Last updated: <time>"),
    (re.compile(r"(?<=  )(now|\d+ \w+ ago) +"), "<ago> "),
    (re.compile(r"LAST UPDATE +"), "LAST UPDATE "),
    # A CLI built from source says 3.260.0 where a released one says v3.260.0.
    (re.compile(r"\bv?3\.260\.0\b"), "<version>"),
    (re.compile(r'"magic": "[0-9a-f]{64}"'), '"magic": "<magic>"'),
)


def normalized(text: str | None, folder: Path) -> str | None:
    """``text`` without what differs from run to run."""
    if text is None:
        return None
    text = text.replace(str(folder), "$DIR")
    for pattern, replacement in _VOLATILE:
        text = pattern.sub(replacement, text)
    # Names last: a short one stands in a salt now and then.
    text = re.sub(rf"\b{re.escape(socket.gethostname())}\b", "$HOST", text)
    text = re.sub(rf"\b{re.escape(getpass.getuser())}\b", "$USER", text)
    return "\n".join(line.rstrip() for line in text.split("\n"))


def environment(folder: Path, extra: dict[str, str]) -> dict[str, str]:
    """What a step's command line sees, beside PATH."""
    env = {
        "HOME": str(folder),
        "PULUMI_HOME": str(folder / "home"),
        "PULUMI_BACKEND_URL": f"file://{folder}/state",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PULUMI_CONFIG_PASSPHRASE": "pass",
        **{k: v.replace("$DIR", str(folder)) for k, v in extra.items()},
    }
    return {k: v for k, v in env.items() if v != UNSET}


def prepare(scenario: Scenario, folder: Path) -> None:
    """Make the folders and the project's files."""
    for name in ("project", "state", "home"):
        (folder / name).mkdir()
    for name, text in scenario.files.items():
        (folder / "project" / name).write_text(text)


def record(scenario: Scenario, folder: Path) -> list[Any]:
    """What each step of ``scenario`` came to."""
    prepare(scenario, folder)
    answers: list[Any] = []
    for step in scenario.steps:
        if step.write is not None:
            path = folder / step.write[0]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(step.write[1])
            answers.append(None)
        elif step.read is not None:
            path = folder / step.read
            answers.append(normalized(path.read_text(), folder) if path.exists() else None)
        else:
            assert step.run is not None
            args = [a.replace("$DIR", str(folder)) for a in step.run]
            done = subprocess.run(
                ["pulumi", "--non-interactive", *args],
                cwd=folder / "project",
                env={"PATH": os.environ["PATH"], **environment(folder, dict(step.env))},
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
                check=False,
            )
            answers.append(
                {
                    "run": " ".join(step.run),
                    # What the CLI explains at length is its own text; that it explains is enough.
                    "stdout": "<help>" if _HELP in done.stdout else normalized(done.stdout, folder),
                    "stderr": normalized(done.stderr, folder),
                    "code": done.returncode,
                }
            )
    return answers


def main() -> None:
    """Record the scenarios named on the command line, or all."""
    version = subprocess.run(["pulumi", "version"], capture_output=True, text=True, check=True).stdout.strip()
    RECORDED.mkdir(exist_ok=True)
    for scenario in SCENARIOS:
        if len(sys.argv) > 1 and scenario.name not in sys.argv[1:]:
            continue
        with tempfile.TemporaryDirectory() as name:
            answers = record(scenario, Path(name).resolve())
        text = json.dumps({"cli_version": version, "answers": answers}, indent=1, ensure_ascii=False)
        (RECORDED / f"{scenario.name}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
