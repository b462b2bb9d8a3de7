"""The stack that the scaler changes, through Pulumi's Automation API; and whose turn it is to change it."""
