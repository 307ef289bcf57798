"""Language models as judges of finished dialogues."""
