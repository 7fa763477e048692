#!/usr/bin/env python3
"""Measures and draws a text without an end (docs/kv.md): how well it is foretold by position, with sinks and without, and
what its keys and values take.

    quire tokenize MODEL --text "$(head -c 60000 FILE)" | tools/endless.py ids --seen 64 > ids.ini
    quire perplexity MODEL --config ids.ini --ctx 3300 --context-shift sinks=4,window=60 --nll with.tsv
    quire perplexity MODEL --config ids.ini --ctx 3300 --context-shift sinks=0,window=64 --nll without.tsv
    quire serve MODEL --ctx 3300 --context-shift sinks=4,window=60 --no-prefix-cache --step-tokens 64 &
    tools/endless.py watch http://127.0.0.1:8080 ids.ini > blocks.tsv
    tools/endless.py draw '4 sinks=with.tsv' 'none=without.tsv' --seen 64 --blocks blocks.tsv --out docs/endless.svg

The ids are 50 times as many as a token sees. Texts differ from page to page, so the last tenth is the second once more, and
what is seen before it too: what differs between these two is how far from the beginning they stand. `draw` prints the
perplexity of each tenth, and what the last is of the second.
"""
from __future__ import annotations

import argparse
import json
import math
import re
import sys
import threading
import time
import urllib.request
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 860, 420
LEFT, RIGHT, TOP, BOTTOM = 70, 70, 48, 52
COLOURS = ['#0b6e99', '#c4451c', '#3d7a3a']
GREY = '#8a8a8a'
TENTHS, WINDOWS = 10, 50
METRIC = r'^quire_kv_window_blocks\{.*state="used".*\} (\S+)$'
COMPUTED = r'^quire_computed_tokens_total\{.*\} (\S+)$'


def ids_of(tokens: list[int], seen: int) -> list[int]:
    tenth = WINDOWS // TENTHS * seen
    n_first = (TENTHS - 1) * tenth - seen
    if seen < 1 or len(tokens) < n_first:
        raise SystemExit(f'endless: {WINDOWS} times {seen} tokens need a text of {n_first}, this one has {len(tokens)}')
    return tokens[:n_first] + tokens[tenth - seen : 2 * tenth]


def read_ids(path: str) -> list[int]:
    with open(path, encoding='utf-8') as f:
        return [int(x) for x in f.read().removeprefix('tokens = ').split(',')]


def read_nll(path: str) -> list[float]:
    with open(path, encoding='utf-8') as f:
        out = [float(line.split('\t')[2]) for line in f]
    if len(out) < TENTHS:
        raise SystemExit(f'endless: {path} has {len(out)} tokens of `quire perplexity --nll`, {TENTHS} at least are needed')
    return out


def perplexity(nll: list[float]) -> float:
    return math.exp(sum(nll) / len(nll))


# The first token is not scored, so the first tenth has one less.
def tenths(nll: list[float]) -> list[float]:
    n = (len(nll) + 1) // TENTHS
    return [perplexity(nll[max(i * n - 1, 0) : (i + 1) * n - 1]) for i in range(TENTHS)]


def sample(url: str) -> tuple[int, int]:
    with urllib.request.urlopen(url + '/metrics') as reply:
        text = reply.read().decode()
    blocks = re.search(METRIC, text, re.MULTILINE)
    if blocks is None:
        raise SystemExit(f'endless: {url}/metrics has no blocks of a window: was the server started with --context-shift?')
    return sum(int(float(x)) for x in re.findall(COMPUTED, text, re.MULTILINE)), int(float(blocks[1]))


# Lines of tokens computed and blocks held, while a server reads all ids.
def watch(url: str, ids: list[int]) -> None:
    body = json.dumps({'prompt': ids, 'max_tokens': 1}).encode()
    request = urllib.request.Request(url + '/v1/completions', body, {'Content-Type': 'application/json'})
    reader = threading.Thread(target=lambda: urllib.request.urlopen(request).read())
    reader.start()
    last = None
    while reader.is_alive():
        now = sample(url)
        if now != last and reader.is_alive():
            print(f'{now[0]}\t{now[1]}', flush=True)
        last = now
        time.sleep(0.2)


def text(x: float, y: float, words: str, anchor: str = 'start', colour: str = '#222', more: str = '') -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}"{more}>{escape(words)}</text>'


def path(points: list[tuple[float, float]], colour: str, more: str = '') -> str:
    d = 'M' + 'L'.join(f'{x:.1f} {y:.1f}' for x, y in points)
    return f'<path d="{d}" fill="none" stroke="{colour}" stroke-width="1.5"{more}/>'


