"""A call that panics in Rust."""

import pytest


class PanicException(BaseException):
    """As PyO3 raises it; no module has it by name."""


@pytest.mark.real
def test_a_call_returns():
    raise PanicException("called `Option::unwrap()` on a `None` value")
