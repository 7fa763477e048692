"""A picture of losses over tokens, as SVG, from the lines of a training log."""
from __future__ import annotations

import math
from typing import Sequence

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 860, 420, 60, 40, 30
COLOURS = {'train': '#3465a4', 'phrasing': '#cc0000', 'content': '#4e9a06', 'both': '#c17d11'}


def smooth(points: Sequence[tuple[float, float]], keep: float = 0.9) -> list[tuple[float, float]]:
    out, mean, weight = [], 0.0, 0.0
    for x, y in points:
        mean, weight = keep * mean + (1 - keep) * y, keep * weight + (1 - keep)
        out.append((x, mean / weight))
    return out


def svg(series: dict[str, list[tuple[float, float]]], title: str) -> str:
    """series: name to (tokens, loss). The loss axis is logarithmic."""
    points = [p for line in series.values() for p in line if p[1] > 0]
    if not points:
        return ''
    right = max(x for x, _ in points)
    low, high = (math.log10(f(y for _, y in points)) for f in (min, max))
    high = max(high, low + 0.1)

    def at(x: float, y: float) -> str:
        px = LEFT + (WIDTH - LEFT - 20) * x / right
        py = TOP + (HEIGHT - TOP - BOTTOM) * (high - math.log10(y)) / (high - low)
        return f'{px:.1f},{py:.1f}'

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/><text x="{LEFT}" y="18">{title}</text>']
    for i in range(6):
        y = 10 ** (low + (high - low) * i / 5)
        _, py = at(0, y).split(',')
        out.append(f'<path d="M{LEFT} {py}H{WIDTH - 20}" stroke="#ddd"/><text x="8" y="{py}">{y:.3g}</text>')
        px, _ = at(right * i / 5, y).split(',')
        out.append(f'<text x="{px}" y="{HEIGHT - 20}" text-anchor="middle">{right * i / 5e6:.2g} M</text>')
    for i, (name, line) in enumerate(series.items()):
        colour = COLOURS.get(name, 'black')
        path = ' '.join(at(x, y) for x, y in (smooth(line) if name == 'train' else line) if y > 0)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}"/>')
        out.append(f'<text x="{WIDTH - 100}" y="{TOP + 16 * (i + 1)}" fill="{colour}">{name}</text>')
    return '\n'.join(out) + '\n</svg>\n'
