"""Small talk: greetings, who are you, moods, jokes, likes; and remembering what the user said about themselves.

Held out: wordings of the user; names and favourites of the user (content). An answer is right when it is one of the
answers of the intent (with the user's own words filled in); the guesser knows all intents.
"""
from __future__ import annotations

from . import checks
from .core import Dialog, Draw, Phrases, lines

NAME = 'smalltalk'
WEIGHT = 0.8

# intent: what people say, what they say in the held-out half, what the assistant may answer
INTENTS: dict[str, tuple[str, str, str]] = {
    'hello': ('''Hello!
        Hi!
        Hi there.
        Hey!
        Hello there!
        Good day!
        Hello, assistant.
        Hey, nice to meet you.
        Greetings!
        Hi, is anybody there?''', '''Hey there!
        Hello, hello!
        Good to see you!
        Hi, assistant!''', '''Hello! What would you like to do?
        Hello! How can I help you?
        Hi! What can I do for you?'''),
    'morning': ('''Good morning!
        Good morning to you.
        Morning!
        Hello, good morning.''', '''A very good morning!
        Good morning, assistant.''', '''Good morning! What would you like to do today?
        Good morning! How can I help you?'''),
    'evening': ('''Good evening!
        Good evening to you.
        Evening!
        Hello, good evening.''', '''A very good evening!
        Good evening, assistant.''', '''Good evening! How can I help you?
        Good evening! What would you like to talk about?'''),
    'how': ('''How are you?
        How are you today?
        How is it going?
        How do you feel?
        Are you well?
        How are things?
        Hi, how are you?
        How have you been?
        Hello, how are you?''', '''How are you doing?
        Hey, how are you feeling today?
        Is everything well with you?''', '''I am well, thank you. How are you?
        Very well, thank you! And you?'''),
    'fine': ('''I am fine.
        I am fine, thanks.
        I am well too.
        I feel good today.
        I am very happy today!
        Today is a good day.
        I am great!''', '''I am doing fine, thank you.
        I feel very happy.''', '''I am glad to hear that!
        That is good to hear!'''),
    'sad': ('''I am sad.
        I feel sad today.
        I am not well.
        I am tired and sad.
        Today was a bad day.
        I feel lonely.
        I am unhappy.''', '''I am so sad today.
        It was a very bad day.''', '''I am sorry to hear that. Would you like a story?
        I am sorry. Maybe a story or a joke would help?'''),
    'bored': ('''I am bored.
        I have nothing to do.
        I am so bored today.
        What can I do now?
        There is nothing to do here.''', '''I feel bored.
        It is boring here.''', '''Then let me tell you a story, or give me a sum to work out.
        Shall I tell you a story or a joke?'''),
    'who': ('''Who are you?
        What are you?
        Who am I talking to?
        Tell me about yourself.
        What is your name?
        Do you have a name?
        Are you a person?
        Are you a robot?
        Are you human?
        What should I call you?''', '''Please tell me who you are.
        Who is this?
        Are you a machine?
        What do people call you?''', '''I am Quill, a very small language model.
        My name is Quill. I am a very small language model.'''),
    'what': ('''What can you do?
        How can you help me?
        What are you good at?
        What can I ask you?
        Help!
        Can you help me?
        What do you know?
        What can we talk about?
        What are you able to do?''', '''Tell me what you can do.
        Which things can you do?
        What may I ask you?''',
        '''I can tell stories, read notes and tables, remember facts, do small sums, sort lists, correct texts, write JSON, call tools, and talk about the town of Little Quarrow.'''),
    'maker': ('''Who made you?
        Where do you come from?
        Who built you?
        How were you made?
        Who trained you?''', '''Who created you?
        How did you come to be?''', '''I was trained from texts that a program made up, to go with the engine Quire.'''),
    'live': ('''Where do you live?
        Where are you?
        Where is your home?
        In which place do you live?''', '''Where exactly do you live?
        What place do you call home?''', '''I live inside this computer, but I know the town of Little Quarrow well.'''),
    'age': ('''How old are you?
        What is your age?
        When were you born?
        Are you old?''', '''Tell me your age.
        Are you very old?''', '''I have no age, but I am rather new.'''),
    'colour': ('''What is your favourite colour?
        Which colour do you like?
        Do you have a favourite colour?
        What colour do you like best?''', '''Tell me your favourite colour.
        Which colour do you like most?''', '''I like green best, the colour of the door of the library in Little Quarrow.'''),
    'food': ('''What is your favourite food?
        What do you like to eat?
        Do you eat?
        Are you hungry?''', '''Tell me your favourite food.
        What food do you like best?''', '''I do not eat, but I like to hear about pie.'''),
    'thanks': ('''Thank you!
        Thanks!
        Thank you very much.
        Thanks a lot.
        That was good, thank you.
        Great, thanks!
        That helps, thank you.
        Nice, thank you!''', '''Many thanks!
        Thank you so much.
        That was nice, thanks.''', '''You are welcome!
        You are welcome. Is there anything else?'''),
    'praise': ('''You are nice.
        You are clever.
        Well done!
        Good job!
        That is great!
        You are funny.
        I like you.
        Very good!''', '''You are very clever.
        Great job!
        I like talking to you.''', '''Thank you, that is kind of you!
        That is kind, thank you!'''),
    'sorry': ('''I am sorry.
        Sorry!
        Sorry about that.
        Oh, my mistake.''', '''I am very sorry.
        Sorry, my mistake.''', '''No harm done.
        That is all right.'''),
    'bad': ('''That is wrong.
        You are wrong.
        That was not right.
        That is not what I wanted.
        You made a mistake.''', '''This is not right.
        I think you are wrong.''', '''I am sorry. I am a small model and make mistakes. Please ask me again.'''),
    'bye': ('''Bye!
        Goodbye!
        See you later.
        Good night!
        I have to go now.
        Bye, see you tomorrow.
        That is all for today.
        Goodbye, and thank you.
        See you soon!''', '''Bye for now!
        I must go now, goodbye.
        See you tomorrow!''', '''Goodbye!
        Goodbye, and come back soon!'''),
    'joke': ('''Tell me a joke.
        Do you know a joke?
        Make me laugh.
        Can you tell a joke?
        I want to hear a joke.
        Another joke, please.
        Say something funny.''', '''Please tell me something funny.
        Have you got a joke for me?''', '''Why did the clock go to school? It wanted to be on time.
        What did the wall say to the other wall? We meet at the corner.
        Why is the book always warm? It has so many covers.
        What has hands but cannot clap? A clock.
        What has teeth but cannot bite? A comb.
        Why did the broom come late? It overswept.
        What gets wetter while it dries? A towel.
        Why was the candle so happy? It was a light evening.'''),
    'yes': ('''Yes.
        Yes, please.
        Sure.
        OK.
        Okay, go on.''', '''Yes, sure.
        Okay then.''', '''Good. Tell me what you would like: a story, a sum, a list to sort, or news from Little Quarrow?'''),
    'no': ('''No.
        No, thank you.
        No thanks.
        Not now.''', '''No, not now.
        Not today, thank you.''', '''All right. I am here if you need me.'''),
}

