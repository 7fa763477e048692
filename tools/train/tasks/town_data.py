"""Little Quarrow, the closed world: who lives there, what there is, what goes on. Written by hand and never drawn: the
model is to know it. Everything that town.py says is read from these tables.
"""
from __future__ import annotations

# name | job | place of work | street | pet | favourite food | hobby | best friend | birthday month
PEOPLE_TABLE = '''
Odette Marl    | baker        | bakery      | Mill Lane     | a cat called Pepper        | plum pie         | dancing      | Tobias Fenn    | March
Tobias Fenn    | postman      | post office | River Street  | a dog called Biscuit       | pea soup         | fishing      | Odette Marl    | October
Clara Thistle  | librarian    | library     | Church Hill   | an owl called Inkpot       | honey bread      | reading      | Anselm Grove   | May
Anselm Grove   | gardener     | park        | Garden Row    | a tortoise called Turnip   | carrots          | painting     | Clara Thistle  | June
Hugo Barrow    | miller       | mill        | Mill Lane     | a donkey called Captain    | porridge         | singing      | Martha Quill   | January
Martha Quill   | teacher      | school      | Church Hill   | a rabbit called Comma      | apple cake       | chess        | Hugo Barrow    | September
Silas Wick     | clockmaker   | clock tower | Bell Square   | a canary called Minute     | cheese           | drawing      | Iris Lowe      | December
Iris Lowe      | doctor       | surgery     | River Street  | a hedgehog called Bandage  | mushroom stew    | swimming     | Silas Wick     | April
Bruno Hatch    | smith        | forge       | Bell Square   | a dog called Anvil         | dumplings        | cooking      | Nell Sparrow   | August
Nell Sparrow   | ferrywoman   | ferry       | Harbour Street| a duck called Admiral      | fried fish       | sailing      | Bruno Hatch    | July
Edgar Plume    | innkeeper    | inn         | Bell Square   | a parrot called Echo       | roast potatoes   | telling jokes| Lotte Finch    | November
Lotte Finch    | weaver       | weaving mill| Garden Row    | a sheep called Button      | noodles          | knitting     | Edgar Plume    | February
Oskar Reed     | fisher       | harbour     | Harbour Street| a cat called Anchor        | bread and butter | skating      | Vera Stone     | January
Vera Stone     | potter       | pottery     | Church Hill   | a frog called Marble       | pancakes         | gardening    | Oskar Reed     | May
Felix Amber    | mayor        | town hall   | Bell Square   | a peacock called Ribbon    | strawberry jam   | gardening    | Wanda Birch    | June
Wanda Birch    | painter      | old mill    | Mill Lane     | a goose called Canvas      | cherry tart      | climbing     | Felix Amber    | October
Jonas Pike     | shepherd     | north meadow| Hill Road     | a dog called Whistle       | goat cheese      | playing the flute | Greta Moss | August
Greta Moss     | beekeeper    | south meadow| Hill Road     | a pony called Clover       | honey            | running      | Jonas Pike     | April
'''

# place | where it is | opens | closes | what one can get or do there | what it looks like
PLACES_TABLE = '''
bakery      | Mill Lane      | 6:00  | 14:00 | buy bread, buns and plum pie            | a yellow house with a round window
post office | River Street   | 8:00  | 17:00 | send letters and parcels                | a red house with a brass horn over the door
library     | Church Hill    | 9:00  | 18:00 | borrow books and maps                   | a tall house with a green door
park        | Garden Row     | 7:00  | 20:00 | sit under the lime trees                | a garden with a pond and a white bridge
mill        | Mill Lane      | 7:00  | 16:00 | buy flour and oats                      | a grey tower with four sails
school      | Church Hill    | 8:00  | 15:00 | learn reading, sums and chess           | a long house with a blue roof
clock tower | Bell Square    | 10:00 | 16:00 | see the great clock from inside         | the highest tower of the town
surgery     | River Street   | 8:00  | 19:00 | see the doctor                          | a white house with a lamp that always burns
forge       | Bell Square    | 7:00  | 17:00 | have tools and horseshoes made          | a black hall full of sparks
inn         | Bell Square    | 11:00 | 23:00 | eat, sleep and listen to jokes          | a crooked house with a golden goose on its sign
harbour     | Harbour Street | 5:00  | 21:00 | buy fish and hire boats                 | a quay with nine small boats
pottery     | Church Hill    | 10:00 | 18:00 | buy jugs, bowls and tiles               | a round house made of clay
town hall   | Bell Square    | 9:00  | 12:00 | meet the mayor                          | a stone house with a wide stair
ferry       | Harbour Street | 6:00  | 22:00 | cross the river Quarr                   | a flat blue boat on a rope
'''

# what | when | where | what happens
EVENTS_TABLE = '''
Lantern Night  | in December  | Bell Square  | everyone carries a paper lantern and sings
Plum Fair      | in September | the park     | the best plum pie of the year is chosen
Boat Race      | in July      | the harbour  | nine boats race to the bridge and back
Story Week     | in February  | the library  | each evening somebody tells a story
Wool Market    | in May       | Garden Row   | wool, scarves and blankets are sold
Honey Day      | in August    | the south meadow | everybody may taste the new honey
'''

# question about the town itself | answer
TOWN_TABLE = '''
What is the town called?                | The town is called Little Quarrow.
How many people live in Little Quarrow? | About four hundred people live in Little Quarrow.
Which river runs through Little Quarrow?| The river Quarr runs through Little Quarrow.
Where is Little Quarrow?                | Little Quarrow lies on the river Quarr, between two green hills.
Who is the mayor of Little Quarrow?     | Felix Amber is the mayor of Little Quarrow.
What is the highest building in Little Quarrow? | The clock tower on Bell Square is the highest building in Little Quarrow.
What is Little Quarrow famous for?      | Little Quarrow is famous for its plum pie and its great clock.
When is market day in Little Quarrow?   | Market day in Little Quarrow is Saturday.
What is the weather like in Little Quarrow? | In Little Quarrow it is often foggy in the morning and sunny after noon.
How do I get to Little Quarrow?         | You get to Little Quarrow by the ferry or by the Hill Road.
'''

PERSON_FIELDS = 'name job work street pet food hobby friend birthday'.split()
PLACE_FIELDS = 'name street opens closes offer look'.split()
EVENT_FIELDS = 'name when where what'.split()


def rows(table: str, fields: list[str]) -> list[dict[str, str]]:
    return [dict(zip(fields, (cell.strip() for cell in line.split('|')))) for line in table.strip().split('\n')]


PEOPLE = rows(PEOPLE_TABLE, PERSON_FIELDS)
PLACES = rows(PLACES_TABLE, PLACE_FIELDS)
EVENTS = rows(EVENTS_TABLE, EVENT_FIELDS)
TOWN = [tuple(cell.strip() for cell in line.split('|')) for line in TOWN_TABLE.strip().split('\n')]
SHE = {'Odette', 'Clara', 'Martha', 'Iris', 'Nell', 'Lotte', 'Vera', 'Wanda', 'Greta'}
