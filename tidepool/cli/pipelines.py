"""Pipelines that run a workload on a cluster of its own: the files of GitHub Actions, GitLab CI/CD and Jenkins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["github", "gitlab", "jenkins"]

WORKLOAD_FILE: Final = "workload.yaml"
#: Where the record is, in the folder that the pipeline works in.
RECORD: Final = "record"

#: What stands in each: `sudo` leaves out what it is not told to keep, and secrets are in no argument.
_KEPT: Final = "TIDEPOOL_RESULTS,AWS_ACCESS_KEY_ID,AWS_SECRET_ACCESS_KEY,AWS_DEFAULT_REGION"
_TIDEPOOL: Final = f"sudo --preserve-env={_KEPT} .venv/bin/tidepool"
_INSTALL: Final = "python3 -m venv .venv && .venv/bin/pip install --requirement requirements.txt"
_RUN: Final = f'{_TIDEPOOL} run STACK {WORKLOAD_FILE} --results "$TIDEPOOL_RESULTS" --record {RECORD}'
_REAP: Final = f'{_TIDEPOOL} reap --results "$TIDEPOOL_RESULTS"'

_WORKLOAD: Final = """\
# The work of a run. All keys are in docs/command.md of Tidepool, under run.
name: NAME
jobs:
  - name: hello
    script: |
      #!/bin/sh
      mkdir -p out
      hostname >out/host
outputs: ["out/*", "*.out"]
deadline: "1:00:00"
"""
_GITHUB: Final = f"""\
# Runs {WORKLOAD_FILE} on a cluster of its own, which ends with it. The runner is a machine where `tidepool doctor` lacks nothing.
# To be set in the repository: the variable TIDEPOOL_RESULTS (s3://BUCKET/FOLDER), and the secrets of who may write there.
name: cluster run
on:
  workflow_dispatch:
  push:
    branches: [main]
permissions:
  contents: read
jobs:
  run:
    runs-on: [self-hosted, linux, tidepool]
    timeout-minutes: 180
    env:
      TIDEPOOL_RESULTS: ${{{{ vars.TIDEPOOL_RESULTS }}}}
      AWS_DEFAULT_REGION: ${{{{ vars.AWS_DEFAULT_REGION }}}}
      AWS_ACCESS_KEY_ID: ${{{{ secrets.AWS_ACCESS_KEY_ID }}}}
      AWS_SECRET_ACCESS_KEY: ${{{{ secrets.AWS_SECRET_ACCESS_KEY }}}}
    steps:
      - uses: actions/checkout@v4
      - name: Install Tidepool
        run: {_INSTALL}
      - name: Run the workload
        run: {_RUN}
      - name: End what runs that were cut off left
        if: always()
        run: {_REAP}
      - name: Keep the record
        if: always()
        uses: actions/upload-artifact@v4
        with:
          name: record
          path: {RECORD}
          if-no-files-found: warn
"""
_GITLAB: Final = f"""\
# Runs {WORKLOAD_FILE} on a cluster of its own, which ends with it. The runner is a machine where `tidepool doctor` lacks nothing,
# with the shell executor. To be set in the project: the variables TIDEPOOL_RESULTS (s3://BUCKET/FOLDER), AWS_DEFAULT_REGION, and
# masked AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY of who may write there.
stages: [run]

cluster run:
  stage: run
  tags: [tidepool]
  timeout: 3 hours
  script:
    - {_INSTALL}
    - {_RUN}
  after_script:
    - {_REAP}
  artifacts:
    when: always
    expire_in: 90 days
    paths:
      - {RECORD}/
"""
_JENKINS: Final = f"""\
// Runs {WORKLOAD_FILE} on a cluster of its own, which ends with it. The agent is a machine where `tidepool doctor` lacks nothing.
// To be set in Jenkins: the credentials tidepool-access-key-id and tidepool-secret-access-key (secret texts) of who may write.
pipeline {{
    agent {{ label 'tidepool' }}
    parameters {{
        string(name: 'RESULTS', defaultValue: 's3://BUCKET/FOLDER', description: 'Where results are kept')
    }}
    options {{
        timeout(time: 3, unit: 'HOURS')
    }}
    environment {{
        TIDEPOOL_RESULTS = "${{params.RESULTS}}"
        AWS_ACCESS_KEY_ID = credentials('tidepool-access-key-id')
        AWS_SECRET_ACCESS_KEY = credentials('tidepool-secret-access-key')
    }}
    stages {{
        stage('Install') {{
            steps {{
                sh '{_INSTALL}'
            }}
        }}
        stage('Run') {{
            steps {{
                sh '{_RUN}'
            }}
        }}
    }}
    post {{
        always {{
            sh '{_REAP}'
            archiveArtifacts artifacts: '{RECORD}/**', allowEmptyArchive: true
        }}
    }}
}}
"""


@dataclass(frozen=True, slots=True)
class _Pipeline:
    file: str
    text: str


_PIPELINES: Final[Mapping[Kind, _Pipeline]] = {
    "github": _Pipeline(".github/workflows/cluster-run.yml", _GITHUB),
    "gitlab": _Pipeline(".gitlab-ci.yml", _GITLAB),
    "jenkins": _Pipeline("Jenkinsfile", _JENKINS),
}
KINDS: Final = tuple(_PIPELINES)
#: A workload's name has so many characters.
_LONGEST: Final = 20


def pipeline_file(kind: Kind, stack: str) -> Mapping[str, str]:
    """Return the text of a pipeline's file by its name: it runs the workload, ends what was cut off, and keeps the record."""
    made = _PIPELINES[kind]
    return {made.file: made.text.replace("STACK", stack)}


def workload_file(stack: str) -> Mapping[str, str]:
    """Return the text of a small workload to begin with, by its file's name."""
    return {WORKLOAD_FILE: _WORKLOAD.replace("NAME", stack[:_LONGEST].rstrip("-_").replace("_", "-"))}
