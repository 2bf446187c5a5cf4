"""What `consumer_group_metadata` returns and `send_offsets_to_transaction` takes: bytes that carry ottla's value."""

from __future__ import annotations

from typing import Self

import ottla


class GroupMetadata(bytes):
    """Who a consumer is in its group. Programs hand it on and do not look into it.

    Args:
        of: The metadata as ottla's consumer returns it.
    """

    _of: ottla.GroupMetadata

    def __new__(cls, of: ottla.GroupMetadata) -> Self:
        """Encode the fields, so that two members differ."""
        made = super().__new__(cls, repr(tuple(of)).encode())
        made._of = of
        return made

    def of_ottla(self) -> ottla.GroupMetadata | str:
        """What ottla's producer takes: the member, or the group's name of a consumer that is no member."""
        return self._of if self._of.member_id else self._of.group_id
