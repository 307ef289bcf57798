"""Grounding: which concepts and titles of the catalogue a text names."""
