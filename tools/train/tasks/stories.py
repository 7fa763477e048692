"""Stories in six styles with the people, places and things asked for; then questions about the story just told.

A story is four beats of one plot between an opening and a closing of the style. Held out: wordings of the wish; names,
places and things (content). A story is right when it opens in its style, names what was asked for, has a fitting number
of sentences, repeats none and ends in a whole one. The guesser tells some other story: near nought.
"""
from __future__ import annotations

from . import checks, words
from .core import Dialog, Draw, Phrases, capital, lines

NAME = 'stories'
WEIGHT = 1.2

# style: openings, closings. {h} hero, {H} hero at the start of a sentence, {p} place, {t} thing, {s} she/he, {o} her/his
STYLES: dict[str, tuple[str, str]] = {
    'fairy tale': ('''Once upon a time {h} lived in {p}.
        Once, in the days of the old kings, {h} came to {p}.
        Once upon a time there was {h}, who lived at the edge of {p}.''',
        '''And if they have not moved away, they live there still.
        And so they all lived happily from that day on.
        The bells rang for three days, and everybody danced.'''),
    'bedtime story': ('''Shh, the moon is up, and in {p} {h} is not yet asleep.
        Shh, listen: it was a soft and quiet evening in {p}, and {h} sat at the window.
        Shh, all of {p} was going to bed, only {h} was still awake.''',
        '''Then {h} yawned, the stars blinked, and all was still. Good night.
        Soon {h} was fast asleep, and so should you be. Good night.
        The moon tucked the roofs in, one by one. Good night.'''),
    'adventure': ('''The storm had just reached {p} when {h} set out.
        Nobody had ever crossed the hills behind {p}, but {h} was ready to try.
        Before the sun was up in {p}, {h} had packed a rope and a lamp.''',
        '''It had been the greatest day of all, and already {h} was planning the next one.
        Tired, wet and proud, {h} came home.
        And that is how the map of {p} got a new name on it.'''),
    'funny story': ('''You will not believe what happened to {h} in {p}.
        Everybody in {p} laughs when they hear what {h} did.
        It all began in {p}, when {h} put two left shoes on.''',
        '''They are still laughing about it in {p}.
        Since then {h} always looks twice.
        Even the goat had to laugh.'''),
    'mystery': ('''Something strange happened in {p}, and only {h} noticed.
        It was past midnight in {p} when {h} heard a knock.
        There were footprints all over {p}, and {h} wanted to know whose.''',
        '''So the riddle was solved, and {h} could sleep again.
        Case closed, wrote {h} into a small black book.
        Only one question stayed open: who had lit the lamp?'''),
    'diary': ('''Dear diary, today I was in {p} with {h}.
        Dear diary, what a day: {h} and I went to {p}.
        Dear diary, I have to tell you about {h} and our day in {p}.''',
        '''That is all for today, dear diary.
        Now I am tired and put down my pen.
        I hope that tomorrow will be just as good.'''),
}

