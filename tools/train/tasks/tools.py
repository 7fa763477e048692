"""Tools: choose one, call it with the right arguments, use what it gives back; and answer without one where none fits.

Tools are drawn from families (weather, prices, notes, ...); their names and parameter names vary, so that the list in
the prompt must be read. Held out: wordings; tool names and the people, places and things of the arguments (content). A
call must have the right name and exactly the right arguments; an answer must carry the result.
"""
from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Callable

from . import checks, words
from .core import Dialog, Draw, Json, Phrases

NAME = 'tools'
WEIGHT = 1.3

VERBS = {'get': 'get find look_up read fetch query check'.split(), 'do': 'make create add put send set start book'.split()}


@dataclass
class Slot:
    """A parameter: its possible names, its JSON type, how to draw a value."""
    names: list[str]
    type: str
    draw: Callable[[Draw], Any]


def a_place(d: Draw) -> str:
    return d.place()


def a_person(d: Draw) -> str:
    return d.name()


def a_thing(d: Draw) -> str:
    return d.thing()


@dataclass
class Family:
    """What one kind of tool does, how it is asked for, what it returns and how the answer says so."""
    key: str
    verb: str
    nouns: list[str]
    about: str
    slots: list[Slot]
    ask: Phrases
    result: Callable[[Draw, list[Any]], Json]
    answer: str  # with {0}, {1} the arguments and the result's members by name
    values: list[str] = field(default_factory=list)  # which of the result's members the answer must carry


PLACE = Slot(['place', 'town', 'city', 'location'], 'string', a_place)
PERSON = Slot(['name', 'person', 'who'], 'string', a_person)
THING = Slot(['item', 'thing', 'object', 'product'], 'string', a_thing)
DAY = Slot(['day', 'date', 'when'], 'string', lambda d: d.pick(words.WEEKDAYS))
NUMBER = Slot(['count', 'number', 'amount'], 'integer', lambda d: d.number(2, 60))
MINUTES = Slot(['minutes', 'duration'], 'integer', lambda d: d.number(2, 90))
TIME = Slot(['time', 'at', 'hour'], 'string', lambda d: words.clock(d.rng))

