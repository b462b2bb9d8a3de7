"""Running the person's program: in this process, in one of its own, or where an Automation API caller has it."""
