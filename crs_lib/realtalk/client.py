"""The RealTalk study as a client of the kernel: what it registers, and its commands."""

from crs_lib.core.clients import Client, ClientCommand

_COMMANDS = "crs_lib.realtalk.commands"

CLIENT = Client(
    "realtalk",
    heading="The other studies",
    commands=(
        ClientCommand(
            "realtalk predict",
            "Find the evidence for every question of a chat, or answer one question; show a chat as a page.",
            f"{_COMMANDS}:Predict",
        ),
        ClientCommand(
            "realtalk evaluate",
            "Score chats, the test split once; or compare settings.",
            f"{_COMMANDS}:Evaluate",
        ),
    ),
    old_names={
        "realtalk-predict": "realtalk predict",
        "realtalk-evaluate": "realtalk evaluate",
        "realtalk-compare": "realtalk evaluate --compare",
        "realtalk compare": "realtalk evaluate --compare",
        "realtalk-answer": "realtalk predict --ask",
        "realtalk answer": "realtalk predict --ask",
        "realtalk-teach": "realtalk evaluate --teach",
        "realtalk-ladder": "realtalk evaluate --compare ladder",
    },
    members={"figure": ("crs_lib.realtalk.figures",)},
    notebooks={"2": "realtalk"},
    tables={"realtalk": "crs_lib.realtalk.study:read"},
)
