"""What several tests share: a model server that misbehaves, an engine, a browser, small data."""
