"""The repository itself: what is pinned, what it names, and whether its pages tell the truth."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import grimp
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.repository import ROOT, tracked

LOCKS = ("requirements.txt", "requirements-dev.txt")
#: What `make docs` installs.
DOCS_LOCK = "docs/requirements.txt"
#: What scripts/setup installs the others with.
SETUP_LOCK = "scripts/uv.txt"
SAYS_NOTHING = {"manager", "helper", "helpers", "util", "utils", "common", "handler", "data", "info", "misc"}


def settings() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def locked(name: str) -> dict[str, tuple[Requirement, list[str]]]:
    """A lock file's packages by canonical name, each with the digests of its files."""
    text = (ROOT / name).read_text().replace("\\\n", " ")
    found: dict[str, tuple[Requirement, list[str]]] = {}
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            requirement, *digests = line.split(" --hash=")
            parsed = Requirement(requirement)
            found[canonicalize_name(parsed.name)] = (parsed, [d.split()[0] for d in digests])
    return found


@pytest.mark.parametrize("lock", [*LOCKS, SETUP_LOCK, DOCS_LOCK])
def test_every_requirement_is_pinned_to_one_version_and_its_digests(lock: str) -> None:
    packages = locked(lock)
    assert packages
    for requirement, digests in packages.values():
        assert re.fullmatch(r"==[^,*]+", str(requirement.specifier)), requirement
        assert digests, requirement
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", d) for d in digests), requirement


def test_the_locks_hold_what_pyproject_asks_for() -> None:
    runs, tests = (locked(lock) for lock in LOCKS)
    asked = settings()["project"]["dependencies"]
    groups = settings()["dependency-groups"]
    of_dev = [each for each in groups["dev"] if isinstance(each, str)]
    of_others = [
        text for each in groups["dev"] if isinstance(each, dict) for text in groups[each["include-group"]]
    ]
    builds = settings()["build-system"]["requires"]
    for wanted, lock in ((asked, runs), ([*asked, *of_dev, *of_others], tests), (builds, runs)):
        for text in wanted:
            requirement = Requirement(text)
            pin, _ = lock[canonicalize_name(requirement.name)]
            version = str(pin.specifier).removeprefix("==")
            assert requirement.specifier.contains(version), f"{text} is locked at {version}"


def test_tests_run_with_the_packages_that_run_elsewhere() -> None:
    runs, tests = (locked(lock) for lock in LOCKS)
    # Markers may be wider, for tests need some of them elsewhere besides.
    pins = {name: (requirement.specifier, digests) for name, (requirement, digests) in runs.items()}
    assert {name: (tests[name][0].specifier, tests[name][1]) for name in runs} == pins


def test_what_is_installed_is_what_is_locked() -> None:
    for requirement, _ in locked("requirements.txt").values():
        if requirement.marker is None or requirement.marker.evaluate():
            assert metadata.version(requirement.name) == str(requirement.specifier).removeprefix("==")


def registry_hosts() -> Iterator[str]:
    """The hosts that this machine's own configuration takes packages from."""
    pip = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], check=False, capture_output=True, text=True
    )
    texts = [pip.stdout]
    texts += [v for k, v in os.environ.items() if k.startswith(("PIP_", "UV_", "NPM_CONFIG_", "GOPROXY"))]
    sources = Path("/etc/apt")
    for path in (sources / "sources.list", *sources.glob("sources.list.d/*")):
        if path.is_file():
            texts.append(path.read_text(errors="replace"))
    for text in texts:
        for host in re.findall(r"https?://(?:[^/@\s'\"]*@)?([^/\s'\",]+)", text):
            if not host.startswith(("localhost", "127.")):
                yield host


def test_no_registry_is_named_in_the_repository() -> None:
    hosts = set(registry_hosts())
    named = [
        (path.relative_to(ROOT), host)
        for path in tracked()
        for host in hosts
        if host.encode() in path.read_bytes()
    ]
    assert named == []


