#!/usr/bin/env python3
"""Has a model write conversations with itself, for heads that learn to guess what it writes (eagle.py).

    tools/train/self_text.py MODEL --out build/train/own.jsonl --n 2000

The model first writes a user's question, sampled, then answers it: three of four times with its likeliest tokens, else
sampled. So no list of questions is needed; but left alone it asks much the same, so most questions are begun for it, with some
words that people begin with and a word of its vocabulary to be about. A line is {"ids": tokens of prompt and answer, "n_prompt": how many of them are the
prompt}. The answers come from `quire serve`; what is asked follows from the seed. Questions that stand in --leave-out, one a
line, are left out. A file that is there is added to, from the next seed on.
"""
from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import sys
import threading
import urllib.error
import urllib.request
from random import Random

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from serving import default_quire, served  # noqa: E402

MARK = '@@question@@'
QUESTION_TOKENS, SHORTEST_ANSWER = 64, 4
SAMPLED_EVERY, WARMTH = 4, 0.7
OWN_EVERY = 8  # of so many questions one begins as the model likes
SHORTEST_WORD, COMMON_WORDS = 4, 16_000  # letters; ids, as tokenizers number frequent tokens first
BEGINNINGS = (
    'What is {}', 'What are the {}', 'What does {}', 'What should I {}', 'What happens when {}', 'What is the difference between {}',
    'How do I {}', 'How does a {}', 'How can {}', 'How many {}', 'How is {}', 'How long does {}', 'Why do {}', 'Why is the {}', 'Why did {}',
    'When was {}', 'Where can I find {}', 'Who was {}', 'Which {}', 'Is it {}', 'Can a {}', 'Should I {}', 'Do {}',
    'Explain {}', 'Explain how {}', 'Explain the {} to a child', 'Describe a {}', 'Describe how {}', 'Describe the {} of', 'Define {}',
    'List five {}', 'List the {}', 'Name some {}', 'Give me {} tips', 'Give me a simple {}', 'Give an example of {}', 'Tell me about {}',
    'Tell me a story about a {}', 'Write a {}', 'Write a short story about {}', 'Write a poem about {}', 'Write a letter to a {}',
    'Write a polite email about {}', 'Write a Python function that {}', 'Write a paragraph on {}', 'Summarise {}', 'Summarise the story of {}',
    'Compare {}', 'Suggest a {}', 'Recommend {}', 'Help me {}', 'I want to {}', 'I need {}', 'I have a {}', 'My {}', 'My friend {}',
    'The {} in my house', 'We are {}', 'Imagine a {}', 'Create a {}', 'Make a list of {}', 'Rewrite this sentence: The {}',
    'Correct the mistakes: {}', 'Translate into simple words: {}', 'Plan a {}', 'What are the advantages of {}', 'What is a good way to {}')


def ask(url: str, path: str, body: dict) -> dict:
    request = urllib.request.Request(url + path, json.dumps(body).encode(), {'Content-Type': 'application/json'})
    with urllib.request.urlopen(request, timeout=1800) as reply:
        return json.load(reply)


def frame(url: str) -> tuple[str, str]:
    """What the chat template puts before a question, and between it and the answer."""
    prompt = ask(url, '/apply-template', {'messages': [{'role': 'user', 'content': MARK}]})['prompt']
    before, after = prompt.split(MARK)
    return before, after


def common_words(url: str) -> list[str]:
    """Tokens that are whole words in small letters."""
    def text(i: int) -> str:
        try:
            return ask(url, '/detokenize', {'tokens': [i]})['content']
        except urllib.error.HTTPError:  # behind the vocabulary
            return ''

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        found = [t[1:] for t in pool.map(text, range(COMMON_WORDS)) if t.startswith(' ')]
    words = [w for w in found if len(w) >= SHORTEST_WORD and w.isascii() and w.isalpha() and w.islower()]
    if not words:
        print('no token is a word: questions begin as the model likes', file=sys.stderr)
    return words


def beginning(words: list[str], seed: int) -> str:
    random = Random(seed)
    return '' if seed % OWN_EVERY == 0 or not words else random.choice(BEGINNINGS).format(random.choice(words))


def conversation(url: str, around: tuple[str, str], begun: str, seed: int, longest: int, left_out: set[str]) -> dict | None:
    """None where the model wrote no question that ends."""
    asked = ask(url, '/completion',
                {'prompt': around[0] + begun, 'n_predict': QUESTION_TOKENS, 'temperature': 1.0, 'top_p': 0.9, 'seed': seed})
    question = (begun + asked['content']).strip()
    if asked['stop_type'] != 'eos' or len(question.split()) < 3 or question in left_out:
        return None
    prompt = ask(url, '/tokenize', {'content': around[0] + question + around[1], 'add_special': True})['tokens']
    warmth = 0.0 if seed % SAMPLED_EVERY else WARMTH
    answer = ask(url, '/completion', {'prompt': prompt, 'n_predict': longest, 'temperature': warmth, 'seed': seed, 'return_tokens': True})
    if len(answer['tokens']) < SHORTEST_ANSWER:
        return None
    return {'ids': prompt + answer['tokens'], 'n_prompt': len(prompt)}


def next_seed(path: str) -> int:
    if not os.path.exists(path):
        return 0
    with open(path, encoding='utf-8') as f:
        return max((json.loads(line)['seed'] for line in f), default=-1) + 1


def write(url: str, args: argparse.Namespace) -> None:
    around, words, first, lock = frame(url), common_words(url), next_seed(args.out), threading.Lock()
    left_out: set[str] = set()
    if args.leave_out:
        with open(args.leave_out, encoding='utf-8') as f:
            left_out = {line.strip() for line in f}
    with open(args.out, 'a', encoding='utf-8') as out:
        def one(seed: int) -> None:
            of_all = args.seed * 1_000_000 + seed
            found = conversation(url, around, beginning(words, of_all), of_all, args.longest, left_out)
            if found:
                with lock:
                    out.write(json.dumps(found | {'seed': seed}) + '\n')
                    out.flush()

        with concurrent.futures.ThreadPoolExecutor(args.at_once) as pool:
            for _ in pool.map(one, range(first, first + args.n)):
                pass


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('model')
    parser.add_argument('--out', required=True, help='JSON lines')
    parser.add_argument('--n', type=int, default=1000, help='conversations to try')
    parser.add_argument('--longest', type=int, default=160, help='tokens of an answer at most')
    parser.add_argument('--leave-out', help='a file of questions that are not to be trained on, one a line')
    parser.add_argument('--at-once', type=int, default=32)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--threads', type=int, default=os.cpu_count())
    parser.add_argument('--quire', default=default_quire())
    args = parser.parse_args(argv)
    options = ['--spec', 'off', '--ctx', '1024', '--max-seqs', str(args.at_once), '--threads', str(args.threads)]
    with served(args.quire, args.model, *options) as url:
        write(url, args)


if __name__ == '__main__':
    main(sys.argv[1:])
