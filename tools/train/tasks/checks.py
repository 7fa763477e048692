"""Is an answer right? Each check is plain data (it travels in the JSON lines) with the chance of a guesser who knows the
form of the answer and the candidates that the prompt offers. `passes(check, reply)` is the only judge: generators,
tests and the evaluation all use it.
"""
from __future__ import annotations

import json
import re
from typing import Any, Sequence

Json = dict[str, Any]

DECLINES = ('do not know', 'does not say', 'cannot say', 'do not have', 'no information')
CALL = re.compile(r'^\s*<tool_call>\s*(.*?)\s*</tool_call>\s*$', re.S)
SENTENCE_END = re.compile(r'(?<=[.!?])["”]?\s+')


# ---- making checks -----------------------------------------------------------------------------------------------

def exact(want: str, chance: float) -> Json:
    return {'kind': 'exact', 'want': [want], 'chance': chance}


def one_of(want: Sequence[str], chance: float) -> Json:
    return {'kind': 'exact', 'want': list(want), 'chance': chance}


def mention(want: Sequence[str], never: Sequence[str], chance: float) -> Json:
    """All of `want` as whole words, none of `never`."""
    return {'kind': 'mention', 'want': list(want), 'never': [n for n in never if n not in want], 'chance': chance}


def number(want: int, chance: float) -> Json:
    """The last number of the answer: steps may stand before it."""
    return {'kind': 'number', 'want': want, 'chance': chance}


def json_value(want: Any, chance: float) -> Json:
    return {'kind': 'json', 'want': want, 'chance': chance}


def call(name: str, arguments: Json, chance: float) -> Json:
    return {'kind': 'call', 'want': {'name': name, 'arguments': arguments}, 'chance': chance}


def decline(chance: float) -> Json:
    return {'kind': 'decline', 'chance': chance}


def story(mentions: Sequence[str], openings: Sequence[str], sentences: tuple[int, int], chance: float) -> Json:
    return {'kind': 'story', 'want': list(mentions), 'openings': list(openings), 'sentences': list(sentences),
            'chance': chance}


# ---- judging -----------------------------------------------------------------------------------------------------

def has_words(text: str, words: str) -> bool:
    return re.search(r'(?<!\w)' + re.escape(words) + r'(?!\w)', text) is not None


def same_json(a: Any, b: Any) -> bool:
    """Equal values of equal types: 1 is not true and not 1.5; the order of an object's members does not count."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same_json(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same_json, a, b))
    return a == b


def parse_json(text: str) -> tuple[bool, Any]:
    try:
        return True, json.loads(text)
    except ValueError:
        return False, None


def passes_mention(check: Json, reply: str) -> bool:
    return all(has_words(reply, w) for w in check['want']) and not any(has_words(reply, n) for n in check['never'])


def passes_number(check: Json, reply: str) -> bool:
    found = re.findall(r'-?\d+', reply.replace(',', ''))
    return bool(found) and int(found[-1]) == check['want']


def passes_json(check: Json, reply: str) -> bool:
    ok, value = parse_json(reply.strip())
    return ok and same_json(value, check['want'])


def passes_call(check: Json, reply: str) -> bool:
    found = CALL.match(reply)
    if found is None:
        return False
    ok, value = parse_json(found.group(1))
    return ok and same_json(value, check['want'])


def passes_story(check: Json, reply: str) -> bool:
    sentences = SENTENCE_END.split(reply.strip())
    low, high = check['sentences']
    return (low <= len(sentences) <= high and len(set(sentences)) == len(sentences)
            and reply.rstrip()[-1:] in '.!?"' and any(reply.startswith(o) for o in check['openings'])
            and all(has_words(reply, w) for w in check['want']))


JUDGES = {
    'exact': lambda check, reply: reply.strip() in check['want'],
    'mention': passes_mention,
    'number': passes_number,
    'json': passes_json,
    'call': passes_call,
    'decline': lambda check, reply: any(d in reply for d in DECLINES),
    'story': passes_story,
}


def passes(check: Json, reply: str) -> bool:
    """`reply` is the assistant's text as generated, a tool call with its tags."""
    return JUDGES[check['kind']](check, reply)
