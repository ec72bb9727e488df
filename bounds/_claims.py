"""Every claim of the room by its label: CLAIMS is put together from the files that list them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from bounds import _listed_depth, _listed_matrix, _listed_rates, _listed_scalar
from bounds._claim import Claim

__all__ = ["CLAIMS"]

_LISTED = (*_listed_scalar.LISTED, *_listed_matrix.LISTED, *_listed_depth.LISTED, *_listed_rates.LISTED)

CLAIMS: Mapping[str, Claim] = MappingProxyType({claim.label: claim for claim in _LISTED})
