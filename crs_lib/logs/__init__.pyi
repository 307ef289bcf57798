from .reader import Broken, files, read, readable, session_key

__all__ = ["Broken", "files", "read", "readable", "session_key"]