FAMILIES = [
    Family('weather', 'get', ['weather', 'forecast', 'sky'], 'The weather in a place.', [PLACE], Phrases('tools.weather', '''
        What is the weather like in {0}?
        How is the weather in {0}?
        Will I need an umbrella in {0}?
        Tell me the weather in {0}.
        Is it sunny in {0}?''', '''
        I am going to {0}. What will the weather be?
        Give me the weather for {0}.'''),
           lambda d, a: {'weather': d.pick(words.WEATHER), 'degrees': d.number(-9, 35)},
           'In {0} it is {weather}, with {degrees} degrees.', ['weather', 'degrees']),
    Family('price', 'get', ['price', 'cost', 'price_tag'], 'What a thing costs in the shop.', [THING], Phrases('tools.price', '''
        How much is the {0}?
        What does the {0} cost?
        What is the price of the {0}?
        Tell me the price of the {0}.''', '''
        I want to buy the {0}. How much is it?
        How many coins do I pay for the {0}?'''),
           lambda d, a: {'price': d.number(2, 99)}, 'The {0} costs {price} coins.', ['price']),
    Family('phone', 'get', ['number', 'phone', 'contact'], 'The telephone number of a person.', [PERSON], Phrases('tools.phone', '''
        What is the telephone number of {0}?
        How can I call {0}?
        Find the number of {0}.
        Which number does {0} have?''', '''
        I want to ring {0}. What is the number?
        Look up the telephone number of {0}.'''),
           lambda d, a: {'number': words.code(d.rng)}, 'The number of {0} is {number}.', ['number']),
    Family('stock', 'get', ['stock', 'store', 'supply'], 'How many pieces of a thing are in the store.', [THING], Phrases('tools.stock', '''
        How many pieces of the {0} are in the store?
        Do we still have the {0}?
        Is the {0} in the store?
        Check if the {0} is there.''', '''
        How many of the {0} are left?
        Look whether we have the {0}.'''),
           lambda d, a: {'pieces': d.number(0, 80)}, 'There are {pieces} pieces of the {0} in the store.', ['pieces']),
    Family('train', 'get', ['train', 'coach', 'timetable'], 'The next train to a place on a day.', [PLACE, DAY], Phrases('tools.train', '''
        When does the train to {0} leave on {1}?
        Is there a train to {0} on {1}?
        I want to go to {0} on {1}. When is the train?
        Find a train to {0} on {1}.''', '''
        On {1} I travel to {0}. Which train can I take?
        What train goes to {0} on {1}?'''),
           lambda d, a: {'leaves': words.clock(d.rng), 'track': d.number(1, 9)},
           'On {1} a train to {0} leaves at {leaves} from track {track}.', ['leaves', 'track']),
    Family('calendar', 'do', ['event', 'entry', 'appointment'], 'Puts an appointment with a person into the calendar.', [PERSON, DAY, TIME],
           Phrases('tools.calendar', '''
        Put a meeting with {0} on {1} at {2} into my calendar.
        I meet {0} on {1} at {2}. Please write it down.
        Make an appointment with {0} on {1} at {2}.
        Plan a meeting with {0}, {1} at {2}.''', '''
        On {1} at {2} I see {0}. Put that into the calendar.
        Can you plan {0} for {1} at {2}?'''),
           lambda d, a: {'ok': True}, 'The meeting with {0} on {1} at {2} is in your calendar.', []),
    Family('timer', 'do', ['timer', 'alarm', 'clock'], 'Starts a timer.', [MINUTES], Phrases('tools.timer', '''
        Set a timer for {0} minutes.
        Start a timer of {0} minutes.
        Wake me in {0} minutes.
        Tell me when {0} minutes are over.''', '''
        I need a timer of {0} minutes.
        Please remind me in {0} minutes.'''),
           lambda d, a: {'ok': True}, 'The timer runs for {0} minutes.', []),
    Family('message', 'do', ['message', 'letter', 'note'], 'Sends a message to a person.',
           [PERSON, Slot(['text', 'message', 'content'], 'string', lambda d: d.pick(['I come later', 'Good luck', 'Happy birthday', 'Dinner is ready', 'See you soon',
                                                                                    'Thank you', 'Please call me', 'The boat is here', 'I found it']))],
           Phrases('tools.message', '''
        Send {0} the message "{1}".
        Tell {0}: "{1}".
        Write to {0}: "{1}".
        Send "{1}" to {0}.''', '''
        Let {0} know: "{1}".
        Please message {0} with "{1}".'''),
           lambda d, a: {'ok': True}, 'I sent "{1}" to {0}.', []),
    Family('order', 'do', ['order', 'purchase', 'basket'], 'Orders a number of pieces of a thing.', [THING, NUMBER], Phrases('tools.order', '''
        Order {1} pieces of the {0}.
        Please buy {1} of the {0}.
        I need {1} pieces of the {0}. Order them.
        Put {1} of the {0} into the basket.''', '''
        We want {1} pieces of the {0}, please order.
        Get me {1} of the {0}.'''),
           lambda d, a: {'order': words.code(d.rng)}, 'I ordered {1} pieces of the {0}. The order number is {order}.', ['order']),
    Family('ticket', 'do', ['ticket', 'seat', 'trip'], 'Books tickets to a place.', [PLACE, NUMBER], Phrases('tools.ticket', '''
        Book {1} tickets to {0}.
        I need {1} tickets to {0}.
        Get {1} tickets for the trip to {0}.
        Please book {1} seats to {0}.''', '''
        We are {1} people and go to {0}. Book the tickets.
        {1} tickets to {0}, please.'''),
           lambda d, a: {'code': words.code(d.rng)}, 'I booked {1} tickets to {0}. The code is {code}.', ['code']),
]
NO_TOOL = Phrases('tools.no_tool', '''Hello!
    Thank you!
    Thanks, that is all.
    Good morning!''', '''Thanks a lot!
    Hello there!''')
