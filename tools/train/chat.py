"""How a conversation becomes text: the chat template (Jinja, chat_template.jinja) and the same thing in Python, cut into
segments so that training knows which tokens the assistant wrote.

    <|begin|><|system|>…<|end|><|tools|>{…}⏎{…}<|end|><|user|>…<|end|><|assistant|>…<|end|><|tool|>…<|end|><|assistant|>

The idea: each message is one marker, its text untouched, and <|end|>; nothing looks back or ahead. So a longer
conversation always starts with the shorter one's tokens, and a server's prefix cache never misses. A tool call is
written as many models do, so that usual parsers read it: <tool_call>⏎{"name": …, "arguments": {…}}⏎</tool_call>.
"""
from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

BEGIN, END, PAD = '<|begin|>', '<|end|>', '<|pad|>'
ROLES = {'system': '<|system|>', 'user': '<|user|>', 'assistant': '<|assistant|>', 'tool': '<|tool|>'}
TOOLS, CALL, CALL_END = '<|tools|>', '<tool_call>', '</tool_call>'

# In the order of their ids. The later ones are for siblings to come: reasoning, pictures, filling in the middle.
CONTROL = [BEGIN, END, PAD, *ROLES.values(), TOOLS, '<|image|>', '<|fim_prefix|>', '<|fim_suffix|>', '<|fim_middle|>']
CONTROL += [f'<|reserved_{i}|>' for i in range(16 - len(CONTROL))]
TAGS = [CALL, CALL_END, '<think>', '</think>']  # one token each, but text: a reader of the answer sees them

TEMPLATE_PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'chat_template.jinja')


@dataclass
class Segment:
    """A marker (one control token) or text; `learn` where the assistant wrote it."""
    text: str
    control: bool
    learn: bool = False


def call_text(call: Json) -> str:
    function = call['function']
    arguments = function['arguments']
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    name = json.dumps(function['name'], ensure_ascii=False)
    return f'{CALL}\n{{"name": {name}, "arguments": {arguments}}}\n{CALL_END}'


def message_text(message: Json) -> str:
    calls = message.get('tool_calls') or []
    thought = message.get('reasoning_content') if message['role'] == 'assistant' else None
    return (f'<think>\n{thought}\n</think>\n' if thought else '') + '\n'.join([t for t in [message.get('content') or ''] if t] + [call_text(c) for c in calls])


def segments(messages: list[Json], tools: list[Json], generation_prompt: bool = False) -> list[Segment]:
    out = [Segment(BEGIN, True)]
    rest = list(messages)
    if rest and rest[0]['role'] == 'system':
        out += [Segment(ROLES['system'], True), Segment(message_text(rest.pop(0)), False), Segment(END, True)]
    if tools:
        listing = '\n'.join(json.dumps(t, ensure_ascii=False) for t in tools)
        out += [Segment(TOOLS, True), Segment(listing, False), Segment(END, True)]
    for message in rest:
        learn = message['role'] == 'assistant'
        out += [Segment(ROLES[message['role']], True), Segment(message_text(message), False, learn), Segment(END, True, learn)]
    if generation_prompt:
        out.append(Segment(ROLES['assistant'], True))
    return out


def render(messages: list[Json], tools: list[Json], generation_prompt: bool = False) -> str:
    return ''.join(s.text for s in segments(messages, tools, generation_prompt))


def template() -> str:
    with open(TEMPLATE_PATH, encoding='utf-8') as f:
        return f.read()
