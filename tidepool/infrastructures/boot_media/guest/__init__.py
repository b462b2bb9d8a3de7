"""Programs that hosts run, with nothing but Python: their seeds bring them."""
