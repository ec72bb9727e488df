"""What is claimed about isometry, each claim a function that answers with a certificate: sides, slack, verdict.

Claims about one Gram matrix need nothing but the matrix; claims about depth take (layer, G0, depth). `CLAIMS` lists
all of them with statement, source and strategy, and `python -m bounds verify` tries them on drawn examples.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._certificate import Certificate as Certificate
from ._certificate import Verdict as Verdict
from ._certificate import certify as certify
from ._matrix import determinant_sandwich as determinant_sandwich
from ._matrix import isometry_properties as isometry_properties
from ._matrix import normalization_gain as normalization_gain

if TYPE_CHECKING:
    from ._claim import Claim as Claim
    from ._claims import CLAIMS as CLAIMS
    from ._comparison import DecayComparison as DecayComparison
    from ._comparison import certified_gap_decay as certified_gap_decay
    from ._contraction import gap_decay as gap_decay
    from ._contraction import potential_contraction as potential_contraction
    from ._contraction import spectral_gap_decay as spectral_gap_decay
    from ._determinants import determinant_products as determinant_products
    from ._determinants import gap_from_rms as gap_from_rms
    from ._determinants import rms_determinant_sandwich as rms_determinant_sandwich
    from ._determinants import sharp_determinant_bound as sharp_determinant_bound
    from ._eigenvalues import gap_from_smallest_eigenvalue as gap_from_smallest_eigenvalue
    from ._eigenvalues import schur_product_eigenvalue as schur_product_eigenvalue
    from ._expansion import dual_series as dual_series
    from ._expansion import mehler as mehler
    from ._expansion import parseval as parseval
    from ._expansion import strength_range as strength_range
    from ._kernel import kernel_convergence as kernel_convergence
    from ._kernel import schwarz_pick as schwarz_pick
    from ._normalization import batch_norm_gain as batch_norm_gain
    from ._normalization import layer_norm_gain as layer_norm_gain
    from ._normalization import sharp_normalization_gain as sharp_normalization_gain
    from ._rates import asymptotic_rate as asymptotic_rate
    from ._rates import gap_rates as gap_rates
    from ._rates import mixed_layers as mixed_layers
    from ._scalar import dual_contraction as dual_contraction
    from ._scalar import gradient_tradeoff as gradient_tradeoff
    from ._sharp import scalar_gap_decay as scalar_gap_decay
    from ._sharp import sharp_gap_decay as sharp_gap_decay
    from ._sharp import sharp_potential_contraction as sharp_potential_contraction
    from ._signs import sign_freezing as sign_freezing
    from ._spectral import gap_sandwich as gap_sandwich
    from ._spectral import monotone_isometry as monotone_isometry
    from ._spectral import smallest_eigenvalue_contraction as smallest_eigenvalue_contraction
    from ._spectral import spectral_majorization as spectral_majorization
    from ._uncentred import relu_critical_rate as relu_critical_rate
    from ._uncentred import uncentred_gap_sandwich as uncentred_gap_sandwich

__all__ = [
    "Certificate",
    "Verdict",
    "certify",
    "Claim",
    "CLAIMS",
    "isometry_properties",
    "normalization_gain",
    "determinant_sandwich",
    "sharp_normalization_gain",
    "layer_norm_gain",
    "batch_norm_gain",
    "sharp_determinant_bound",
    "rms_determinant_sandwich",
    "gap_from_rms",
    "determinant_products",
    "schur_product_eigenvalue",
    "gap_from_smallest_eigenvalue",
    "potential_contraction",
    "gap_decay",
    "spectral_gap_decay",
    "asymptotic_rate",
    "gap_rates",
    "mixed_layers",
    "sign_freezing",
    "relu_critical_rate",
    "uncentred_gap_sandwich",
    "dual_series",
    "mehler",
    "parseval",
    "strength_range",
    "kernel_convergence",
    "schwarz_pick",
    "dual_contraction",
    "gradient_tradeoff",
    "certified_gap_decay",
    "DecayComparison",
    "gap_sandwich",
    "monotone_isometry",
    "smallest_eigenvalue_contraction",
    "spectral_majorization",
    "scalar_gap_decay",
    "sharp_gap_decay",
    "sharp_potential_contraction",
    "strategies",
]

# dynamics need an activation: whoever uses matrices only never loads hermite
_LAZY = {
    "Claim": "._claim",
    "CLAIMS": "._claims",
    "potential_contraction": "._contraction",
    "gap_decay": "._contraction",
    "sharp_normalization_gain": "._normalization",
    "layer_norm_gain": "._normalization",
    "batch_norm_gain": "._normalization",
    "sharp_determinant_bound": "._determinants",
    "rms_determinant_sandwich": "._determinants",
    "gap_from_rms": "._determinants",
    "determinant_products": "._determinants",
    "schur_product_eigenvalue": "._eigenvalues",
    "gap_from_smallest_eigenvalue": "._eigenvalues",
    "spectral_gap_decay": "._contraction",
    "asymptotic_rate": "._rates",
    "gap_rates": "._rates",
    "mixed_layers": "._rates",
    "sign_freezing": "._signs",
    "relu_critical_rate": "._uncentred",
    "uncentred_gap_sandwich": "._uncentred",
    "dual_series": "._expansion",
    "mehler": "._expansion",
    "parseval": "._expansion",
    "strength_range": "._expansion",
    "kernel_convergence": "._kernel",
    "schwarz_pick": "._kernel",
    "dual_contraction": "._scalar",
    "gradient_tradeoff": "._scalar",
    "certified_gap_decay": "._comparison",
    "DecayComparison": "._comparison",
    "gap_sandwich": "._spectral",
    "monotone_isometry": "._spectral",
    "smallest_eigenvalue_contraction": "._spectral",
    "spectral_majorization": "._spectral",
    "scalar_gap_decay": "._sharp",
    "sharp_gap_decay": "._sharp",
    "sharp_potential_contraction": "._sharp",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name], __name__), name)
    if name == "strategies":  # needs hypothesis, so only on first use
        return import_module(".strategies", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__]
