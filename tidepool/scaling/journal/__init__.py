"""The scaler's journal, durable: SQLite beside the stack, or PostgreSQL where a stack's daemon is doubled.

journal = open_journal(data / stack / "scaler", os.environ)
"""

from tidepool.scaling.journal.choice import JOURNAL_FILE as JOURNAL_FILE
from tidepool.scaling.journal.choice import JOURNAL_VARIABLE as JOURNAL_VARIABLE
from tidepool.scaling.journal.choice import open_journal as open_journal
