from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tidepool.engine.providers.messages import all_secret, with_contents_of, with_secrets_of
from tidepool.engine.values import Archive, Asset, Output, Secret, without_secrets

_plain = st.recursive(
    st.integers(0, 3),
    lambda c: st.one_of(st.lists(c, max_size=2), st.dictionaries(st.sampled_from("ab"), c)),
    max_leaves=5,
)


def _with_some_secret(value: Any, draw: Any) -> Any:
    if draw(st.booleans()):
        return Secret(value)
    if isinstance(value, dict):
        return {k: _with_some_secret(v, draw) for k, v in value.items()}
    if isinstance(value, list):
        return [_with_some_secret(v, draw) for v in value]
    return value


@given(st.data(), st.dictionaries(st.sampled_from("xyz"), _plain))
def test_no_secret_is_told_by_an_echo(data: st.DataObject, properties: dict[str, Any]) -> None:
    sent = {k: _with_some_secret(v, data.draw) for k, v in properties.items()}
    answer = with_secrets_of(properties, sent)
    assert without_secrets(answer) == properties
    assert _told(answer) <= _told(sent)


def _told(value: Any, path: tuple[Any, ...] = ()) -> set[tuple[Any, ...]]:
    """The paths of what can be read."""
    if isinstance(value, Secret):
        return set()
    if isinstance(value, dict):
        return {p for k, v in value.items() for p in _told(v, (*path, k))}
    if isinstance(value, list):
        return {p for i, v in enumerate(value) for p in _told(v, (*path, i))}
    return {path}


def test_of_an_object_only_the_secret_part_is_made_secret() -> None:
    assert with_secrets_of({"o": {"a": 1, "b": 2}}, {"o": {"a": Secret(1), "b": 2}}) == {
        "o": {"a": Secret(1), "b": 2}
    }
    assert with_secrets_of({"l": [1, 2]}, {"l": [Secret(1), 2]}) == {"l": Secret([1, 2])}
    assert with_secrets_of({"a": 1}, {"b": Secret(1)}) == {"a": 1}


def test_everything_secret_is_not_secret_twice() -> None:
    secret_output = Output(1, secret=True)
    assert all_secret({"a": 1, "b": Secret(2), "c": secret_output}) == {
        "a": Secret(1),
        "b": Secret(2),
        "c": secret_output,
    }


def test_contents_come_back_by_hash() -> None:
    known, other = Asset("1", text="x"), Archive("2", path="p")
    sent = {"deep": [{"a": known}], "z": Secret(other)}
    answer = {"a": Asset("1"), "z": [Archive("2")], "new": Asset("3"), "same": Asset("1", path="q")}
    restored = with_contents_of(answer, sent)
    assert restored == {"a": known, "z": [other], "new": Asset("3"), "same": Asset("1", path="q")}
