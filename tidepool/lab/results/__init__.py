"""Results of a laboratory: a folder for each campaign, with every single value."""
