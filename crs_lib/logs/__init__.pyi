from .reader import files, read

__all__ = ["files", "read"]
