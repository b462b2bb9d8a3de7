"""Media that hosts boot from, whoever switches them on: the image's ISO with each machine's seed in it, served by the stack's own service."""