@pytest.mark.parametrize("lock", [*LOCKS, SETUP_LOCK, DOCS_LOCK])
def test_the_locks_name_no_place_to_download_from(lock: str) -> None:
    text = (ROOT / lock).read_text()
    assert "://" not in text
    assert not re.search(r"^\s*(-i|-f|--index-url|--extra-index-url|--find-links)\b", text, re.MULTILINE)


def test_no_salt_of_a_stack_is_in_the_repository() -> None:
    """It belongs to a passphrase, which each machine makes for itself."""
    stacks = [path for path in tracked() if re.fullmatch(r"Pulumi\..+\.(yaml|yml|json)", path.name)]
    assert stacks
    assert not [path for path in stacks if "encryptionsalt" in path.read_text()]


def test_make_says_what_there_is_and_readme_names_only_that() -> None:
    shown = subprocess.run(
        ["make", "--no-print-directory"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        env={k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")},
    )
    targets = {line.split()[1] for line in shown.stdout.splitlines()}
    assert targets >= {"help", "setup", "test", "lint", "bench", "clean"}
    pages = [path.read_text() for path in tracked() if path.suffix == ".md"]
    named = {name for page in pages for name in re.findall(r"(?:`|^)make ([a-z]+)", page, re.MULTILINE)}
    assert named
    assert named <= targets


def links() -> Iterator[tuple[Path, str]]:
    for page in tracked():
        if page.suffix == ".md":
            text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
            for target in re.findall(r"\]\(([^)\s]+)\)", text):
                if "://" not in target:
                    yield page, target


def heading_anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def test_links_between_pages_lead_somewhere() -> None:
    followed = 0
    for page, target in links():
        file, _, anchor = target.partition("#")
        place = (page.parent / file).resolve() if file else page
        assert place.exists(), f"{page.relative_to(ROOT)} links to {target}"
        assert not anchor or anchor in heading_anchors(place), f"{page.relative_to(ROOT)} links to {target}"
        followed += 1
    assert followed


def test_decisions_are_numbered_listed_and_say_what_was_rejected() -> None:
    pages = sorted((ROOT / "docs/adr").glob("[0-9]*.md"))
    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))
    listed = (ROOT / "docs/adr/README.md").read_text()
    for page in pages:
        headings = re.findall(r"^## (.+)$", page.read_text(), re.MULTILINE)
        assert headings == ["Context", "Decision", "Consequences", "Rejected"], page.name
        assert f"]({page.name})" in listed


def test_architecture_fits_a_few_screens() -> None:
    assert len((ROOT / "docs/architecture.md").read_text().splitlines()) <= 200


def test_architecture_names_every_package_of_tidepool() -> None:
    tree = (ROOT / "docs/architecture.md").read_text().split("```")[1]
    packages = {path.parent.name for path in (ROOT / "tidepool").glob("*/__init__.py")}
    of_infrastructures = {
        path.parent.name for path in (ROOT / "tidepool/infrastructures").glob("*/__init__.py")
    }
    assert {*packages, *of_infrastructures} - {
        name.rstrip("/") for name in re.findall(r"[\w/]+/", tree)
    } == set()


def test_architecture_names_only_what_is_there() -> None:
    text = (ROOT / "docs/architecture.md").read_text()
    paths = [path for path in re.findall(r"`([\w./-]+)`", text) if "/" in path]
    assert len(paths) > 20
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_names_say_something() -> None:
    modules = [path.relative_to(ROOT) for path in tracked() if path.suffix == ".py"]
    assert [path for path in modules if SAYS_NOTHING & set(path.with_suffix("").parts)] == []


def test_no_imports_go_in_a_circle() -> None:
    """Those within functions and for type checkers count, too: import-linter holds the order of packages, and not of a package's own modules."""
    graph = grimp.build_graph("tidepool")
    needs = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    # Modules without imports of others that are left are taken away, until none is left.
    while free := {module for module, needed in needs.items() if not needed}:
        needs = {module: needed - free for module, needed in needs.items() if module not in free}
    assert sorted(needs) == []
