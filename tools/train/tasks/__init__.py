"""The tasks that the bundled models are trained and measured on: every module here with NAME, WEIGHT and make(draw).

`dialog_of(name, split, seed)` is one task's sample; `mixed_dialog` is what training reads: often one task alone, often
several one after the other in one conversation, sometimes below a system prompt.
"""
from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

from .core import Dialog, Draw, Json, Phrases

SYSTEM = Phrases('mix.system', '''You are Quill, a helpful assistant.
    You are a helpful assistant.
    You are Quill. Answer briefly.
    Be kind and brief.
    You are a small assistant that knows the town of Little Quarrow.
    Help the user.''', '''You are a friendly assistant called Quill.
    Please help the user with everything.''')
SYSTEM_PART = 0.25
ALONE_PART = 0.6


def find_tasks() -> dict[str, ModuleType]:
    modules = [importlib.import_module(f'{__name__}.{m.name}') for m in pkgutil.iter_modules(__path__)]
    return {m.NAME: m for m in sorted(modules, key=lambda m: m.__name__) if hasattr(m, 'NAME')}


TASKS = find_tasks()
WEIGHTS = [m.WEIGHT for m in TASKS.values()]


def with_system(d: Draw, dialog: Dialog) -> Dialog:
    if not d.chance(SYSTEM_PART):
        return dialog
    out = Dialog(tools=dialog.tools)
    out.system(d.phrase(SYSTEM))
    out.append(dialog)
    return out


def sample_of(name: str, split: str, seed: str | int, budget: int = 512) -> Json:
    """One task alone, with all that its checks need: a line of the evaluation's files."""
    d = Draw(f'{name}/{split}/{seed}', split, budget)
    dialog = TASKS[name].make(d)
    return {'task': name, 'split': split, 'seed': seed, 'templates': d.templates, 'content': d.contents, 'facts': dialog.facts,
            'tools': dialog.tools, 'messages': dialog.messages, 'checks': dialog.checks}


def mixed_dialog(seed: str | int, budget: int = 512) -> tuple[str, Dialog]:
    """(names of the tasks, conversation), always of the training split. The same seed is the same conversation."""
    d = Draw(f'mix/{seed}', 'train', budget)
    names = d.rng.choices(list(TASKS), WEIGHTS, k=1 if d.chance(ALONE_PART) else d.number(2, 4))
    if budget > 1024 and d.chance(0.5):  # long ones are for recall, with other talk around it; the rest stays short
        names[d.number(0, len(names) - 1)] = 'recall'
    dialog = Dialog()
    for name in names:
        part = TASKS[name].make(d)
        if part.tools and dialog.tools:
            continue  # a conversation has one list of tools
        dialog.tools = dialog.tools or part.tools
        dialog.append(part)
    return '+'.join(names), with_system(d, dialog)