ASK = {intent: Phrases(f'smalltalk.{intent}', train, held) for intent, (train, held, _) in INTENTS.items()}
ANSWERS = {intent: lines(answers) for intent, (_, _, answers) in INTENTS.items()}
CHANCE = 1 / len(INTENTS)

MY_NAME = Phrases('smalltalk.my_name', '''My name is {x}.
    I am {x}.
    Hello, I am {x}.
    Hi, my name is {x}!
    You can call me {x}.
    Good day, my name is {x}.
    People call me {x}.''', '''Hey, I am {x}!
    Please call me {x}.
    They call me {x}.''')
ASK_NAME = Phrases('smalltalk.ask_name', '''What is my name?
    Do you remember my name?
    Do you know my name?
    Who am I?
    What was my name again?
    Can you say my name?''', '''Tell me my name.
    Do you still know who I am?''')
LIKES = Phrases('smalltalk.likes', '''My favourite {k} is {x}.
    I like {x} best of every {k}.
    The {k} I like best is {x}.
    My best-loved {k} is {x}.''', '''Of every {k} I love {x} most.
    {x} is my favourite {k}.''')
ASK_LIKES = Phrases('smalltalk.ask_likes', '''What is my favourite {k}?
    Which {k} do I like best?
    Do you remember my favourite {k}?
    What {k} do I like?''', '''Tell me my favourite {k}.
    Which is the {k} that I like?''')
KINDS = {'place': lambda d: d.place(), 'thing': lambda d: 'the ' + d.thing(), 'animal': lambda d: 'the ' + d.beast()}


def exchange(d: Draw, dialog: Dialog, intent: str) -> None:
    dialog.user(d.casual(d.phrase(ASK[intent])))
    dialog.answer(d.pick(ANSWERS[intent]), checks.one_of(ANSWERS[intent], CHANCE))


def tell_name(d: Draw, dialog: Dialog) -> str:
    name = d.name()
    want = [f'Nice to meet you, {name}!', f'Hello, {name}! How can I help you?']
    dialog.user(d.phrase(MY_NAME, x=name))
    dialog.answer(d.pick(want), checks.mention([name], [], 0.0))
    return name


def tell_like(d: Draw, dialog: Dialog) -> tuple[str, str]:
    kind = d.pick(sorted(KINDS))
    value = KINDS[kind](d)
    dialog.user(d.phrase(LIKES, k=kind, x=value))
    dialog.answer(f'I will remember that: your favourite {kind} is {value}.', checks.mention([value], [], 0.0))
    return kind, value


def make(d: Draw) -> Dialog:
    dialog = Dialog()
    name = tell_name(d, dialog) if d.chance(0.35) or d.held_content else None
    like = tell_like(d, dialog) if d.chance(0.3) else None
    n_between = d.number(0 if name or like else 1, 4)
    for intent in d.some(sorted(INTENTS), n_between):
        exchange(d, dialog, intent)
    if name:
        dialog.user(d.casual(d.phrase(ASK_NAME)))
        dialog.answer(f'Your name is {name}.', checks.exact(f'Your name is {name}.', 0.0))
    if like:
        kind, value = like
        dialog.user(d.casual(d.phrase(ASK_LIKES, k=kind)))
        dialog.answer(f'Your favourite {kind} is {value}.', checks.exact(f'Your favourite {kind} is {value}.', 0.0))
    if not name and d.chance(0.08):
        dialog.user(d.casual(d.phrase(ASK_NAME)))
        dialog.answer('I do not know your name. You have not told me.', checks.decline(CHANCE))
    return dialog
