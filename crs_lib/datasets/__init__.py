"""External files: where they come from, and whether what is here is what was meant."""