class Axes:
    """Tokens across; perplexity up on the left, logarithmic; blocks up on the right."""

    def __init__(self, n_tokens: int, values: list[float], most_blocks: int):
        self.n_tokens = n_tokens
        self.y0, self.y1 = math.log2(min(values)) - 0.25, math.log2(max(values)) + 0.5
        self.most_blocks = max(most_blocks, 1)

    def x(self, n: float) -> float:
        return LEFT + n / self.n_tokens * (WIDTH - LEFT - RIGHT)

    def up(self, share: float) -> float:
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    def y(self, value: float) -> float:
        return self.up((math.log2(value) - self.y0) / (self.y1 - self.y0))

    def blocks(self, n: float) -> float:
        return self.up(n / (2 * self.most_blocks))


def frame(axes: Axes, seen: int, has_blocks: bool) -> list[str]:
    out = []
    for i in range(TENTHS + 1):
        x = axes.x(axes.n_tokens * i / TENTHS)
        out += [path([(x, TOP), (x, HEIGHT - BOTTOM)], '#ddd'),
                text(x, HEIGHT - BOTTOM + 18, f'{axes.n_tokens * i // TENTHS:,}', 'middle')]
    for e in range(math.ceil(axes.y0), math.floor(axes.y1) + 1):
        y = axes.y(2.0**e)
        out += [path([(LEFT, y), (WIDTH - RIGHT, y)], '#ddd'), text(LEFT - 8, y + 4, f'{2**e}', 'end')]
    middle = (TOP + HEIGHT - BOTTOM) / 2
    out += [text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, f'tokens; each sees {seen} at most', 'middle'),
            text(20, middle, 'perplexity', 'middle', more=f' transform="rotate(-90 20 {middle:.1f})"')]
    if has_blocks:
        x = WIDTH - 20
        for n in (0, axes.most_blocks):
            out.append(text(WIDTH - RIGHT + 8, axes.blocks(n) + 4, str(n), colour=GREY))
        out.append(text(x, middle, 'blocks held', 'middle', GREY, f' transform="rotate(90 {x} {middle:.1f})"'))
    return out


def draw(runs: list[tuple[str, list[float]]], blocks: list[tuple[int, int]], seen: int) -> str:
    n = len(runs[0][1]) + 1
    curves = [(label, [perplexity(nll[i : i + seen]) for i in range(0, len(nll), seen)]) for label, nll in runs]
    axes = Axes(n, [v for _, values in curves for v in values], max((b for _, b in blocks), default=0))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
           text(LEFT, 24, f'A text of {n / seen:.0f} windows, perplexity of each window', more=' font-size="15"')]
    out += frame(axes, seen, bool(blocks))
    if blocks:
        out.append(path([(axes.x(min(t, n)), axes.blocks(b)) for t, b in blocks], GREY, ' stroke-dasharray="4 3"'))
    for i, (label, values) in enumerate(curves):
        colour = COLOURS[i % len(COLOURS)]
        out.append(path([(axes.x(min((j + 0.5) * seen, n)), axes.y(v)) for j, v in enumerate(values)], colour))
        out.append(text(LEFT + 10 + 150 * i, TOP + 16, label, colour=colour))
    return '\n'.join([*out, '</svg>', ''])


def draw_files(args: argparse.Namespace) -> None:
    runs = []
    for argument in args.runs:
        label, equals, name = argument.partition('=')
        if not equals:
            raise SystemExit(f'endless: wanted LABEL=FILE, got "{argument}"')
        runs.append((label, read_nll(name)))
        values = tenths(runs[-1][1])
        print(label, *(f'{v:.2f}' for v in values), f'last of second {values[-1] / values[1]:.4f}')
    blocks = []
    if args.blocks:
        with open(args.blocks, encoding='utf-8') as f:
            blocks = [(int(t), int(b)) for t, b in (line.split('\t') for line in f)]
    with open(args.out, 'w', encoding='utf-8') as f:
        f.write(draw(runs, blocks, args.seen))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest='command', required=True)
    ids = commands.add_parser('ids', help='from `quire tokenize` to options of `quire perplexity`')
    ids.add_argument('--seen', type=int, required=True, help='tokens that each token sees')
    watched = commands.add_parser('watch', help='what a server holds while it reads the ids')
    watched.add_argument('url')
    watched.add_argument('ids')
    drawn = commands.add_parser('draw', help='the tenths, and the plot')
    drawn.add_argument('runs', nargs='+', metavar='LABEL=FILE', help='files of `quire perplexity --nll`')
    drawn.add_argument('--seen', type=int, required=True, help='tokens that each token sees')
    drawn.add_argument('--blocks', help='what `watch` printed')
    drawn.add_argument('--out', required=True)
    args = parser.parse_args()
    if args.command == 'ids':
        print('tokens = ' + ','.join(map(str, ids_of(json.load(sys.stdin), args.seen))))
    elif args.command == 'watch':
        watch(args.url.rstrip('/'), read_ids(args.ids))
    else:
        draw_files(args)


if __name__ == '__main__':
    main()
