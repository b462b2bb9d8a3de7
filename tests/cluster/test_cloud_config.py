"""User data are read the same as YAML, by cloud-init, and as JSON, by our own programs."""

from __future__ import annotations

import json

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from tidepool.cluster.boot import cloud_config


@given(st.text())
@example("a rocket: \U0001f680")
@example("ends of lines: \x85\u2028\u2029\x7f, and \\u0041")
def test_any_text_is_read_as_it_was(text: str) -> None:
    for indent in (None, 1):
        made = cloud_config({"bootcmd": [["/bin/sh", "-c", text]]}, indent)
        assert made.startswith("#cloud-config\n")
        assert yaml.safe_load(made)["bootcmd"][0][-1] == text
        assert json.loads(made.partition("\n")[2])["bootcmd"][0][-1] == text
