"""What the library does, on real data, in a minute: `make demo`.

Isometry strengths of the catalogue; then ten handwritten digits, one of each class, through 200 mean-field layers of
several activations, with the decay of the isometry gap beside the rates and bounds that theory gives; then 64 digits,
whose centred Gram matrix is singular; then every claim on random input. Leaves out/beta.md, beta.csv and decay.png.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from bounds import Certificate, Verdict, gap_decay, spectral_gap_decay
from hermite import beta_table
from meanfield import Layer, Trajectory, input_gram, isometry_gap, trajectory

OUT = Path("out")
DEPTH = 200
SHOWN = (0, 1, 2, 5, 10, 20, 50, 100, 200)
ACTIVATIONS = ("relu", "tanh", "gelu", "exp", "sin")
COLOURS = dict(zip(ACTIVATIONS, ("C0", "C1", "C2", "C3", "C4"), strict=True))


def digits() -> tuple[np.ndarray, np.ndarray]:
    """All handwritten digits of scikit-learn's wheel: pixels (n, 64) and classes."""
    from sklearn.datasets import load_digits

    data = load_digits()
    return data.data, data.target


def first_of_each_class(pixels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    return pixels[[int(np.flatnonzero(classes == c)[0]) for c in range(10)]]


def strengths() -> None:
    table = beta_table()
    print("Isometry strength beta = 2 - c_1^2 / sum of c_k^2 (k >= 1) of the catalogue\n")
    print(table.to_text())
    (OUT / "beta.md").write_text(table.to_markdown() + "\n", encoding="utf-8")
    (OUT / "beta.csv").write_text(table.to_csv(), encoding="utf-8")


def verdicts(certificate: Certificate) -> str:
    """The verdict over the layers, its smallest slack, threshold and first informative layer."""
    counts = {v.name: certificate.verdicts.count(v) for v in Verdict if v in certificate.verdicts}
    said = ", ".join(f"{name} at {n} layers" for name, n in counts.items())
    threshold = certificate.threshold_layer
    claimed = f", threshold: layer {threshold}" if threshold else ", no threshold"
    informative = certificate.first_informative_layer
    return f"{said}, smallest slack {np.min(certificate.slack):.3g}{claimed}, informative from layer {informative}"


def report(layer: Layer, t: Trajectory, printed: Certificate, sharper: Certificate) -> None:
    r, beta = layer.linearity, layer.isometry_strength
    print(f"{layer.label}: beta = {beta:.10f}")
    print("  layer " + "".join(f"{i:>10}" for i in SHOWN))
    print("  gap   " + "".join(f"{t.isometry_gap[i]:10.2e}" for i in SHOWN))
    measured = float(t.isometry_gap[-1] / t.isometry_gap[-2])
    print(f"  gap ratio of the last two layers {measured:.8f}, (2-beta)^2 = {r * r:.8f}, 1/beta = {1 / beta:.8f}")
    print(f"  Theorem 5.1 as printed   : {verdicts(printed)}")
    print(f"  Theorem 5.1+             : {verdicts(sharper)}")
    slack = [f"{float(c.slack[i]):10.3g}" for c in (printed, sharper) for i in SHOWN]
    print("  log slack of 5.1 ", "".join(slack[: len(SHOWN)]))
    print("  log slack of 5.1+", "".join(slack[len(SHOWN) :]), "\n")


def decay(G0: np.ndarray) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    print(f"\nTen handwritten digits, one of each class: n = {len(G0)}, gap {isometry_gap(G0):.6f},", end=" ")
    print(
        f"log det G0 = {-len(G0) * float(isometry_gap(G0)):.2f}; {DEPTH} mean-field layers with layer normalisation\n"
    )
    figure, ax = plt.subplots(figsize=(8, 5), layout="constrained")
    for name in ACTIVATIONS:
        layer = Layer(name)
        t = trajectory(layer, G0, DEPTH)
        printed, sharper = gap_decay(layer, G0, DEPTH), spectral_gap_decay(layer, G0, DEPTH)
        report(layer, t, printed, sharper)
        t.plot(ax=ax).lines[-1].set_color(COLOURS[name])
        ax.plot(t.layer, np.exp(sharper.rhs), "--", color=COLOURS[name], lw=1)
        ax.plot(t.layer, np.exp(printed.rhs), ":", color=COLOURS[name], lw=1)
    ax.plot([], [], "k--", lw=1, label="Theorem 5.1+")
    ax.plot([], [], "k:", lw=1, label="Theorem 5.1 as printed")
    ax.set_ylim(1e-30, 1e6)
    ax.set_title("Ten digits become orthogonal: isometry gap and its bounds")
    ax.legend()
    figure.savefig(OUT / "decay.png", dpi=120)
    plt.close(figure)


def singular(pixels: np.ndarray) -> None:
    G0 = input_gram(pixels[:64])
    rank = int(np.linalg.matrix_rank(G0))
    layer = Layer("relu")
    t = trajectory(layer, G0, 1)
    start = gap_decay(layer, G0, 20)
    print(f"64 digits: centred Gram of rank {rank}, gap {t.isometry_gap[0]}; Theorem 5.1 from layer 0:", end=" ")
    print(f"{start.verdict.name} ({', '.join(start.false_hypotheses)} is false)")
    again = gap_decay(layer, t.gram, 600)
    print(f"  restarted from layer 1, log det {-64 * float(t.isometry_gap[1]):.2f}: {verdicts(again)}\n")


def main() -> int:
    OUT.mkdir(exist_ok=True)
    strengths()
    pixels, classes = digits()
    decay(input_gram(first_of_each_class(pixels, classes)))
    singular(pixels)
    print("Every claim on random input (python -m bounds verify):\n", flush=True)
    status = subprocess.run([sys.executable, "-m", "bounds", "verify"], check=False).returncode
    print(f"\nwritten: {', '.join(str(OUT / name) for name in ('beta.md', 'beta.csv', 'decay.png'))}")
    return status


if __name__ == "__main__":
    raise SystemExit(main())
