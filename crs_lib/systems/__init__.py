"""The systems under test: what answers a user."""
