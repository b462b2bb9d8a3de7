"""What a policy would have done with the jobs of the past: a trace, run in the simulated cluster by the same `decide`.

trace = read_trace(Path("KTH-SP2.swf.gz"))
outcome = replay(trace, spec)
"""

from tidepool.scaling.replay.figures import Figures as Figures
from tidepool.scaling.replay.reading import read_trace as read_trace
from tidepool.scaling.replay.run import Replayed as Replayed
from tidepool.scaling.replay.run import replay as replay
from tidepool.scaling.replay.trace import Broken as Broken
from tidepool.scaling.replay.trace import Trace as Trace
from tidepool.scaling.replay.trace import TracedJob as TracedJob
from tidepool.scaling.replay.trace import TraceError as TraceError
