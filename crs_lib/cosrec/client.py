"""The CoSRec study as a client of the kernel: what it registers, and its commands."""

from crs_lib.core.clients import Client, ClientCommand

_COMMANDS = "crs_lib.cosrec.commands"

CLIENT = Client(
    "cosrec",
    heading="The other studies",
    commands=(
        ClientCommand(
            "cosrec catalogue", "Build products from metadata and reviews.", f"{_COMMANDS}:Catalogue"
        ),
        ClientCommand("cosrec index", "Index products and passages for search.", f"{_COMMANDS}:Index"),
        ClientCommand("cosrec generate", "Generate conversations about products.", f"{_COMMANDS}:Generate"),
        ClientCommand("cosrec intents", "Predict the intents of user turns.", f"{_COMMANDS}:Intents"),
    ),
    old_names={
        "cosrec-catalogue": "cosrec catalogue",
        "cosrec-index": "cosrec index",
        "cosrec-generate": "cosrec generate",
        "cosrec-intents": "cosrec intents",
    },
    members={"figure": ("crs_lib.cosrec.figures",)},
    notebooks={"1": "cosrec"},
    tables={"cosrec": "crs_lib.cosrec.study:figure_table"},
)
