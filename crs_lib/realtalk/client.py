"""The RealTalk study as a client of the kernel: what it registers, and its commands."""

from crs_lib.core.clients import Client

CLIENT = Client("realtalk", members={"figure": ("crs_lib.realtalk.figures",)})
