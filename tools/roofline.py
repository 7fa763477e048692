#!/usr/bin/env python3
"""Draws what `quire bench --json` measured under the roofs of the machine that it probed (an SVG).

    quire bench 1b-q8.gguf --json --batch 1,4,8 > q8.jsonl
    tools/roofline.py q8_0=q8.jsonl q4_0=q4.jsonl --title '2 cores of a Zen 3 VM' --out docs/roofline.svg

Across: operations for each byte read from memory. Up: operations a second. A point can be no higher than the slanted
roof (bandwidth times operations per byte) nor, but for weights whose sums are kept in 16 bits (docs/backend-cpu.md), the
flat one of its format (multiply-adds of int8 or of f32). Source: Williams, Waterman, Patterson, "Roofline", 2009.
"""
from __future__ import annotations

import argparse
import json
import math
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 860, 520
LEFT, RIGHT, TOP, BOTTOM = 70, 24, 48, 52
COLOURS = ['#0b6e99', '#c4451c', '#3d7a3a', '#7b4bb3', '#8a6d00', '#444444']
SAME = 0.05  # roofs nearer than this are one


@dataclass(frozen=True)
class Point:
    label: str
    name: str
    x: float  # operations per byte
    y: float  # Gop/s


@dataclass(frozen=True)
class Roofs:
    bandwidth: float  # GB/s
    peaks: list[float]  # Gop/s, ascending


def points_of(label: str, lines: list[dict]) -> list[Point]:
    out = []
    for line in lines:
        name = f'{line["test"]} {line["n_prompt"] if line["test"] == "prefill" else line["n_seqs"]}'
        if line['depth'] > 1:
            name += f' at {line["depth"]}'
        ops = line['ops_per_token']
        out.append(Point(label, name, ops / line['bytes_per_token'], line['tok_s']['median'] * ops * 1e-9))
    return out


def roofs_of(lines: list[dict]) -> Roofs:
    peaks: list[float] = []
    for peak in sorted((line['peak_gop_s'] for line in lines), reverse=True):
        if not any(abs(peak - other) < SAME * other for other in peaks):
            peaks.append(peak)
    return Roofs(max(line['bandwidth_gb_s'] for line in lines), sorted(peaks))


class Axes:
    """Logarithmic, whole powers of two."""

    def __init__(self, points: list[Point], roofs: Roofs):
        xs = [p.x for p in points] + [peak / roofs.bandwidth for peak in roofs.peaks]
        ys = [p.y for p in points] + roofs.peaks
        self.x0, self.x1 = math.floor(math.log2(min(xs))) - 1, math.ceil(math.log2(max(xs))) + 1
        self.y0, self.y1 = math.floor(math.log2(min(ys))) - 1, math.ceil(math.log2(max(ys))) + 1

    def x(self, value: float) -> float:
        return LEFT + (math.log2(value) - self.x0) / (self.x1 - self.x0) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (math.log2(value) - self.y0) / (self.y1 - self.y0) * (HEIGHT - TOP - BOTTOM)


def text(x: float, y: float, words: str, anchor: str = 'start', colour: str = '#222', more: str = '') -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}"{more}>{escape(words)}</text>'


def line(x0: float, y0: float, x1: float, y1: float, style: str) -> str:
    return f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" {style}/>'


def grid(axes: Axes) -> list[str]:
    out = []
    faint = 'stroke="#ddd"'
    for e in range(axes.x0, axes.x1 + 1):
        x = axes.x(2.0**e)
        out += [line(x, TOP, x, HEIGHT - BOTTOM, faint), text(x, HEIGHT - BOTTOM + 18, f'{2.0**e:g}', 'middle')]
    for e in range(axes.y0, axes.y1 + 1):
        y = axes.y(2.0**e)
        out += [line(LEFT, y, WIDTH - RIGHT, y, faint), text(LEFT - 8, y + 4, f'{2.0**e:g}', 'end')]
    out.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, 'operations per byte read', 'middle'))
    out.append(text(18, (TOP + HEIGHT - BOTTOM) / 2, 'Gop/s', 'middle',
                    more=f' transform="rotate(-90 18 {(TOP + HEIGHT - BOTTOM) / 2:.1f})"'))
    return out


def roof_lines(axes: Axes, roofs: Roofs) -> list[str]:
    style = 'stroke="#222" stroke-width="1.5"'
    top = roofs.peaks[-1]
    low = max(2.0**axes.x0, 2.0**axes.y0 / roofs.bandwidth)
    corner = top / roofs.bandwidth
    out = [line(axes.x(low), axes.y(low * roofs.bandwidth), axes.x(corner), axes.y(top), style),
           text(axes.x(low) + 6, axes.y(low * roofs.bandwidth) - 14, f'{roofs.bandwidth:.0f} GB/s')]
    for peak in roofs.peaks:
        y = axes.y(peak)
        out += [line(axes.x(peak / roofs.bandwidth), y, WIDTH - RIGHT, y, style),
                text(WIDTH - RIGHT - 4, y - 6, f'{peak:.0f} Gop/s', 'end')]
    return out


def draw(title: str, points: list[Point], roofs: Roofs) -> str:
    axes = Axes(points, roofs)
    labels = list(dict.fromkeys(p.label for p in points))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>', text(LEFT, 24, title, more=' font-size="15"')]
    out += grid(axes) + roof_lines(axes, roofs)
    for i, label in enumerate(labels):
        colour = COLOURS[i % len(COLOURS)]
        out.append(text(WIDTH - RIGHT - 4, HEIGHT - BOTTOM - 10 - 16 * (len(labels) - 1 - i), label, 'end', colour))
        for p in (p for p in points if p.label == label):
            x, y = axes.x(p.x), axes.y(p.y)
            out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}">'
                       f'<title>{escape(f"{label}, {p.name}: {p.y:.0f} Gop/s at {p.x:.2g} per byte")}</title></circle>')
            out.append(text(x + 7, y + 12, p.name, colour=colour, more=' font-size="10"'))
    return '\n'.join([*out, '</svg>', ''])


def read(argument: str) -> tuple[str, list[dict]]:
    label, equals, path = argument.partition('=')
    if not equals:
        raise SystemExit(f'roofline: wanted LABEL=FILE, got "{argument}"')
    with open(path, encoding='utf-8') as f:
        lines = [json.loads(x) for x in f if x.startswith('{')]
    if not lines:
        raise SystemExit(f'roofline: {path} has no line of `quire bench --json`')
    return label, lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('runs', nargs='+', metavar='LABEL=FILE', help='lines of `quire bench --json`')
    parser.add_argument('--title', default='quire bench')
    parser.add_argument('--out', required=True)
    args = parser.parse_args()
    runs = [read(x) for x in args.runs]
    points = [p for label, lines in runs for p in points_of(label, lines)]
    with open(args.out, 'w', encoding='utf-8') as f:
        f.write(draw(args.title, points, roofs_of([x for _, lines in runs for x in lines])))


if __name__ == '__main__':
    main()
