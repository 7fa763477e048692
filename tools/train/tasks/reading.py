"""Questions about a note, a table or a list that stands in the prompt, also ones that it does not answer.

Held out: wordings; the people, places and things of the text (content). The guesser picks among the values of the kind
asked for that the text holds.
"""
from __future__ import annotations

from . import checks, words
from .core import Dialog, Draw, Phrases, listed

NAME = 'reading'
WEIGHT = 3.0

READ = Phrases('reading.read', '''Here is a {w}.
    Read this {w}.
    This is a {w}.
    Look at this {w}.
    Please read the {w}.
    I have a {w} here.''', '''Take a look at this {w}.
    Below is a {w}.''')
NOT_SAID = 'The {w} does not say that.'

# ---- tables --------------------------------------------------------------------------------------------------------

COLUMNS = {'Place': 'place', 'Job': 'job', 'Pet': 'pet', 'Food': 'food', 'Coins': 'coins', 'Age': 'age', 'Colour': 'colour', 'Day': 'day'}
SOURCES = {'Job': words.JOBS, 'Pet': words.ANIMALS, 'Food': words.FOODS, 'Colour': words.COLOURS, 'Day': words.WEEKDAYS}
CELL = Phrases('reading.cell', '''What is the {c} of {n}?
    Which {c} does {n} have?
    What {c} does the table give for {n}?
    Look up the {c} of {n}.''', '''Tell me the {c} of {n}.
    What stands under {c} for {n}?''')
ROW = Phrases('reading.row', '''Who has the {c} {v}?
    Whose {c} is {v}?
    For whom is the {c} {v}?''', '''Which person has the {c} {v}?
    Tell me who has {v} as {c}.''')
MOST = Phrases('reading.most', '''Who has the highest {c}?
    Whose {c} is the highest?
    For whom is the {c} the largest?''', '''Which person has the highest {c}?''')
LEAST = Phrases('reading.least', '''Who has the lowest {c}?
    Whose {c} is the lowest?
    For whom is the {c} the smallest?''', '''Which person has the lowest {c}?''')
ROWS = Phrases('reading.rows', '''How many people are in the table?
    How many rows does the table have?
    How many people does the table list?''', '''Count the people in the table.''')


def column(d: Draw, name: str, n: int) -> list[str]:
    if name in SOURCES:
        return d.some(SOURCES[name], n) if len(SOURCES[name]) >= n else [d.pick(SOURCES[name]) for _ in range(n)]
    if name == 'Place':
        return d.contents_of('place', words.place, n)
    return [str(v) for v in d.rng.sample(range(5, 90), n)]


def table(d: Draw, dialog: Dialog) -> None:
    n, names = d.number(3, 7), d.some(sorted(COLUMNS), d.number(2, 3))
    people = d.names(n)
    cells = {c: column(d, c, n) for c in names}
    rows = [[p] + [cells[c][i] for c in names] for i, p in enumerate(people)]
    text = '\n'.join('| ' + ' | '.join(row) + ' |' for row in [['Name'] + names, ['---'] * (len(names) + 1)] + rows)
    dialog.user(d.phrase(READ, w='table') + '\n\n' + text)
    for turn in range(d.number(1, 3)):
        question, answer, check = table_question(d, people, cells)
        if turn == 0:
            dialog.messages[0]['content'] += '\n\n' + question
        else:
            dialog.user(question)
        dialog.answer(answer, check)


def table_question(d: Draw, people: list[str], cells: dict[str, list[str]]) -> tuple[str, str, dict]:
    c = d.pick(sorted(cells))
    i, low, n = d.number(0, len(people) - 1), c.lower(), len(people)
    kind = d.pick(['cell', 'cell', 'row', 'most', 'rows', 'absent'])
    if kind == 'most' and c in ('Coins', 'Age'):
        numbers = [int(v) for v in cells[c]]
        phrases, best, word = d.pick([(MOST, max(numbers), 'highest'), (LEAST, min(numbers), 'lowest')])
        who = people[numbers.index(best)]
        return d.phrase(phrases, c=low), f'{who} has the {word} {low}: {best}.', checks.mention([who], people, 1 / n)
    if kind == 'row' and len(set(cells[c])) == n:
        return (d.phrase(ROW, c=low, v=cells[c][i]), f'{people[i]} has the {low} {cells[c][i]}.',
                checks.mention([people[i]], people, 1 / n))
    if kind == 'rows':
        return d.phrase(ROWS), f'{listed(people)}: that makes {n}.', checks.number(n, 1 / 5)
    if kind == 'absent':
        other = d.pick([x for x in sorted(COLUMNS) if x not in cells]).lower()
        return d.phrase(CELL, c=other, n=people[i]), NOT_SAID.format(w='table'), checks.decline(0.5)
    return (d.phrase(CELL, c=low, n=people[i]), f'The {low} of {people[i]} is {cells[c][i]}.',
            checks.mention([cells[c][i]], cells[c], 1 / n))


# ---- notes ---------------------------------------------------------------------------------------------------------

