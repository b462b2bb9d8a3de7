"""The schema is one that Pulumi takes: its types are there, what is required is a property, and tokens are whole."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.provider.calls import Calls
from tidepool.resources.declarations import RETIRED


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder: Path = tmp_path_factory.mktemp("schema")
    provider = Calls(folder, "tidepool:local:Volume").provider
    loop = asyncio.new_event_loop()
    answer = loop.run_until_complete(provider.schema())
    loop.close()
    told: dict[str, Any] = json.loads(answer)
    return told


def test_all_that_is_named_is_there(schema: dict[str, Any]) -> None:
    references = set(re.findall(r'"#/types/([^"]+)"', json.dumps(schema)))
    assert references == set(schema["types"])
    for token, each in {**schema["resources"], **schema["types"]}.items():
        assert re.fullmatch(r"tidepool:[a-z]+:[A-Z]\w+", token), token
        assert {*each["required"]} <= {*each["properties"]}, token
        assert {*each.get("requiredInputs", ())} <= {*each.get("inputProperties", ())}, token
        # Pulumi's own.
        assert not {"id", "urn"} & {*each["properties"]}, token
        assert each["description"], token


def test_a_resource_is_as_its_model_declares_it(schema: dict[str, Any]) -> None:
    volume = schema["resources"]["tidepool:local:Volume"]
    assert volume["requiredInputs"] == ["stack", "volume"]
    assert volume["inputProperties"]["retain"] == {"type": "boolean"}
    assert volume["inputProperties"]["stack"] == {"type": "string", "willReplaceOnChanges": True}
    assert volume["properties"]["path"] == {"type": "string"}
    assert "path" not in volume["inputProperties"]
    boot = schema["resources"]["tidepool:local:Boot"]["inputProperties"]
    assert boot["files"]["additionalProperties"] == {"$ref": "#/types/tidepool:index:File"}
    certificate = schema["resources"]["tidepool:keys:Certificate"]["properties"]
    assert certificate["key"] == {"type": "string", "secret": True}


def test_retired_types_are_not_offered(schema: dict[str, Any]) -> None:
    assert "tidepool:infrastructure:Preflight" in schema["resources"]
    assert "tidepool:libvirt:Host" in RETIRED.values()
    assert not {*RETIRED.values()} & {*schema["resources"]}
