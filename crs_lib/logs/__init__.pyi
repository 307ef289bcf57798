from .reader import files, read, session_key

__all__ = ["files", "read", "session_key"]
