"""One dialogue, one convention, its numbers."""