# each plot: four beats, a few wordings each
PLOTS: dict[str, tuple[str, str, str, str]] = {
    'lost': ('''One morning {t} was gone.
        When {h} opened the cupboard, {t} was not there.
        But {t}, the best thing in the house, had disappeared.''', '''{H} looked under the bed, behind the door and in the well.
        {H} asked the baker, the miller and the goose, but nobody had seen it.
        For three days {h} searched every corner and every hedge.''', '''At last {f} called from a tree: "Look at the old bridge!"
        Then {f} came by and whispered: "I saw it by the river."
        In the end it was {f} who knew where to look.''', '''There lay {t}, only a little wet, and {h} was glad.
        And really, there was {t}, under a heap of leaves.
        So {h} got {t} back and shared a cake with {f}.'''),
    'gift': ('''{H} wanted to make a gift for {f}.
        The birthday of {f} was near, and {h} had no gift yet.
        {H} thought for a long time about what {f} would like.''', '''In a small shop stood {t}, but it cost more than {h} had.
        Only {t} would do, but the old merchant would not sell it.
        Then {h} saw {t} in a window and counted the coins twice.''', '''So {h} swept the yard, carried water and sang for the guests.
        {H} worked from dawn to dusk and saved every coin.
        {H} told the merchant a story so good that he laughed until he cried.''', '''In the evening {f} unpacked {t} and did not know what to say.
        {F} opened the parcel, saw {t} and gave {h} a hug.
        "Is {t} for me?" asked {f}, and there was cake for everybody.'''),
    'repair': ('''One day {t} broke with a loud crack.
        {T} had worked for a hundred years, and now it was broken.
        Of all days, {t} fell apart on this one.''', '''{H} tried glue, string and a good deal of hope.
        {H} took it apart and laid out all the pieces in a row.
        The first try failed, and the second was worse.''', '''"Let me hold the lamp," said {f}, and suddenly it was easy.
        {F} had one small screw that nobody had needed before.
        Then {f} turned the last piece around, and it fitted.''', '''From then on {t} worked better than ever.
        When {t} moved again, the whole street clapped.
        {H} and {f} looked at {t} and were proud.'''),
    'race': ('''There was to be a race, and the prize was {t}.
        Whoever was first on the hill would win {t}.
        A sign on the wall said: run on Sunday, win {t}.''', '''{H} had never been fast, but {h} was stubborn.
        All the others had longer legs than {h}.
        {H} trained every morning before the sun came up.''', '''Half way up, {f} fell into a ditch and called for help.
        Near the end {h} saw that {f} had lost the way.
        At the bridge {f} sat and could not go on.''', '''{H} stopped, helped {f} up, and together they came last, but both got {t}.
        They walked over the line arm in arm, and the judges gave {t} to both.
        {H} did not win the race, but {f} did, and gave {t} to {h}.'''),
    'door': ('''Behind the stove {h} found a door that had not been there before.
        In the garden, under the roses, there was a little door.
        At the end of the corridor {h} saw a door no higher than a boot.''', '''It was locked, and the key was nowhere to be found.
        It opened by itself, and cold air came out.
        {H} knocked three times, and something knocked back.''', '''Behind it sat {f} and drank tea.
        A voice said: "Come in, I have waited for you," and it was {f}.
        There were a hundred steps down, and at the bottom stood {f}.''', '''"Take {t} with you," said {f}, "and tell nobody."
        On the table lay {t}, and it shone like the sun.
        {F} gave {h} {t}, and when {h} turned around, the door was gone.'''),
    'storm': ('''In the night a storm came up and carried off {t}.
        The wind took {t} and blew it over the roofs.
        It rained so hard that {t} floated away.''', '''{H} ran after it, through puddles and over fences.
        {H} climbed the highest tree to see where it went.
        {H} followed it down the river in a washtub.''', '''Far out, {f} had caught it with a fishing net.
        On the other bank stood {f} and waved.
        {F} had found it in a nest and kept it dry.''', '''They dried {t} by the fire and told each other stories until morning.
        {H} thanked {f} and carried {t} home under a coat.
        Since then {t} is tied to the wall with a double knot.'''),
}
OPENINGS = {style: lines(texts[0]) for style, texts in STYLES.items()}
CLOSINGS = {style: lines(texts[1]) for style, texts in STYLES.items()}
BEATS = {plot: [lines(beat) for beat in beats] for plot, beats in PLOTS.items()}

ASK = Phrases('stories.ask', '''Tell me a {y} about {h}, {t} and {p}.
    Tell me a {y} with {h} and {t} in {p}.
    Please tell a {y} about {h} in {p} with {t}.
    I would like a {y} about {h} and {t}. It is set in {p}.
    Write a {y} in which {h} comes to {p} and there is {t}.
    Can you tell me a {y} about {h}, {p} and {t}?''', '''Make up a {y} for me: {h}, {p} and {t} must be in it.
    Let me hear a {y}. The hero is {h}, the place is {p}, and it is about {t}.
    A {y} about {h} and {t} in {p}, please.''')
ASK_HERO = Phrases('stories.ask_hero', '''Tell me a {y} about {h}.
    Please write a {y} about {h}.
    I would like to hear a {y} about {h}.
    A {y} with {h}, please.
    Can you tell me a {y} with {h}?''', '''Make up a {y} about {h}.
    Do you know a {y} with {h}?''')
ASK_STYLE = Phrases('stories.ask_style', '''Tell me a {y}.
    Do you know a {y}?
    I want to hear a {y}.
    Can you tell me a {y}?
    Write a {y} for me.
    A {y}, please.''', '''Let me hear a {y}.
    Please make up a {y}.''')
ASK_ANY = Phrases('stories.ask_any', '''Tell me a story.
    Can you tell me a story?
    I would like a story.
    Another story, please.
    Tell me a short story.
    Do you know a story?''', '''Please let me hear a story.
    How about a story?''')
ASK_ANY_HERO = Phrases('stories.ask_any_hero', '''Tell me a story about {h}.
    Can you tell a story about {h}?
    I would like a story with {h}.
    Write a story about {h}.
    A story about {h}, please.''', '''Make up a story about {h}.
    How about a story with {h}?''')

