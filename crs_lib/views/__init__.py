"""Small tables that notebooks show."""
