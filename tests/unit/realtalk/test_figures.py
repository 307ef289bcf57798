"""The tables behind the RealTalk figures: from a run's files, with their own counts."""

import pytest

from crs_lib import figures
from crs_lib.core.errors import RunError
from crs_lib.realtalk import study
from crs_lib.realtalk.config import RealTalkConfig


@pytest.mark.slow
def test_a_finished_run_has_its_figures(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path))
    with pytest.raises(RunError, match="run 23_realtalk_evaluate -p run drawn"):
        study.read("drawn", "attribution")
    config = RealTalkConfig(run="drawn")
    study.predict(config)
    shown = study.evaluate(config)
    losses = study.read("drawn", "attribution")
    assert losses["ids"].tolist() == shown["attribution"]["ids"].tolist()
    assert set(losses["n_ids"]) == {shown["attribution"]["ids"].max()}
    panel = figures.make("realtalk_losses", losses).axes[0]
    rows = [text.get_text() for text in panel.get_yticklabels()]
    assert rows[0] == f"all, {losses['ids'].max()} ids"
    assert all(row.startswith("category ") for row in rows[1:])  # chats have no bar of their own
