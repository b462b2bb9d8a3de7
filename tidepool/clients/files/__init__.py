"""Files of people: quotas of their homes, and a scratch that is wiped by age. What runs where the files are, and who calls it."""
