"""The plugins of the tests answer as the real ones did, of which there are recordings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.infrastructures.libvirt.daemon import a_host
from tests.plugins.recordings import answers, recorded
from tests.plugins.serving import is_real, search_path

RECORDINGS = {package: recorded(package) for package in ("libvirt",)}


@contextmanager
def somewhere(package: str, folder: Path) -> Iterator[str]:
    """An infrastructure to configure a plugin with: ours asks nobody to check and compare, the real one connects first."""
    if is_real(package):
        with a_host(folder) as host:
            yield host.uri
    else:
        yield "qemu+tcp://nowhere/system"


@pytest.mark.parametrize("package", RECORDINGS)
def test_a_plugin_answers_each_case_as_the_real_one_did(package: str, tmp_path: Path) -> None:
    cases = [case for case, _ in RECORDINGS[package].cases]
    with somewhere(package, tmp_path / "host") as where:
        given = answers(package, where, cases, search_path(tmp_path / "plugins", package))
    apart = [
        json.dumps({**asdict(case), "the real one": asdict(want), "this one": asdict(got)})
        for (case, want), got in zip(RECORDINGS[package].cases, given, strict=True)
        if replace(want, defaults={}) != replace(got, defaults={})
    ]
    assert apart == []


@pytest.mark.parametrize("package", RECORDINGS)
def test_what_the_real_one_fills_in_is_the_default_here(package: str) -> None:
    kinds: Any = import_module(f"tests.plugins.{package}").KINDS
    compared = 0
    for case, answer in RECORDINGS[package].cases:
        model = kinds[case.type].resource.model
        defaults = {each.wire: each.default for each in model.properties.values()}
        for key in answer.defaults.keys() & defaults.keys():
            assert defaults[key] == answer.defaults[key], (case.type, key)
            compared += 1
    assert compared


@pytest.mark.parametrize("package", RECORDINGS)
def test_recordings_are_of_the_package_that_is_installed(package: str) -> None:
    assert RECORDINGS[package].plugin == f"pulumi-resource-{package} {version(f'pulumi-{package}')}"
