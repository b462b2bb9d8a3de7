"""The plugins that packages ask for."""

from __future__ import annotations

from typing import Any

from tidepool.engine.language_host import packages


def test_plugins_of_packages() -> None:
    def asked(name: str, version: str, plugin: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        return list(packages.required_plugins([packages.Package(name, version, plugin, needed=False)]))

    told = {"resource": True, "name": "cloud", "version": "1.2.3", "server": "https://plugins.test"}
    assert asked("pulumi_cloud", "9", told) == [
        {"name": "cloud", "version": "v1.2.3", "kind": "resource", "server": "https://plugins.test"}
    ]
    assert asked("pulumi-random", "4.1")[0]["version"] == "v4.1.0"
    assert (
        asked("pulumi-random", "not-one")
        == asked("requests", "2.0.0")
        == asked("pulumi-policy", "1.0.0")
        == []
    )
    assert asked("pulumi-sdk", "1.0.0", {"resource": False}) == []
    versions = {
        "1.0": "1.0.0", "1.2.3a4": "1.2.3-alpha.4", "1.2.3rc4": "1.2.3-rc.4", "1.2.3.post4": "1.2.3+post4",
        "1.2.3.post4.dev5": "1.2.3+post4dev5", "1.2.3.dev5": "1.2.3+dev5", "1!2.0": None, "": None,
    }  # fmt: skip
    assert {given: packages.plugin_version(given) for given in versions} == versions
