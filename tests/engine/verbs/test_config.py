"""Configuration values: paths, types, and the file with its comments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from tidepool.engine import config_file, yaml_reading
from tidepool.engine.config import (
    Ciphertext,
    ConfigError,
    Key,
    from_document,
    get,
    is_secure,
    parse_key,
    put,
    remove,
    text_of,
    to_document,
)
from tidepool.engine.json_text import dumps_sorted
from tidepool.engine.program_config import program_config, recorded

names = st.text(alphabet="abcxyz_019", min_size=1, max_size=5).filter(lambda s: s != "secure")
texts = st.text(alphabet=st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=12)
parts = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | texts | texts.map(Ciphertext),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
values = st.dictionaries(
    names.map(lambda n: Key("shop", n)),
    texts | texts.map(Ciphertext) | st.lists(parts, max_size=3) | st.dictionaries(names, parts, max_size=3),
    max_size=5,
)


@given(values, st.lists(names, min_size=1, max_size=4), texts)
def test_what_was_put_is_there_and_can_be_removed(config: Any, path: list[str], text: str) -> None:
    key = Key("shop", ".".join(path))
    try:
        changed = put(config, key, Ciphertext(text), path=True)
    except ConfigError:
        return  # the path leads through something that is no map
    assert get(changed, key, path=True) == (Ciphertext(text), True)
    assert is_secure(changed[Key("shop", path[0])])
    others = {k: v for k, v in changed.items() if k.name != path[0]}
    assert others == {k: v for k, v in config.items() if k.name != path[0]}
    if len(path) == 1:
        assert remove(changed, key, path=True) == others
    else:
        try:
            left = remove(changed, key, path=True)
        except ConfigError:
            return
        assert not get(left, key, path=True)[1]


@given(values)
def test_file_round_trip(config: Any) -> None:
    path = Path("Pulumi.dev.yaml")
    text = config_file.edited("", config_file.StackConfig(path, config), "shop")
    assert read_back(text) == config
    again = config_file.edited(text, config_file.StackConfig(path, config), "shop")
    assert again == text, "writing the same changes nothing"


COMMENTED = """\
# on top
encryptionsalt: v1:a:b # the salt
config:
  # about one
  shop:one: 1 # beside one
  # about two
  two: 'quoted' # beside two

  # about three
  shop:three:
    # about x
    x: 1.50
    y: [1, 2] # beside y
  # about four
  shop:four: on
