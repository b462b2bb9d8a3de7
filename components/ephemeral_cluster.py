"""EphemeralCluster: a cluster that is made for a workload, and goes when its results are kept."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pulumi
from pulumi import Output

from tidepool import resources
from tidepool.cluster.spec import ClusterSpec
from tidepool.runs.workload import Workload
from tidepool.runs.workload_reading import WorkloadError, read_workload_file


class EphemeralCluster(pulumi.ComponentResource):
    """A cluster for one workload: the program goes on when the results are kept, and the cluster is gone.

        trial = EphemeralCluster("trial", spec, "workload.yaml", results="s3://lab/runs")
        pulumi.export("results", trial.location)

    It runs when the component is made, and again when the spec, the workload or the place of results is another; a run that does
    not succeed fails the `up`, and its record says why. Destroying it leaves the results.

    Args:
        name: the resource's.
        spec: the cluster. Its name and its network are those of a template: each run has its own.
        workload: the work, or its file; scripts stand beside that.
        results: the URL where results are kept: ``s3://BUCKET/FOLDER``, ``file:///FOLDER``.
        keep_on_failure: how long the cluster stays where the run did not succeed: ``30`` (minutes), ``2:00:00``.
        opts: Pulumi's.

    Raises:
        pulumi.RunError: the workload's file has mistakes; says all of them.
    """

    run: Output[str]
    """The id of the run."""
    location: Output[str]
    """Where its record and its outputs are."""
    outputs: Output[Mapping[str, str]]
    """By path, the SHA-256 of each output."""
    cost_usd: Output[float]
    """What its machines cost, by the prices of the spec."""

    def __init__(
        self,
        name: str,
        spec: ClusterSpec,
        workload: Workload | Path | str,
        *,
        results: str,
        keep_on_failure: str = "0",
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("tidepool:components:EphemeralCluster", name, None, opts)
        if not isinstance(workload, Workload):
            try:
                workload = read_workload_file(Path(workload))
            except WorkloadError as error:
                raise pulumi.RunError(f"{name}: {error}") from None
        made = resources.Run(
            name,
            spec=spec.model_dump(mode="json", exclude_defaults=True),
            workload=workload.model_dump(mode="json", exclude_defaults=True),
            results=results,
            keep_on_failure=keep_on_failure,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.run, self.location, self.outputs, self.cost_usd = (
            made.id,
            made.location,
            made.outputs,
            made.cost_usd,
        )
        self.register_outputs(
            {
                "run": self.run,
                "location": self.location,
                "outputs": self.outputs,
                "costUsd": self.cost_usd,
            }
        )
