"""Reading workloads: what they say to Slurm, and every mistake at once, each with its key and what to write."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties import runs
from tests.runs.workloads import job, mapping, no_files, workload
from tidepool.runs.times import limit_s
from tidepool.runs.workload_reading import WorkloadError, read_workload, read_workload_file


def told(given: dict[str, Any]) -> list[str]:
    with pytest.raises(WorkloadError) as error:
        read_workload(given, no_files)
    return [str(mistake) for mistake in error.value.mistakes]


def test_a_job_says_to_sbatch_what_its_keys_say() -> None:
    said = job(
        "big", array="0-9%4", nodes=2, tasks=8, cpus_per_task=2, memory="2GiB", gpus="a100:2", gres=["lic:1"],
        features="std", partition="main", account="phys", qos="high", time="1:30:00", exclusive=True,
    )  # fmt: skip
    request = (
        workload(said)
        .job("big")
        .request(user="ada", work_dir="/home/ada/run", output="big.out", dependency="afterok:7", grace_s=60)
    )
    assert request.arguments() == [
        "--job-name=big", "--partition=main", "--account=phys", "--qos=high", "--uid=ada", "--nodes=2", "--ntasks=8",
        "--cpus-per-task=2", "--mem=2048M", "--constraint=std", "--gres=lic:1", "--gpus=a100:2", "--array=0-9%4",
        "--dependency=afterok:7", "--time=90:00", "--chdir=/home/ada/run", "--output=big.out", "--exclusive", "--requeue",
        "--signal=B:TERM@60",
    ]  # fmt: skip
    assert request.script == "#!/bin/sh\nexec true\n"


def test_a_command_is_no_text_for_a_shell() -> None:
    words = ["./x", "a b", "$HOME", "'"]
    text = workload(job(command=words)).jobs[0].text
    assert text == "#!/bin/sh\nexec ./x 'a b' '$HOME' ''\"'\"''\n"


def test_a_script_is_a_file_beside_the_workload_s_or_stands_in_it(tmp_path: Path) -> None:
    (tmp_path / "one.sh").write_text("#!/bin/bash\nhostname\n")
    (tmp_path / "workload.yaml").write_text(
        "name: x\njobs:\n- {name: one, script: one.sh}\n- name: two\n  script: |\n    #!/bin/sh\n    date\n"
    )
    found = read_workload_file(tmp_path / "workload.yaml")
    assert [each.text for each in found.jobs] == ["#!/bin/bash\nhostname\n", "#!/bin/sh\ndate\n"]


def test_a_hook_is_a_file_too(tmp_path: Path) -> None:
    (tmp_path / "hook").write_text("#!/bin/sh\nmodprobe x\n")
    (tmp_path / "w.yaml").write_text("name: x\nfirst_boot: hook\njobs: [{name: a, command: [date]}]\n")
    assert read_workload_file(tmp_path / "w.yaml").first_boot == "#!/bin/sh\nmodprobe x\n"
    (tmp_path / "hook").unlink()
    with pytest.raises(WorkloadError, match="first_boot = 'hook': No such file or directory; name a file"):
        read_workload_file(tmp_path / "w.yaml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "No such file or directory"),
        ("a: [", "invalid YAML"),
        ("- a", "write keys and values"),
        ("name: x\njobs: [{name: a, script: nix.sh}]", "jobs[0].script = 'nix.sh': No such file or directory; name a file"),
        ("name: x\njobs: [{name: a, script: w.yaml}]", "its first line is no `#!`"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_told(tmp_path: Path, text: str | None, said: str) -> None:
    if text is not None:
        (tmp_path / "w.yaml").write_text(text)
    with pytest.raises(WorkloadError) as error:
        read_workload_file(tmp_path / "w.yaml")
    assert said in str(error.value)


def test_all_mistakes_are_told_at_once() -> None:
    given = mapping(
        job("a", after=["b"], time="UNLIMITED", array="5-2"),
        job("b", after=["a", "nix"], cpu=4),
        {"name": "c"},
        inputs=[{"url": "http://x/y", "path": "../y"}],
        outputs=["/abs"],
        deadline=0,
        budget_usd=0,
    )
    said = told(given)
    for beginning in (
        "inputs[0].url = 'http://x/y': http: is not known here; write s3://",
        "inputs[0].path = '../y': write a path below the run's folder",
        "jobs[0].array = '5-2': there is no task in it",
        "jobs[0].time = 'UNLIMITED': it has to end; write minutes",
        "jobs[1].cpu = 4: no such key; did you mean gpus? known here: name, script",
        "jobs[2]: job c: write a `script`, or a `command`",
        "outputs[0] = '/abs': write a path below",
        "deadline = 0: it is no time at all",
        "budget_usd = 0: it should be greater than 0",
        "jobs[1].after[1] = 'nix': there is no such job",
        "jobs[1].after: the jobs wait for each other, so none of them ever begins: a before b before a",
    ):  # fmt: skip
        assert any(line.startswith(beginning) for line in said), (beginning, said)
    assert len(said) == 11


@pytest.mark.parametrize(
    "url",
    [
        "s3://me:sesame@bucket/x",
        "s3://bucket/x?X-Amz-Signature=sesame",
        "s3://bucket/x?secret_access_key=sesame",
        "s3://bucket/x?token=sesame",
        "file://me:sesame@/x",
    ],
)
def test_a_secret_in_a_url_is_refused_and_not_repeated(url: str) -> None:
    (said,) = told(mapping(inputs=[{"url": url, "path": "x"}]))
    assert "it has a secret in it" in said
    assert "AWS_PROFILE" in said
    assert "sesame" not in said


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (lambda: mapping(job(), job()), "jobs[1].name = 'first': jobs[0] has this name already"),
        (lambda: mapping(job(after=["first"])), "jobs[0].after: the jobs wait for each other"),
        (lambda: mapping(job(), job("b", after=["first", "first"])), "jobs[1].after[1] = 'first': this job is named twice"),
        (
            lambda: mapping(job(), job("b", array="0-3", after=[{"job": "first", "ends": "corr"}])),
            "jobs[1].after[0] = 'first': it is no array",
        ),
        (lambda: mapping(job(memory=1, memory_per_cpu=1)), "jobs[0]: job first: write `memory` for a node or"),
        (lambda: mapping(jobs=[]), "jobs = []: at least one is needed"),
        (
            lambda: mapping(inputs=[{"url": "file:///a", "path": "x"}, {"url": "file:///b", "path": "x"}]),
            "inputs[1].path = 'x': inputs[0] goes there already",
        ),
    ],
)  # fmt: skip
def test_parts_that_do_not_agree(changed: Callable[[], dict[str, Any]], said: str) -> None:
    (found,) = told(changed())
    assert found.startswith(said)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=20, unique=True))
@runs(200)
def test_a_graph_is_put_in_order_or_its_cycle_is_told(edges: list[tuple[int, int]]) -> None:
    jobs = [job(f"j{i}", after=[f"j{a}" for a, b in edges if b == i]) for i in range(10)]
    try:
        found = read_workload(mapping(*jobs), no_files)
    except WorkloadError as error:
        (mistake,) = error.mistakes
        names = mistake.message.partition("begins: ")[2].partition(";")[0].split(" before ")
        assert names[0] == names[-1]
        assert all((int(a[1:]), int(b[1:])) in edges for a, b in pairwise(names))
        return
    place = {each.name: i for i, each in enumerate(found.in_order)}
    assert len(place) == 10
    assert all(place[f"j{a}"] < place[f"j{b}"] for a, b in edges)


@pytest.mark.parametrize(
    ("time", "seconds"),
    [
        ("30", 1800),
        ("1:30", 90),
        ("1:00:00", 3600),
        ("2-12", 216_000),
        ("1-01:02:03", 90_123),
        ("UNLIMITED", None),
    ],
)
def test_times_are_read_as_sbatch_reads_them(time: str, seconds: int | None) -> None:
    assert limit_s(time) == seconds
