"""The declaration of a run: a cluster for one workload, which goes when its results are kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidepool.resources.model import Field, Model, Resource, given, output


class RunModel(Model):
    """Properties of a `Run`."""

    #: Documents, as YAML has them; scripts are in the workload.
    spec: Field[Mapping[str, Any]] = given(replaces=True)
    workload: Field[Mapping[str, Any]] = given(replaces=True)
    results: Field[str] = given(replaces=True)
    keep_on_failure: Field[str] = given(default="0")
    #: Where its record and its outputs are.
    location: Field[str] = output()
    #: By path, the SHA-256 of each output.
    outputs: Field[Mapping[str, str]] = output(default={})
    #: In US dollars, by the prices of the spec.
    cost_usd: Field[float] = output(default=0.0)


class Run(Resource, RunModel, token="tidepool:runs:Run", delete_first=False):
    """A run that has succeeded. Its id is that of the resource.

    It is made by running the workload, and made anew where the spec, the workload or the results' place is another. Deleting it
    leaves the results.
    """
