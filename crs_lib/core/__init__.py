"""What every room stands on: errors, paths, randomness, registries, text, dialogues and tables."""
