"""Short notes of the models' world, each with a question that it alone answers: what the embedding model learns from.

Questions are wordings with a held-out half; names, places, things and beasts are held out as in every task. Only the standard
library is needed.
"""
from __future__ import annotations

from tasks.core import Draw, Phrases

KEEPS = Phrases('embed.keeps', '{name} keeps the {thing} in {place}.\nIn {place} {name} has the {thing}.\nThe {thing} of {name} is in {place}.')
SAW = Phrases('embed.saw', '{name} saw {beast} near {place}.\nNear {place} {name} met {beast}.\nIt was {name} who found {beast} at {place}.')
WHERE_KEPT = Phrases('embed.where_kept', '''Where is the {thing} of {name}?
    Where does {name} keep the {thing}?
    In which place is the {thing} that {name} has?''', '''I look for the {thing}. {name} has it, but where?
    Where would I find the {thing} belonging to {name}?''')
WHO_SAW = Phrases('embed.who_saw', '''Who saw {beast} near {place}?
    Who met {beast} at {place}?
    Which person found {beast} close to {place}?''', '''Somebody saw {beast} by {place}. Who was it?
    Tell me who came across {beast} around {place}.''')
FILLER = Phrases('embed.filler', 'It was a quiet day.\nNobody else was there.\nThe sun was going down.\nIt had rained all morning.\nThe market was closed.')


def pair(split: str, seed: str, name: str | None = None) -> tuple[str, str]:
    """(question, note)"""
    d = Draw(f'embed/{split}/{seed}', split)
    what = {'name': name or d.name(), 'place': d.place()}
    if d.chance(0.5):
        what['thing'] = d.thing()
        fact, question = d.say(KEEPS, **what), d.phrase(WHERE_KEPT, **what)
    else:
        what['beast'] = d.beast()
        fact, question = d.say(SAW, **what), d.phrase(WHO_SAW, **what)
    sentences = [fact] + [d.say(FILLER) for _ in range(d.number(0, 2))]
    return question, ' '.join(d.shuffled(sentences))


def pairs(split: str, seed: str, n: int) -> list[tuple[str, str]]:
    """The last quarter is of few people."""
    few = Draw(f'embed/people/{split}/{seed}', split).names(max(2, n // 16))
    return [pair(split, f'{seed}/{i}', few[i % len(few)] if i >= n * 3 // 4 else None) for i in range(n)]
