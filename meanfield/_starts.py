"""Where the command line starts from: the Gram matrix of layer 0, of equal correlations, random inputs, or a file."""

from __future__ import annotations

import argparse
import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hermite._console import integer, number

from ._gram import correlation, input_gram

Floats: TypeAlias = NDArray[np.float64]


def start(options: argparse.Namespace) -> Floats:
    """The Gram matrix of layer 0."""
    others = [name for name in ("random", "gram", "inputs") if getattr(options, name) is not None]
    for name in ("n", "rho"):
        if others and getattr(options, name) is not None:
            raise ValueError(f"--{name} sets equal correlations and cannot go with --{others[0]}; leave one out")
    if options.seed is not None and options.random is None:
        raise ValueError(f"--seed {options.seed} goes with --random N D")
    if options.random is not None:
        n, d = options.random
        return _gaussian(n, d, 0 if options.seed is None else options.seed)
    if options.gram is not None:
        return _from_file("--gram", options.gram, correlation)
    if options.inputs is not None:
        return _from_file("--inputs", options.inputs, input_gram)
    return _equicorrelated(options)


def _equicorrelated(options: argparse.Namespace) -> Floats:
    n = 10 if options.n is None else options.n
    rho = 0.5 if options.rho is None else options.rho
    if n < 1:
        raise ValueError(f"--n must be at least 1, got {n}")
    if rho * max(n - 1, 1) < -1 or rho > 1:
        raise ValueError(f"--rho must lie in [-1/(n - 1), 1] for n={n}, got {rho}: no {n} inputs are correlated so")
    G = np.full((n, n), float(rho))
    np.fill_diagonal(G, 1.0)
    return G


def _gaussian(n: int, d: int, seed: int) -> Floats:
    if min(n, d) < 1 or d < 2:
        raise ValueError(f"--random needs at least 1 input of 2 features, got {n} {d}")
    if seed < 0:
        raise ValueError(f"--seed must not be negative, got {seed}")
    return input_gram(np.random.default_rng(seed).standard_normal((n, d)))


def _from_file(option: str, path: Path, normalised: Callable[[Floats], Floats]) -> Floats:
    try:
        return normalised(np.load(path, allow_pickle=False) if path.suffix == ".npy" else _numbers(path))
    except (ValueError, EOFError) as error:
        raise ValueError(f"{option} {path}: {error}") from error


def _numbers(path: Path) -> Floats:
    """A table of numbers as text: separated by commas or by blanks, one row a line, # for comments."""
    text = path.read_text(encoding="utf-8-sig")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # "input contained no data": said below
        rows = np.loadtxt(io.StringIO(text), delimiter="," if "," in text else None, ndmin=2)
    if not rows.size:
        raise ValueError("there is no number in it; write one row a line, or save a .npy file")
    return rows


def start_options(parser: argparse.ArgumentParser) -> None:
    start = parser.add_argument_group(
        "where to start: n inputs with equal correlations, or one of --random, --gram, --inputs"
    )
    start.add_argument("--n", type=integer, metavar="N", help="number of inputs, default 10")
    start.add_argument("--rho", type=number, metavar="R", help="their correlation, default 0.5")
    one = start.add_mutually_exclusive_group()
    one.add_argument("--random", type=integer, nargs=2, metavar=("N", "D"), help="N Gaussian inputs of D features")
    one.add_argument(
        "--gram", type=Path, metavar="FILE", help="a Gram matrix, .npy or text; normalised to unit diagonal"
    )
    one.add_argument("--inputs", type=Path, metavar="FILE", help="inputs as rows, .npy or text; layer-normalised")
    start.add_argument("--seed", type=integer, metavar="S", help="of --random, default 0")
