"""A run: its folder and manifest, its ledger, and many sessions done and resumed."""
