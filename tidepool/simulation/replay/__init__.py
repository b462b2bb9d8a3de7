"""Replay of the jobs of the past under a policy: a trace, run in the simulated cluster by the same `decide`.

trace = read_trace(Path("KTH-SP2.swf.gz"))
outcome = replay(trace, spec)
"""

from tidepool.simulation.replay.run import Figures as Figures
from tidepool.simulation.replay.run import Replayed as Replayed
from tidepool.simulation.replay.run import replay as replay
from tidepool.simulation.replay.trace import Broken as Broken
from tidepool.simulation.replay.trace import Trace as Trace
from tidepool.simulation.replay.trace import TracedJob as TracedJob
from tidepool.simulation.replay.trace import TraceError as TraceError
from tidepool.simulation.replay.trace import read_trace as read_trace
