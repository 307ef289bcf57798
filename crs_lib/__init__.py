"""A notebook-first laboratory for adaptive conversation: when wishes shift, does the system follow?"""

__version__ = "0.2.0"
