"""Providers: found, started, spoken to over gRPC; and those that the engine brings itself."""
