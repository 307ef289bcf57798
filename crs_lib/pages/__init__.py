"""A run as HTML."""
