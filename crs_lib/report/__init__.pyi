from .figure_tables import draw, read

__all__ = ["draw", "read"]