NOTE = Phrases('reading.note', '''On {day}, {a} went to {place} with {b}. It was {weather}. They found {thing} and gave it to {c}.
    {a} and {b} met in {place} on {day}. The day was {weather}. {c} had lost {thing}, and they found it.
    It was a {weather} {day}. {a} took {b} along to {place}, where {c} showed them {thing}.
    {c} lives in {place}. On {day} came {a} with {b}, though it was {weather}. They brought {thing} along.
    Dear friend, on {day} I saw {a} and {b} in {place}. It was {weather}. They carried {thing} to {c}.''',
    '''This {day} was {weather}. In {place} I met {a}, and {b} was there too. They had {thing}, which belongs to {c}.
    {a} writes: on {day} I was in {place} with {b}. It was {weather}, and we took {thing} to {c}.''')
NOTE_ASK = {
    'day': (Phrases('reading.day', '''On which day was that?
        Which day was it?
        When did this happen?
        What day is in the note?''', '''Tell me on which day it was.
        On what day did it happen?'''), 'It was on {v}.', words.WEEKDAYS),
    'place': (Phrases('reading.place', '''Where was that?
        In which place did they meet?
        Where did this happen?
        Which place is in the note?''', '''Tell me where it was.
        In what place did it happen?'''), 'It was in {v}.', None),
    'weather': (Phrases('reading.weather', '''What was the weather like?
        How was the weather?
        Was it sunny or not?
        Which weather did they have?''', '''Tell me how the weather was.
        What kind of weather was it?'''), 'It was {v}.', words.WEATHER),
    'thing': (Phrases('reading.thing', '''Which thing is in the note?
        What thing is the note about?
        What did they have?
        What thing was it?''', '''Tell me which thing it was.
        What object does the note name?'''), 'It was {v}.', None),
}
NOTE_ABSENT = Phrases('reading.note_absent', '''How old is {a}?
    What did {a} eat?
    How much did it cost?
    What colour is the house of {b}?
    What is the family name of {a}?
    How long did they stay?
    What does {b} do for a living?''', '''What did {b} drink?
    How tall is {a}?
    What did they talk about?''')
NAMES = Phrases('reading.names', '''Which people are in the note?
    Who is named in the note?
    Name all the people in the note.''', '''Tell me the names in the note.''')


def note(d: Draw, dialog: Dialog) -> None:
    people = d.names(3)
    facts = {'day': d.pick(words.WEEKDAYS), 'place': d.place(), 'weather': d.pick(words.WEATHER),
             'thing': 'the ' + d.thing(), 'a': people[0], 'b': people[1], 'c': people[2]}
    text = d.phrase(NOTE, **facts)
    dialog.user(f'{d.phrase(READ, w="note")}\n\n{text}')
    kinds = d.some(['day', 'place', 'weather', 'thing', 'names', 'absent'], d.number(1, 3))
    for turn, kind in enumerate(kinds):
        if kind == 'names':
            in_text = sorted(people, key=text.index)
            question, answer, check = d.phrase(NAMES), f'{listed(in_text)}.', checks.mention(people, [], 0.1)
        elif kind == 'absent':
            question = d.phrase(NOTE_ABSENT, a=people[0], b=people[1])
            answer, check = NOT_SAID.format(w='note'), checks.decline(0.5)
        else:
            phrases, form, others = NOTE_ASK[kind]
            question, answer = d.phrase(phrases), form.format(v=facts[kind])
            check = checks.mention([facts[kind]], others or [], 1 / 6)
        if turn == 0:
            dialog.messages[0]['content'] += '\n\n' + question
        else:
            dialog.user(question)
        dialog.answer(answer, check)


# ---- lists ---------------------------------------------------------------------------------------------------------

AMOUNT = Phrases('reading.amount', '''How many {u} are on the list?
    How many {u} do I need?
    What number of {u} is on the list?''', '''Tell me how many {u} there are.
    How many {u} should I get?''')
HAS = Phrases('reading.has', '''Are there {u} on the list?
    Does the list have {u}?
    Do I need {u}?''', '''Can you see {u} on the list?
    Is it true that {u} are on the list?''')


def shopping(d: Draw, dialog: Dialog) -> None:
    n = d.number(3, 8)
    units = d.some(words.UNITS, n + 2)
    amounts = {u: d.number(2, 60) for u in units[:n]}
    sign = d.pick(['- {a} {u}', '* {u}: {a}', '{u}: {a}'])
    text = '\n'.join(sign.format(u=u, a=a) for u, a in amounts.items())
    dialog.user(f'{d.phrase(READ, w="list")}\n\n{text}')
    for turn in range(d.number(1, 3)):
        if d.chance(0.5):
            unit = d.pick(units[:n])
            question, answer = d.phrase(AMOUNT, u=unit), f'There are {amounts[unit]} {unit} on the list.'
            check = checks.mention([str(amounts[unit])], [], 1 / n)
        else:
            unit = d.pick([units[0], units[1], units[-1], units[-2]])
            question, check = d.phrase(HAS, u=unit), checks.mention(['Yes' if unit in amounts else 'No'], [], 0.5)
            answer = f'Yes, there are {amounts[unit]} {unit}.' if unit in amounts else f'No, there are no {unit} on the list.'
        if turn == 0:
            dialog.messages[0]['content'] += '\n\n' + question
        else:
            dialog.user(question)
        dialog.answer(answer, check)


def make(d: Draw) -> Dialog:
    dialog = Dialog()
    kinds = [table, table, note, note] if d.held_content else [table, table, note, note, shopping]
    d.pick(kinds)(d, dialog)
    return dialog
