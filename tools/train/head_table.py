#!/usr/bin/env python3
"""Says what a head is worth for a model on questions that it did not learn from, one after the other.

    tools/train/head_table.py MODEL --draft models/smollm2-eagle --questions models/smollm2-eagle/held-out.txt

A server without it, one for each fixed depth and one that guesses as it pays, each of them with every width, get every
question in turns, greedily; what slows the machine for a while slows all of them. Answers must be equal. A line: tokens of a
guess, and in the place of its first; how many of them came true; tokens per step; tokens a second, the prompt's time included;
and times as fast as without, as the median over questions.
"""
from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from self_text import ask  # noqa: E402
from serving import default_quire, served  # noqa: E402


class Setting:
    def __init__(self, name: tuple[str, str], url: str):
        self.name, self.url = ' | '.join(name), url
        self.answers: list[str] = []
        self.seconds: list[float] = []
        self.n_tokens = self.n_right = self.n_guessed = 0

    def answer(self, question: str, n_tokens: int) -> None:
        body = {'messages': [{'role': 'user', 'content': question}], 'temperature': 0, 'max_tokens': n_tokens}
        start = time.monotonic()
        reply = ask(self.url, '/v1/chat/completions', body)
        self.seconds.append(time.monotonic() - start)
        self.answers.append(reply['choices'][0]['message']['content'])
        details = reply['usage'].get('completion_tokens_details') or {}
        self.n_tokens += reply['usage']['completion_tokens']
        self.n_right += details.get('accepted_prediction_tokens', 0)
        self.n_guessed += details.get('accepted_prediction_tokens', 0) + details.get('rejected_prediction_tokens', 0)

    def line(self, plain: Setting) -> str:
        right = f'{100 * self.n_right / self.n_guessed:.1f}' if self.n_guessed else '–'
        steps = self.n_tokens / (self.n_tokens - self.n_right)
        gain = statistics.median(a / b for a, b in zip(plain.seconds, self.seconds))
        speed = self.n_tokens / sum(self.seconds)
        return f'| {self.name} | {right} | {steps:.2f} | {speed:.0f} | {gain:.2f} |'


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('model')
    parser.add_argument('--draft', required=True)
    parser.add_argument('--questions', required=True, help='a file, one a line')
    parser.add_argument('--depths', default='1,2,3', help='separated by commas')
    parser.add_argument('--widths', default='1,4', help='likewise')
    parser.add_argument('--tokens', type=int, default=128, help='of an answer at most')
    parser.add_argument('--repeat', type=int, default=1)
    parser.add_argument('--threads', type=int, default=os.cpu_count())
    parser.add_argument('--quire', default=default_quire())
    args = parser.parse_args(argv)
    with open(args.questions, encoding='utf-8') as f:
        questions = [line.strip() for line in f if line.strip()]
    options = {('off', '–'): ['--spec', 'off']}
    for depth in [*args.depths.split(','), '0']:
        for width in args.widths.split(','):
            name = 'as it pays' if depth == '0' else depth, width if depth != '0' else f'up to {width}'
            options[name] = ['--draft', args.draft, '--spec-depth', depth, '--spec-width', width]
    with contextlib.ExitStack() as stack:
        common = ['--ctx', '1024', '--max-seqs', '1', '--threads', str(args.threads)]
        settings = [Setting(name, stack.enter_context(served(args.quire, args.model, *common, *more))) for name, more in options.items()]
        for question in args.repeat * questions:
            for setting in settings:
                setting.answer(question, args.tokens)
    if any(setting.answers != settings[0].answers for setting in settings):
        raise SystemExit('an answer differs with guesses from what it is without')
    print('| tokens of a guess | in the first place | % true | tokens per step | tokens/s | × off |\n|' + ' --- |' * 6)
    print('\n'.join(setting.line(settings[0]) for setting in settings))


if __name__ == '__main__':
    main(sys.argv[1:])
