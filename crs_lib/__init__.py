"""A notebook-first laboratory for adaptive conversation: when preferences shift, does the system follow?"""

__version__ = "0.2.0"
