"""The stock of names and things. What must be held out is composed (names of syllables, things of a colour or material
and a noun), so that a held-out one is new as a whole while its parts are not: reading it is copying, not memory.
Functions take a random.Random and return one; they are what `Draw.content` draws from.
"""
from __future__ import annotations

import random

SHE_ENDS = 'ra la na da lia ria nia sa mina bella rena lina dora wen'.split()
HE_ENDS = 'ro lo no do rik lan bert vin mund ton rus nik bo tas'.split()
STARTS = ('Al An Ar Bel Bo Bri Cal Cor Da Del El Em Fa Fe Fi Ga Gre Ha Hel Il Is Jo Ju Ka Ki Li Lo Lu Ma Mel Mi Na Ne '
          'No Ol Or Pa Per Pi Ra Ro Ru Sa Se Sil Ta Te Ti To Va Ve Vi Wil Ya Yo Za').split()
FAMILY_STARTS = ('Ash Bram Birch Brook Cald Clay Dale Fair Fern Gold Gray Hart Hazel High Holm Kirk Lang Marsh Mill Moor '
                 'Oak Peck Quin Rad Red Sand Stan Thorn Wat Whit Win Wood').split()
FAMILY_ENDS = 'ford well by ton field wick worth land ley brook ham den'.split()
PLACE_STARTS = ('Amber Black Bright Cold Crow Deep Elder Fox Frost Glass Green Hollow Iron Lark Maple Mist Moon North '
                'Old Pine Raven Rose Salt Silver South Star Stone Swan West Willow Winter').split()
PLACE_ENDS = 'bridge brook bury cliff dale field ford gate haven hill march mere mouth port shore wood'.split()

ADJECTIVES = ('red blue green yellow white black grey brown purple orange pink silver golden copper wooden iron glass '
              'paper tin clay stone woollen leather old new small large tiny heavy round broken shiny dusty striped bright '
              'crooked dark empty flat hollow light long narrow painted plain polished rusty short soft square thick thin '
              'velvet warm wide').split()
NOUNS = ('kettle lantern key box drum clock boat basket bell book bottle bowl broom brush bucket button candle cart chair '
         'coat coin compass cup door feather fiddle flag flute fork gate glove hammer harp hat helmet jar jug kite ladder '
         'lamp letter lock map mask mirror mug needle oar pan pen pipe plate pot purse ribbon ring robe rope saddle scarf '
         'shield shoe spade spoon stool sword table teapot tent top torch tower tray trunk umbrella vase violin wagon '
         'watch wheel whistle anchor apron arrow barrel bead belt bench blanket boot bracelet brooch cabinet cage cane '
         'carpet chain chest cloak cradle crate crown cushion dice dish doll easel envelope fan fence frame globe goblet '
         'hook horn hourglass inkwell ladle lens marble medal nail net notebook paddle pearl pillow pin puppet quilt rake '
         'rattle ruler sack sail scale shelf shovel sieve sign skate sled sponge stamp statue string thimble ticket tile '
         'towel trumpet tub tunnel wallet whip').split()
ANIMALS = ('fox owl bear hare mouse cat dog goat horse duck goose hen crow frog toad otter badger hedgehog squirrel deer '
           'rabbit sheep donkey pig cow swan heron mole beaver wolf').split()
COLOURS = 'red blue green yellow white black grey brown purple orange pink'.split()
FOODS = ('bread soup cheese honey apples pears plums cherries porridge pancakes noodles rice carrots beans pumpkin pie '
         'dumplings biscuits jam butter mushrooms onions potatoes fish eggs').split()
JOBS = ('baker miller smith tailor farmer teacher doctor sailor carpenter painter gardener weaver potter cook fisher '
        'librarian postman clockmaker shepherd innkeeper').split()
HOBBIES = ('painting fishing singing dancing reading sewing swimming running cooking gardening chess drawing climbing '
           'sailing skating knitting').split()
WEEKDAYS = 'Monday Tuesday Wednesday Thursday Friday Saturday Sunday'.split()
MONTHS = 'January February March April May June July August September October November December'.split()
WEATHER = 'sunny rainy windy cloudy snowy foggy stormy'.split()
ROOMS = 'kitchen cellar attic garden hall library barn workshop pantry study'.split()
UNITS = 'apples pears eggs coins books cups shells nuts stones buttons candles tickets'.split()


def pick(rng: random.Random, items: list[str]) -> str:
    return items[int(rng.random() * len(items))]


def first_name(rng: random.Random) -> str:
    ends = SHE_ENDS if rng.random() < 0.5 else HE_ENDS
    return pick(rng, STARTS) + pick(rng, ends)


def family_name(rng: random.Random) -> str:
    return pick(rng, FAMILY_STARTS) + pick(rng, FAMILY_ENDS)


def place(rng: random.Random) -> str:
    return pick(rng, PLACE_STARTS) + pick(rng, PLACE_ENDS)


def thing(rng: random.Random) -> str:
    return pick(rng, ADJECTIVES) + ' ' + pick(rng, NOUNS)


def code(rng: random.Random) -> str:
    """A value nobody can guess: digits, or letters with digits."""
    if rng.random() < 0.6:
        return str(1000 + int(rng.random() * 9000))
    letters = 'ABCDEFGHJKLMNPQRSTUVWXYZ'
    return ''.join(letters[int(rng.random() * 24)] for _ in range(2)) + '-' + str(10 + int(rng.random() * 90))


def beast(rng: random.Random) -> str:
    return pick(rng, COLOURS) + ' ' + pick(rng, ANIMALS)


def is_she(name: str) -> bool:
    first = name.split()[0]
    return first.endswith(tuple(SHE_ENDS))


def pronoun(name: str) -> str:
    return 'she' if is_she(name) else 'he'


def possessive(name: str) -> str:
    return 'her' if is_she(name) else 'his'


def clock(rng: random.Random) -> str:
    return f'{7 + int(rng.random() * 12)}:{pick(rng, ["00", "15", "30", "45"])}'
