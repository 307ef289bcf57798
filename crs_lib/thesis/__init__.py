"""The thesis's own scores, exactly."""
