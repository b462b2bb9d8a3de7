"""Tests of programs that make clusters: what a program would register, without an engine and without machines.

    graph = project_graph(Path(__file__).parent, "physics")
    assert graph["tidepool:local:Machine cpu-1"].inputs["cpus"] == 4

`project_graph` runs a project's own program, `register` any function. docs/testing-your-cluster.md says more.
"""

from tidepool.testing.graph import DIGEST as DIGEST
from tidepool.testing.graph import Graph as Graph
from tidepool.testing.graph import Outputs as Outputs
from tidepool.testing.graph import Registered as Registered
from tidepool.testing.graph import connection as connection
from tidepool.testing.graph import ensure_event_loop as ensure_event_loop
from tidepool.testing.graph import project_graph as project_graph
from tidepool.testing.graph import provider_outputs as provider_outputs
from tidepool.testing.graph import register as register
