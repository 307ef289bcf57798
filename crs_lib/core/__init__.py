"""The ground floor: errors, paths, random streams, registries, configs, text, dialogues and tables."""
