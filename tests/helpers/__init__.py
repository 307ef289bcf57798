"""What several tests share: a model server that misbehaves, an engine, a browser, small data, a refusal."""

import pytest

from crs_lib.core.errors import InputError


def refused(says, call, /, *given, error=InputError, **named):
    """The call raises this error of ours, whose text matches."""
    with pytest.raises(error, match=says):
        call(*given, **named)