# at the end
"""


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["put", "remove"]),
            st.sampled_from(["one", "two", "three.x", "three.z", "four", "five"]),
        ),
        max_size=6,
    )
)
def test_edits_keep_what_they_do_not_touch(edits: list[tuple[str, str]]) -> None:
    before = read_back(COMMENTED)
    config = before
    for what, name in edits:
        key = Key("shop", name)
        config = put(config, key, "new", path=True) if what == "put" else remove(config, key, path=True)
    text = config_file.edited(COMMENTED, stack_config(config), "shop")
    assert read_back(text) == config
    assert "# on top\nencryptionsalt: v1:a:b # the salt\n" in text
    for name in ("one", "two"):
        if config.get(Key("shop", name)) == before[Key("shop", name)]:
            assert f"# beside {name}" in text
    if config.get(Key("shop", "four")) is not None and Key("shop", "three") in config:
        assert "# about four" in text


def test_removing_a_key_keeps_the_next_ones_comment() -> None:
    config = remove(read_back(COMMENTED), Key("shop", "one"))
    text = config_file.edited(COMMENTED, stack_config(config), "shop")
    assert (
        "# about two\n  two: 'quoted' # beside two\n\n  # about three\n  shop:three:\n    # about x\n" in text
    )
    assert "one: 1" not in text


def test_only_the_changed_line_differs() -> None:
    config = put(read_back(COMMENTED), Key("shop", "two"), "2")
    text = config_file.edited(COMMENTED, stack_config(config), "shop")
    assert text == COMMENTED.replace("two: 'quoted'", 'two: "2"')


def test_file_of_comments_only_keeps_them() -> None:
    text = config_file.edited("# only this\n", stack_config({Key("shop", "a"): "b"}, salt=""), "shop")
    assert text == "# only this\nconfig:\n  shop:a: b\n"


@pytest.mark.parametrize(
    "end", ["", "\n", "# end\n", "  d: |+\n    x\n\n", "...\n", "encryptionsalt:\n", "other: [1]"]
)
def test_a_salt_is_added_and_nothing_else_is_changed(end: str) -> None:
    text = f"config:\n  shop:a:  'b'  # as it was\n{end}"
    with_salt = config_file.edited(text, stack_config(read_back(text)), "shop")
    assert yaml_reading.load(with_salt) == yaml_reading.load(text) | {"encryptionsalt": "v1:a:b"}
    if end in ("", "\n", "# end\n"):
        assert with_salt == f"{text}encryptionsalt: v1:a:b\n"


def stack_config(config: Any, salt: str = "v1:a:b") -> config_file.StackConfig:
    return config_file.StackConfig(Path("Pulumi.dev.yaml"), config, encryption_salt=salt)


def read_back(text: str) -> Any:
    document = yaml_reading.load(text) or {}
    return {parse_key(k, "shop"): from_document(v) for k, v in (document.get("config") or {}).items()}


@given(texts)
def test_text_stays_text(text: str) -> None:
    written = config_file.edited("", stack_config({Key("shop", "a"): text}), "shop")
    assert yaml_reading.load(written)["config"]["shop:a"] == text
    # ... and to a reader of YAML 1.2 too.
    assert YAML(typ="safe").load(written)["config"]["shop:a"] == text


@pytest.mark.parametrize("text", ["a\nb", "a\n", "\na", " a\nb", "a \nb", "a\tb\nc", "\n", "a\n\nb\n\n"])
def test_lines(text: str) -> None:
    written = config_file.edited("", stack_config({Key("shop", "a"): text}), "shop")
    assert yaml_reading.load(written)["config"]["shop:a"] == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", "on"),
        ("yes", "yes"),
        ("1:30", "1:30"),
        ("0o17", 15),
        ("017", 15),
        ("0x1f", 31),
        ("0b11", 3),
        ("1_000", 1000),
        ("-3", -3),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("True", True),
        ("~", None),
        ("1.2.3", "1.2.3"),
        ("'1'", "1"),
    ],
)
def test_scalars_as_pulumi_reads_them(text: str, value: Any) -> None:
    got = yaml_reading.load(text)
    assert got == value
    assert type(got) is type(value)


def test_keys_are_texts() -> None:
    assert yaml_reading.load("{on: 1, 2: b, null: c}") == {"on": 1, "2": "b", "null": "c"}


@pytest.mark.parametrize(
    "text", ["a: [", "a: 1\na: 2", "? {b: c}\n: d", "!!python/object:os.system {}", "a: &x [*y]"]
)
def test_what_is_no_yaml(text: str) -> None:
    with pytest.raises(yaml_reading.YamlError, match=r"line \d+|could not determine|undefined alias"):
        yaml_reading.load(text)


def test_what_the_program_sees() -> None:
    config = {
        Key("shop", "plain"): "text",
        Key("shop", "hidden"): Ciphertext("C"),
        Key("shop", "obj"): {"b": [1.0, 2.5, True, None], "a": Ciphertext("D"), "c": "<&>"},
        Key("aws", "region"): "eu",
    }
    seen = program_config(config, lambda c: f"plain {c}")
    assert seen.values == {
        "aws:region": "eu",
        "shop:hidden": "plain C",
        "shop:obj": '{"a":"plain D","b":[1,2.5,true,null],"c":"\\u003c\\u0026\\u003e"}',
        "shop:plain": "text",
    }
    assert seen.secret_keys == ("shop:hidden", "shop:obj")
    assert seen.masked["shop:hidden"] == "[secret]"
    assert "plain" not in repr(seen).replace("shop:plain", "")
    assert recorded(config)["shop:obj"]["a"] == {"secure": "D"}


@given(parts)
def test_document_round_trip(part: Any) -> None:
    value = [part]
    assert from_document(to_document(value)) == value
    assert text_of(from_document(1.0), str) == dumps_sorted(1.0) == "1"
