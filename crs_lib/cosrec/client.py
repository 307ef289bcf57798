"""The CoSRec study as a client of the kernel: what it registers, and its commands."""

from crs_lib.core.clients import Client

CLIENT = Client("cosrec", members={"figure": ("crs_lib.cosrec.figures",)})
