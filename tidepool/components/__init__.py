"""What a stack is made of: Pulumi components with typed arguments, which read no configuration."""
