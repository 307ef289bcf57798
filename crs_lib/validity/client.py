"""Whether the metrics may be believed as a client of the kernel: what it registers, and its commands."""

from crs_lib.core.clients import Client

CLIENT = Client(
    "validity",
    members={"command": ("crs_lib.validity.commands",), "policy": ("crs_lib.validity.controls",)},
)
