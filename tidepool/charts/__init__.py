"""Charts written as SVG and PNG."""
