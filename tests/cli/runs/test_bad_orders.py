"""Runs that cannot be: each mistake is told with its remedy before anything is made, and all of them at once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result

from tests.cli.standins import Person
from tests.objectstore import ObjectStore, objectstore
from tests.runs.workloads import job, mapping
from tests.toolchain import needs_objectstore
from tidepool.cli import errors
from tidepool.cluster.frozen import FrozenDict
from tidepool.runs.journal import Journal
from tidepool.runs.record import Order
from tidepool.runs.results import open_store

__all__ = ["objectstore"]
AT = datetime(2026, 11, 27, 20, tzinfo=UTC)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    folder.mkdir()
    return folder


@pytest.fixture
def ordered(somebody: Person, results: Path) -> Callable[..., Result]:
    """Order a run of a workload with results at a URL; by default one that is right."""

    def order(*more: str, workload: dict[str, Any] | None = None, url: str = "", spec: str = "dev") -> Result:
        given = workload or mapping(job("a", memory=32), outputs=["out/*"])
        (somebody.folder / "w.yaml").write_text(yaml.safe_dump(given))
        return somebody.runs("run", spec, "w.yaml", "--results", url or results.as_uri(), *more)

    return order


def journal(somebody: Person) -> Journal:
    return Journal(somebody.context.data / "runs" / "journal.sqlite")


def refused(somebody: Person, said: Result, results: Path, *texts: str) -> None:
    """It was refused with these texts, and nothing was made."""
    assert said.exit_code == errors.USAGE, said.output
    assert "Traceback" not in said.output
    for text in texts:
        assert text in said.output, (text, said.output)
    assert sorted(each.name for each in somebody.folder.glob("Pulumi.*.yaml")) == ["Pulumi.dev.yaml"]
    assert [each for each in results.rglob("*") if each.is_file()] == []
    assert somebody.engine.ran == []
    with closing(journal(somebody)) as kept:
        assert kept.runs() == ()


def test_a_job_that_can_never_run_is_told_by_the_scaler_s_reason(
    somebody: Person, results: Path, ordered: Callable[..., Result]
) -> None:
    said = ordered(workload=mapping(job("a", cpus_per_task=64), outputs=["x"]))
    refused(
        somebody, said, results, "jobs[0] = 'a': can never run on this cluster: asks for 64 CPUs on a node"
    )


def test_a_cycle_is_told(somebody: Person, results: Path, ordered: Callable[..., Result]) -> None:
    said = ordered(workload=mapping(job("a", after=["b"]), job("b", after=["a"])))
    refused(somebody, said, results, "none of them ever begins: a before b before a; take one of these out")


def test_a_budget_that_nothing_counts_against_is_told(
    somebody: Person, results: Path, ordered: Callable[..., Result]
) -> None:
    said = ordered(workload=mapping(job("a", memory=32), budget_usd=5))
    refused(
        somebody, said, results, "budget_usd = 5.0: no machine of the spec has a price", "price_usd_per_hour"
    )


@pytest.mark.parametrize(
    ("url", "texts"),
    [
        ("s3://me:sesame@bucket/x", ("it has a secret in it", "AWS_PROFILE")),
        ("s3://bucket/x?X-Amz-Signature=sesame", ("it has a secret in it", "take it out")),
        ("https://bucket/x", ("https: is not known here; write s3://BUCKET/FOLDER or file:///FOLDER",)),
        ("file://host/x", ("a file's URL has a whole path and no host",)),
    ],
)
def test_a_url_that_cannot_be_is_told_without_its_secret(
    somebody: Person, results: Path, ordered: Callable[..., Result], url: str, texts: tuple[str, ...]
) -> None:
    said = ordered(url=url)
    refused(somebody, said, results, *texts)
    assert "sesame" not in said.output


def test_a_place_that_is_not_there_is_told_with_all_else(
    somebody: Person, results: Path, ordered: Callable[..., Result]
) -> None:
    said = ordered(
        "--keep-on-failure", "ever", url=(results / "nix").as_uri(), workload=mapping(job("a", nodes=99))
    )
    refused(
        somebody, said, results,
        "nix is no folder that is there; make it, or name another place", "can never run on this cluster",
        "--keep-on-failure = 'ever': write 2h",
    )  # fmt: skip


@pytest.mark.slow
@needs_objectstore
def test_a_bucket_that_is_not_there_or_not_writable_is_told(
    somebody: Person, results: Path, ordered: Callable[..., Result], objectstore: ObjectStore
) -> None:
    url = objectstore.url("x")
    env = {**somebody.context.env, **objectstore.environment}
    somebody.context = replace(somebody.context, env=env)
    said = ordered(url=url.replace("//tests/", "//nix/"))
    refused(somebody, said, results, "NoSuchBucket", "make the bucket, or mend its name")
    somebody.context = replace(somebody.context, env={**env, "AWS_SECRET_ACCESS_KEY": "other"})
    refused(somebody, ordered(url=url), results, "give credentials that may do it")


@pytest.mark.parametrize("name", ["A", "9", "x-", "x" * 41, "under-way", "dev"])
def test_a_name_that_cannot_be_a_run_s_is_told(
    somebody: Person, results: Path, ordered: Callable[..., Result], name: str
) -> None:
    refused(somebody, ordered("--name", name), results, f"--name = '{name}':")


def test_a_run_of_that_name_under_way_or_over_is_told(
    somebody: Person, results: Path, ordered: Callable[..., Result]
) -> None:
    with closing(open_store(results.as_uri(), {})) as store:
        store.write("under-way/nightly", b"")
        said = ordered("--name", "nightly")
        assert said.exit_code == errors.USAGE
        assert "a run of that name is under way" in said.output
        assert "`tidepool run --cancel nightly`" in said.output
        store.remove("under-way/nightly")
        store.write("nightly/run.json", b"{}")
        assert "a run of that name has been" in ordered("--name", "nightly").output
        store.remove("nightly/run.json")
    refused_yet = ordered("--name", "dev")
    refused(somebody, refused_yet, results, "a stack of the project has that name")
    # Of another place of results, this machine's journal knows.
    with closing(journal(somebody)) as kept:
        kept.order("nightly", Order("x", "nightly", AT, "ada", "s3://b/x", FrozenDict(), FrozenDict()))
    assert "a run of that name has been" in ordered("--name", "nightly").output


def test_what_is_not_said_is_asked_for(somebody: Person) -> None:
    said = somebody.runs("run", "dev")
    assert said.exit_code == errors.USAGE
    assert "name a stack, a workload's file, and --results; or --resume RUN, or --cancel RUN" in said.output
    for words in (("--resume", "nix"), ("--cancel", "nix")):
        said = somebody.runs("run", *words)
        assert said.exit_code != 0
        assert "has no run nix" in said.output
        assert "Traceback" not in said.output
