"""Draw the logo: a rough path that goes through three observations, and the band of paths that could have.

python scripts/logo.py
"""

from itertools import pairwise
from pathlib import Path

import numpy as np

FILE = Path(__file__).parents[1] / "docs" / "_static" / "logo.svg"
SIZE, STEPS, ROUGHNESS = 96.0, 16, 6.0
OBSERVED = np.array([[11.0, 82.0], [44.0, 16.0], [85.0, 62.0]])  # across, down
LINE, BAND, POINT = "#2f7fb8", "#9cc9e8", "#e08a1e"  # seen on light pages and on dark ones


def bridges() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return across (N,), a path through the observations and the standard deviation about it, downwards."""
    rng, across, down, spread = np.random.default_rng(7), [], [], []
    for (left, from_), (right, to) in pairwise(OBSERVED):
        t = np.linspace(0.0, 1.0, STEPS + 1)
        wiener = np.append(0.0, np.cumsum(rng.normal(size=STEPS))) / np.sqrt(STEPS)
        across.append(left + (right - left) * t)
        down.append(from_ + (to - from_) * t + 2.0 * ROUGHNESS * (wiener - t * wiener[-1]))
        spread.append(2.0 * ROUGHNESS * np.sqrt(t * (1.0 - t)))
    return np.concatenate(across), np.concatenate(down), np.concatenate(spread)


def points(across: np.ndarray, down: np.ndarray) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, down, strict=True))


def drawn() -> str:
    across, path, spread = bridges()
    middle = np.interp(across, *OBSERVED.T)
    band = points(np.append(across, across[::-1]), np.append(middle - 2.0 * spread, middle[::-1] + 2.0 * spread[::-1]))
    dots = "".join(f'<circle cx="{x:g}" cy="{y:g}" r="8" fill="{POINT}"/>' for x, y in OBSERVED)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIZE:g} {SIZE:g}" role="img" aria-label="pathfold">\n'
        f'<polygon points="{band}" fill="{BAND}" opacity="0.6"/>\n'
        f'<polyline points="{points(across, path)}" fill="none" stroke="{LINE}" stroke-width="5" '
        f'stroke-linejoin="round" stroke-linecap="round"/>\n{dots}\n</svg>\n'
    )


def main() -> None:
    FILE.write_text(drawn())
    print(FILE.name, f"{FILE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
