"""JSON on request by a given schema: a text and a schema in, one JSON value out, nothing around it.

Schemas are objects of two to five members: strings, whole numbers, true or false, one of a list (enum), lists of
strings, a nested object. Held out: wordings; the people, places and things of the text (content). The value must be
equal, types included. The guesser fills enums and booleans by chance and cannot guess the rest.
"""
from __future__ import annotations

import json
from typing import Any

from . import checks, words
from .core import Dialog, Draw, Phrases, listed

NAME = 'json'
WEIGHT = 1.6

ASK = Phrases('json.ask', '''Write this as JSON by the schema {s}¶¶{x}
    {x}¶¶Answer in JSON by this schema: {s}
    Give me JSON with this schema:¶{s}¶¶{x}
    Read the text and answer in JSON.¶Schema: {s}¶Text: {x}
    Fill this JSON schema from the text.¶{s}¶¶{x}
    Text: {x}¶JSON schema: {s}¶Answer only with JSON.''', '''Turn the text into JSON. The schema is {s}¶¶{x}
    {x}¶¶I need that as JSON by the schema {s}
    Schema: {s}¶¶Make JSON of this text: {x}''')
KEYS = Phrases('json.keys', '''Write this as JSON with the keys {k}: {x}
    Give me JSON with the keys {k}.¶¶{x}
    {x}¶¶Make JSON of this. Keys: {k}
    As JSON with {k}: {x}''', '''Turn this into JSON, keys {k}.¶¶{x}
    {x}¶¶I need JSON with {k}.''')
CHANGE = Phrases('json.change', '''Change {k} to {v}.
    Now set {k} to {v}.
    {k} should be {v}.
    Make {k} {v}.''', '''Please put {v} into {k}.
    Replace {k} by {v}.''')
STRING, INTEGER, BOOLEAN = {'type': 'string'}, {'type': 'integer'}, {'type': 'boolean'}


def field_name(d: Draw, field: str, nested: bool) -> tuple[str, dict, Any, str]:
    value = d.person()
    return d.pick(['name', 'person', 'who']), STRING, value, f'The name is {value}.'


def field_age(d: Draw, field: str, nested: bool) -> tuple[str, dict, Any, str]:
    value = d.number(4, 98)
    return 'age', INTEGER, value, d.pick([f'The age is {value}.', f'It is a person of {value} years.'])


def field_place(d: Draw, field: str, nested: bool) -> tuple[str, dict, Any, str]:
    value = d.place()
    return d.pick(['place', 'town', 'where']), STRING, value, d.pick([f'The home is in {value}.', f'It was in {value}.'])


def field_thing(d: Draw, field: str, nested: bool) -> tuple[str, dict, Any, str]:
    value = d.thing()
    return d.pick(['thing', 'item', 'object']), STRING, value, d.pick([f'It is about the {value}.', f'The {value} is for sale.'])


def field_price(d: Draw, field: str, nested: bool) -> tuple[str, dict, Any, str]:
    value = d.number(1, 99)
    return d.pick(['price', 'coins', 'cost']), INTEGER, value, f'It costs {value} coins.'


def field_day(d: Draw, field: str, nested: bool) -> tuple[str, dict, Any, str]:
    value = d.pick(words.WEEKDAYS)
    return 'day', {'type': 'string', 'enum': words.WEEKDAYS} if d.chance(0.3) else STRING, value, f'The day is {value}.'


def field_colour(d: Draw, field: str, nested: bool) -> tuple[str, dict, Any, str]:
    some = d.some(words.COLOURS, 3)
    return 'colour', {'type': 'string', 'enum': some}, some[d.number(0, 2)], ''


def field_open(d: Draw, field: str, nested: bool) -> tuple[str, dict, Any, str]:
    value = d.chance(0.5)
    key, yes, no = d.pick([('open', 'The door is open.', 'The door is closed.'), ('paid', 'It is paid.', 'It is not paid yet.'),
                           ('sold', 'It is already sold.', 'It is not sold yet.'), ('new', 'It is new.', 'It is not new.')])
    return key, BOOLEAN, value, yes if value else no


def field_friends(d: Draw, field: str, nested: bool) -> tuple[str, dict, Any, str]:
    value = d.names(d.number(2, 4))
    return d.pick(['friends', 'guests', 'names']), {'type': 'array', 'items': STRING}, value, f'There are {listed(value)}.'


def field_address(d: Draw, field: str, nested: bool) -> tuple[str, dict, Any, str]:
    street, number = d.family() + ' Street', d.number(1, 99)
    schema = {'type': 'object', 'properties': {'street': STRING, 'number': INTEGER}}
    return 'address', schema, {'street': street, 'number': number}, f'The address is {street} {number}.'


FIELDS = {'name': field_name, 'age': field_age, 'place': field_place, 'thing': field_thing, 'price': field_price, 'day': field_day,
          'colour': field_colour, 'open': field_open, 'friends': field_friends, 'address': field_address}


def record(d: Draw) -> tuple[dict, dict, str, float]:
    """(schema, value, text, chance)"""
    kinds = d.some(sorted(FIELDS), d.number(2, 5))
    if not {'name', 'place', 'thing'} & set(kinds):
        kinds[0] = d.pick(['name', 'place', 'thing'])
    properties, value, sentences, chance = {}, {}, [], 1.0
    for kind in kinds:
        key, schema, v, sentence = FIELDS[kind](d, kind, False)
        properties[key], value[key] = schema, v
        sentences.append(sentence or f'The colour is {v}.')
        chance *= {'colour': 1 / 3, 'open': 0.5}.get(kind, 0.05)
    d.rng.shuffle(sentences)
    schema = {'type': 'object', 'properties': properties, 'required': list(properties)}
    return schema, value, ' '.join(sentences), chance


def make(d: Draw) -> Dialog:
    dialog = Dialog()
    schema, value, text, chance = record(d)
    plain = all('properties' not in s for s in schema['properties'].values()) and d.chance(0.3)
    if plain:
        dialog.user(d.phrase(KEYS, k=listed(list(value)), x=text))
    else:
        dialog.user(d.phrase(ASK, s=json.dumps(schema), x=text))
    dialog.answer(json.dumps(value, ensure_ascii=False), checks.json_value(value, chance))
    numbers = [k for k, v in value.items() if type(v) is int]
    if numbers and d.chance(0.3):
        key, new = d.pick(numbers), d.number(1, 99)
        changed = {**value, key: new}
        dialog.user(d.phrase(CHANGE, k=key, v=new))
        dialog.answer(json.dumps(changed, ensure_ascii=False), checks.json_value(changed, 0.0))
    return dialog