NO_TOOL_ANSWERS = {'Hello!': 'Hello! How can I help you?', 'Thank you!': 'You are welcome!', 'Thanks, that is all.': 'You are welcome!',
                   'Good morning!': 'Good morning! How can I help you?', 'Thanks a lot!': 'You are welcome!', 'Hello there!': 'Hello! How can I help you?'}
MISSING = 'I do not have a tool for that.'
FAILED = Phrases('tools.failed', '''not found
    no connection
    too busy, try later
    unknown name''')


@dataclass
class Tool:
    family: Family
    name: str
    parameters: list[str]

    def schema(self) -> Json:
        properties = {p: {'type': slot.type} for p, slot in zip(self.parameters, self.family.slots)}
        return {'type': 'function', 'function': {'name': self.name, 'description': self.family.about, 'parameters': {
            'type': 'object', 'properties': properties, 'required': self.parameters}}}


def a_tool(d: Draw, family: Family) -> Tool:
    name = d.content('tool', lambda rng: f'{rng.choice(VERBS[family.verb])}_{rng.choice(family.nouns)}')
    return Tool(family, name, [d.pick(slot.names) for slot in family.slots])


def tool_list(d: Draw) -> list[Tool]:
    tools: list[Tool] = []
    for family in d.some(FAMILIES, d.number(1, 4)):
        try:
            tools.append(a_tool(d, family))
        except ValueError:  # no name of this family is in this half
            continue
    return tools if tools and len({t.name for t in tools}) == len(tools) else tool_list(d)


def use(d: Draw, dialog: Dialog, tool: Tool, n_tools: int) -> None:
    family = tool.family
    values = [slot.draw(d) for slot in family.slots]
    arguments = dict(zip(tool.parameters, values))
    dialog.user(d.phrase(family.ask, **{}).format(*values))
    guess = 1 / n_tools * (0.3 if len(values) == 1 else 0.1)  # the right tool, then the right words of the question
    dialog.call(tool.name, arguments, checks.call(tool.name, arguments, guess))
    if d.chance(0.08):
        error = d.say(FAILED)
        dialog.tool(json.dumps({'error': error}))
        dialog.answer(f'That did not work: {error}.', checks.mention([error], [], 0.25))
        return
    result = family.result(d, values)
    dialog.tool(json.dumps(result))
    answer = family.answer.format(*values, **result)
    want = [str(result[v]) for v in family.values] or [str(values[0])]
    dialog.answer(answer, checks.mention(want, [], 0.0))


def without(d: Draw, dialog: Dialog, tools: list[Tool]) -> None:
    """No tool fits: small talk, or a wish that none of them can fulfil."""
    missing = [f for f in FAMILIES if f not in [t.family for t in tools]]
    if d.chance(0.5):
        text = d.phrase(NO_TOOL)
        dialog.user(text)
        dialog.answer(NO_TOOL_ANSWERS[text], checks.one_of(sorted(set(NO_TOOL_ANSWERS.values())), 0.2))
    else:
        family = d.pick(missing)
        dialog.user(d.phrase(family.ask).format(*(slot.draw(d) for slot in family.slots)))
        dialog.answer(MISSING, checks.exact(MISSING, 0.2))


def make(d: Draw) -> Dialog:
    dialog = Dialog()
    tools = tool_list(d)
    dialog.tools = [t.schema() for t in tools]
    for _ in range(d.pick([1, 1, 2, 3])):
        if d.chance(0.15):
            without(d, dialog, tools)
        else:
            use(d, dialog, d.pick(tools), len(tools))
    return dialog
