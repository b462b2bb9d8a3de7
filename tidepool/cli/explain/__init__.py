"""Explanations for a person: `why`, `plan` and `watch`. Only `record`'s source and `recompute` do I/O."""
