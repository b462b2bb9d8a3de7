"""What is known of a provider's answer because it repeats what the provider was sent.

Old providers take no secrets: they are sent the bare values, and what comes back under the same key is
made secret again. And contents of assets are left out of some calls, so what comes back without its
contents gets them again. Source: ``provider_plugin.go`` (annotateSecrets, restoreElidedAssetContents).
"""

from __future__ import annotations

from collections.abc import Mapping

from tidepool.engine.values import (
    Archive,
    Asset,
    Output,
    Properties,
    Secret,
    Value,
    contains_secrets,
    transform,
    walk,
)


def with_secrets_of(answer: Properties, sent: Mapping[str, Value]) -> Properties:
    """``answer`` with those values secret whose key held a secret in ``sent``.

    Objects are gone through key by key; of a list with a secret in it the whole list is made secret,
    since providers may change the order of lists.
    """
    result = dict(answer)
    for key, value in sent.items():
        if key not in result:
            continue
        returned = result[key]
        if isinstance(returned, dict) and isinstance(value, dict):
            result[key] = with_secrets_of(returned, value)
        elif not isinstance(returned, Secret) and contains_secrets(value):
            result[key] = Secret(returned)
    return result


def all_secret(answer: Properties) -> Properties:
    """``answer`` with every value secret: one of the arguments was, and nobody knows where it went."""
    return {
        k: v if isinstance(v, Secret) or (isinstance(v, Output) and v.secret) else Secret(v)
        for k, v in answer.items()
    }


def with_contents_of(answer: Properties, sent: Mapping[str, Value]) -> Properties:
    """``answer`` with assets and archives that lack their contents replaced by those of ``sent`` with the same hash."""
    known: dict[tuple[type, str], Asset | Archive] = {}
    for value in walk(dict(sent)):
        if isinstance(value, Asset | Archive):
            known[type(value), value.hash] = value
    if not known:
        return answer

    def leave(value: Value) -> Value:
        if isinstance(value, Asset | Archive) and _is_elided(value):
            return known.get((type(value), value.hash), value)
        return value

    restored: Properties = transform(answer, leave)
    return restored


def _is_elided(value: Asset | Archive) -> bool:
    # An empty text and an empty collection are contents, too.
    contents = value.text if isinstance(value, Asset) else value.assets
    return contents is None and value.path is None and value.uri is None
