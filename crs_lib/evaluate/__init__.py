"""A run's dialogues to its tables."""