FOLLOW: dict[str, tuple[Phrases, str]] = {
    'hero': (Phrases('stories.who', '''Who is the story about?
        Who was the hero of the story?
        What was the name of the hero?
        Who is it about?''', '''Tell me who the hero was.
        Whom was this story about?'''), 'The story is about {h}.'),
    'place': (Phrases('stories.where', '''Where did the story happen?
        In which place was that?
        Where was it?
        Where does the story take place?''', '''Tell me where it happened.
        At which place is the story set?'''), 'It happened in {p}.'),
    'thing': (Phrases('stories.thing', '''What thing was in the story?
        Which thing was so important?
        What was the story about?
        Which thing does the story name?''', '''Tell me which thing mattered.
        What object was in the story?'''), 'It was about {t}.'),
    'friend': (Phrases('stories.friend', '''Who helped?
        Who was the other one in the story?
        Who else was in the story?
        Which friend was there?''', '''Tell me who else was in it.
        Who was the second one?'''), 'It was {f}.'),
}
TITLE = Phrases('stories.title', '''Give the story a title.
    What is the title of the story?
    What could the story be called?
    Find a title for it.''', '''Think of a title for the story.
    How would you call this story?''')
SHORTER = Phrases('stories.shorter', '''Tell it in one sentence.
    What happened, in one sentence?
    Sum the story up.
    Make it very short.''', '''Now the same in one sentence.
    Can you sum it up?''')


def hero(d: Draw) -> str:
    if d.chance(0.55):
        return d.name()
    if d.chance(0.5):
        return f'the {d.pick(words.JOBS)} {d.name()}'
    return f'the {d.pick(words.ANIMALS)} {d.name()}'


def tell(d: Draw, style: str, names: dict[str, str]) -> str:
    slots = dict(names, H=capital(names['h']), T=capital(names['t']), F=capital(names['f']))
    plot = d.pick(sorted(BEATS))
    beats = [d.pick(beat) for beat in BEATS[plot]]
    # The hero arrives in the opening; the thing comes with the plot.
    return ' '.join(s.format(**slots) for s in [d.pick(OPENINGS[style]), *beats, d.pick(CLOSINGS[style])])


def opening_starts(style: str) -> list[str]:
    """What every opening of the style begins with, up to its first name."""
    return [o.split('{')[0].rstrip() or o for o in OPENINGS[style]]


def ask(d: Draw, style: str, names: dict[str, str]) -> tuple[str, list[str], str]:
    """(the wish, what the story must name, the style it must have or '')"""
    kind = d.pick(['all', 'all', 'hero', 'style', 'any', 'any hero']) if not d.held_content else d.pick(['all', 'hero', 'any hero'])
    if kind == 'all':
        return d.phrase(ASK, y=style, **names), [names['h'], names['p'], names['t']], style
    if kind == 'hero':
        return d.phrase(ASK_HERO, y=style, h=names['h']), [names['h']], style
    if kind == 'any hero':
        return d.phrase(ASK_ANY_HERO, h=names['h']), [names['h']], ''
    if kind == 'any':
        return d.casual(d.phrase(ASK_ANY)), [], ''
    return d.casual(d.phrase(ASK_STYLE, y=style)), [], style


def bare(name: str) -> str:
    """`The fox Mira` may stand where `the fox Mira` was asked for."""
    return name[4:] if name.startswith('the ') else name


def follow(d: Draw, dialog: Dialog, names: dict[str, str]) -> None:
    kind = d.pick(['hero', 'place', 'thing', 'friend', 'title', 'shorter'])
    if kind == 'title':
        want = f'{capital(names["h"])} and {names["t"]}'
        dialog.user(d.casual(d.phrase(TITLE)))
        dialog.answer(want, checks.exact(want, 0.0))
    elif kind == 'shorter':
        want = f'It is the story of {names["h"]}, {names["f"]} and {names["t"]} in {names["p"]}.'
        dialog.user(d.casual(d.phrase(SHORTER)))
        dialog.answer(want, checks.exact(want, 0.0))
    else:
        phrases, form = FOLLOW[kind]
        dialog.user(d.casual(d.phrase(phrases)))
        value = names[{'hero': 'h', 'place': 'p', 'thing': 't', 'friend': 'f'}[kind]]
        dialog.answer(form.format(**names), checks.mention([value], [], 0.25))


def make(d: Draw) -> Dialog:
    dialog = Dialog()
    style = d.pick(sorted(STYLES))
    names = {'h': hero(d), 'f': hero(d), 'p': d.place(), 't': 'the ' + d.thing()}
    while names['f'].split()[-1] == names['h'].split()[-1]:
        names['f'] = hero(d)
    wish, must, wanted_style = ask(d, style, names)
    starts = [s for y in ([wanted_style] if wanted_style else sorted(STYLES)) for s in opening_starts(y)]
    dialog.user(wish)
    dialog.answer(tell(d, style, names), checks.story([bare(m) for m in must], starts, (5, 14), 0.0))
    for _ in range(d.pick([0, 1, 1, 2])):
        follow(d, dialog, names)
    return dialog
