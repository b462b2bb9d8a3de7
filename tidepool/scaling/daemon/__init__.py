"""The loop that looks, decides and acts, and the process around it: health, metrics, what is said."""
