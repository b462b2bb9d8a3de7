"""Statistics of results: measures of a trial, their intervals, and whether two differ. Pure."""
