#!/usr/bin/env python3
"""Trains the tokenizer of the bundled models: byte-level BPE over generated text, split as Llama 3 splits.

    tools/train/tokenizer.py --out build/train/tokenizer.json

Two decisions: while training every digit stands alone, so no merge ever joins digits and arithmetic sees them one by
one although the split allows groups of three; and the control tokens come first, so their ids never move.
"""
from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Iterator

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from chat import BEGIN, CONTROL, TAGS, segments  # noqa: E402
from tasks import mixed_dialog  # noqa: E402

LLAMA3_SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
                r"|\s+(?!\S)|\s+")
N_VOCAB = 4096
N_DIALOGS = 60000
SEED = 'tokenizer'


def corpus(n: int) -> Iterator[str]:
    for i in range(n):
        _, dialog = mixed_dialog(f'{SEED}/{i}')
        for segment in segments(dialog.messages, dialog.tools):
            if not segment.control:
                yield segment.text.replace('<tool_call>', '').replace('</tool_call>', '')


def split() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Split(Regex(LLAMA3_SPLIT), 'isolated')


def to_bytes() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


def train(n_vocab: int, n_dialogs: int) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), split(), to_bytes()])
    trainer = trainers.BpeTrainer(vocab_size=n_vocab, special_tokens=CONTROL + TAGS, show_progress=False,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.train_from_iterator(corpus(n_dialogs), trainer)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split(), to_bytes()])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def finished(tokenizer: Tokenizer) -> Tokenizer:
    """The tags become ordinary text tokens; encoding with special tokens puts the first marker in front."""
    spec = json.loads(tokenizer.to_str())
    for token in spec['added_tokens']:
        token['special'] = token['content'] in CONTROL
    begin = {'SpecialToken': {'id': BEGIN, 'type_id': 0}}
    spec['post_processor'] = {
        'type': 'TemplateProcessing', 'single': [begin, {'Sequence': {'id': 'A', 'type_id': 0}}],
        'pair': [begin, {'Sequence': {'id': 'A', 'type_id': 0}}, {'Sequence': {'id': 'B', 'type_id': 1}}],
        'special_tokens': {BEGIN: {'id': BEGIN, 'ids': [0], 'tokens': [BEGIN]}}}
    return Tokenizer.from_str(json.dumps(spec, ensure_ascii=False))


def problems(tokenizer: Tokenizer, n_vocab: int) -> list[str]:
    """What would make readers of the file disagree with each other."""
    found = []
    if tokenizer.get_vocab_size() != n_vocab:
        found.append(f'has {tokenizer.get_vocab_size()} tokens, wanted {n_vocab}')
    for i, text in enumerate(CONTROL + TAGS):
        if tokenizer.token_to_id(text) != i:
            found.append(f'{text} has id {tokenizer.token_to_id(text)}, wanted {i}')
    # Readers that know of ignore_merges and those that do not agree when each token is what its own merges give.
    spec = json.loads(tokenizer.to_str())
    spec['model']['ignore_merges'] = False
    by_merges = Tokenizer.from_str(json.dumps(spec))
    for i in range(len(CONTROL + TAGS), n_vocab):
        text = tokenizer.decode([i])
        if '\ufffd' not in text and by_merges.encode(text, add_special_tokens=False).ids != [i]:
            found.append(f'token {i} {text!r} is not what its merges give')
    return found


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--out', required=True)
    parser.add_argument('--vocab', type=int, default=N_VOCAB)
    parser.add_argument('--dialogs', type=int, default=N_DIALOGS)
    args = parser.parse_args(argv)
    tokenizer = finished(train(args.vocab, args.dialogs))
    for line in problems(tokenizer, args.vocab):
        print(f'tokenizer: {line}', file=sys.stderr)
    os.makedirs(os.path.dirname(os.path.abspath(args.out)), exist_ok=True)
    tokenizer.save(args.out + '.tmp')
    os.replace(args.out + '.tmp', args.out)
    n_bytes = n_tokens = 0
    for text in corpus(500):
        n_bytes += len(text.encode())
        n_tokens += len(tokenizer.encode(text, add_special_tokens=False).ids)
    print(f'{args.out}: {args.vocab} tokens, {n_bytes / n_tokens:.2f} bytes per token')


if __name__ == '__main__':
    main(sys.argv[1:])
