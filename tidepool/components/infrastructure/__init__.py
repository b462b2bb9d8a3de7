"""Where machines come from: the contract, and a file for each infrastructure that fulfils it."""
