"""Whether the metrics may be believed as a client of the kernel: what it registers, and its commands."""

from crs_lib.core.clients import Client, ClientCommand

_COMMANDS = "crs_lib.validity.commands"
_RECORDS = "its last figures stand in docs/records/"
_OLD_CODE = f"{_RECORDS}, the code in commit 517b99c9"
_BENCHMARKS = f"{_RECORDS}; run it with: PYTHONPATH=. python -m benchmarks."

CLIENT = Client(
    "validity",
    heading="May the numbers be believed",
    commands=(
        ClientCommand(
            "validity gate",
            "Show which metrics order the control policies as they must: the protocol's last confirmation.",
            f"{_COMMANDS}:Gate",
        ),
        ClientCommand(
            "validity people",
            "Compare what is measured at revisions with the ratings of people who changed their minds.",
            f"{_COMMANDS}:People",
        ),
        ClientCommand(
            "validity annotate",
            "Make a page of questions about a run, or read its labels.",
            f"{_COMMANDS}:Annotate",
        ),
    ),
    old_names={
        "gate": "validity gate",
        "precision": "validity precision",
        "realism": "validity realism",
        "sensitivity": "validity precision --conventions",
        "validity sensitivity": "validity precision --conventions",
        "people": "validity people",
        "annotate": "validity annotate",
        "redteam": "validity gate --redteam",
        "score-human": "validity people rated",
    },
    gone={  # until version 0.5
        "validity realism": f"{_BENCHMARKS}realism",
        "validity precision --conventions": f"{_BENCHMARKS}choices",
        "validity precision": f"{_BENCHMARKS}precision",
        "validity gate --redteam": f"{_RECORDS}; run it with: python -m tests.helpers.redteam",
        "validity people rated": _OLD_CODE,
        "validity people ceilings": _OLD_CODE,
        "validity people success": _OLD_CODE,
    },
    members={"policy": ("crs_lib.validity.controls",)},
    notebooks={"3": "movies"},
)
