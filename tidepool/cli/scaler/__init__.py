"""What the command tells of the scaler: what its journal holds, in words. Only `opening` and `afresh` do I/O."""
