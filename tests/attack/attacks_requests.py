# Attacks by what is asked for: requests whose heads are in order, by somebody with a key.
import asyncio
import json

from attacker import CHAT, TEXT, request
from registry import attack


def text(**fields):
    return {'prompt': 'x', 'max_tokens': 4, **fields}


def chat(content, **fields):
    return {'messages': [{'role': 'user', 'content': content}], 'max_tokens': 1, **fields}


def deep(levels):
    value = 1
    for _ in range(levels):
        value = [value, {'a': 1}]
    return value


def as_json(value):
    return json.dumps(value, ensure_ascii=False).encode()


# What is large is made once for all attackers.
DEEP = b'{"prompt":' + b'[' * 2000000 + b']' * 2000000 + b'}'
HUGE = b'{"prompt":"x","ignored":[' + b'0,' * 3900000 + b'0]}'
NAMES = b'{"prompt":"x","ignored":{' + b','.join(b'"k%d":{}' % i for i in range(400000)) + b'}}'
LONG = [as_json({'prompt': prompt}) for prompt in ('the fox and ' * 500000, ' ' * 6000000 + 'x', 'a' * 6000000,
                                                   'a' + '\u0301\u0323' * 1000000)]
TOKENS = [as_json({'prompt': [5] * 1000000}), as_json({'prompt': [[4000 + i] * 100 for i in range(1000)]})]
BIASES = [as_json(text(**fields)) for fields in (
    {'logit_bias': {str(i): -1 for i in range(1024)}, 'n': 16, 'max_tokens': 50},
    {'allowed_token_ids': list(range(4000)) * 60, 'n': 16},
    {'bad_words': [f'word{i} and' for i in range(1024)], 'n': 16, 'max_tokens': 50},
    {'logit_bias': {str(i): 1 for i in range(200000)}})]
STOPS = [as_json(text(stop=[('ab' * 511) + chr(97 + i) for i in range(16)], n=32, max_tokens=100)),
         as_json(text(stop=['x' * 10] * 100000))]
TEMPLATE_VALUES = [as_json(chat('x', chat_template_kwargs=values)) for values in (
    {f'k{i}': ['x' * 100] * 400 for i in range(60)}, {'deep': deep(50)}, {'messages': []},
    {'loop': 1, 'range': 2, 'namespace': 3}, {f'{i}': i for i in range(9999)})]
TEMPLATE_VALUES += [as_json(chat('x', chat_template='{% for i in range(10**9) %}x{% endfor %}')),
                    as_json(chat('{{ 7 * 7 }}' * 300000))]
MESSAGES = as_json({'messages': [{'role': 'user', 'content': [{'type': 'text', 'text': '<|end|>'}] * 20}] * 4000,
                    'max_tokens': 1})
WORDS = as_json({'content': 'the fox ' * 800000})
IDS = as_json({'tokens': [77] * 1000000})


@attack('JSON of millions of numbers')
async def huge_json(a):
    await a.ask_for(TEXT, HUGE)


@attack('JSON of many names')
async def many_names(a):
    await a.ask_for(TEXT, NAMES)


@attack('JSON that is deep')
async def deep_json(a):
    await a.ask_for(TEXT, DEEP)


@attack('JSON that is none')
async def no_json(a):
    for body in (b'{"prompt":"x"', b'{"prompt":"\xff\xfe"}', b'{"prompt":"x","prompt":"y"}', b'null', b'[' * 60,
                 b'{"prompt":"x","temperature":1e999}', b'{"max_tokens":' + b'9' * 100000 + b'}'):
        await a.ask_for(TEXT, body)


@attack('prompts far over the context')
async def long_prompts(a):
    await a.ask_for(TEXT, a.rng.choice(LONG))


@attack('tokens far over the context')
async def token_prompts(a):
    for body in a.shuffled(TOKENS):
        await a.ask_for(TEXT, body)


@attack('prompts as long as the context', works=True)
async def full_prompts(a):
    ids = [a.rng.randrange(20, 4000) for _ in range(7000)]
    await a.ask_for(TEXT, {'prompt': ids, 'max_tokens': 1, 'cache_salt': str(a.rng.random())})


@attack('biases, forbidden and allowed tokens', works=True)
async def biases(a):
    for body in a.shuffled(BIASES):
        await a.ask_for(TEXT, body)


@attack('stop lists', works=True)
async def stop_lists(a):
    for body in a.shuffled(STOPS):
        await a.ask_for(TEXT, body)


@attack('penalties over long texts', works=True)
async def penalties(a):
    await a.ask_for(TEXT, text(prompt=[7, 8] * 2000, n=8, max_tokens=100, repetition_penalty=1.3, frequency_penalty=1,
                               dry_multiplier=1, dry_sequence_breakers=[f'{i}' for i in range(64)], temperature=1.5))


@attack('many choices', works=True)
async def many_choices(a):
    await a.ask_for(TEXT, {'prompt': ['x'] * 8, 'n': 128, 'max_tokens': 200, 'ignore_eos': True})
    await a.ask_for(TEXT, {'prompt': ['x'] * 1024, 'n': 128})


@attack('answers of many megabytes', works=True)
async def large_answers(a):
    ids = [a.rng.randrange(20, 4000) for _ in range(1500)]
    await a.ask_for(TEXT, {'prompt': [ids] * 4, 'n': 8, 'max_tokens': 1, 'prompt_logprobs': 20, 'echo': True, 'logprobs': 20})
    await a.ask_for(TEXT, {'prompt': [ids * 3] * 3, 'n': 128, 'max_tokens': 1, 'prompt_logprobs': 20})


@attack('schemas that explode')
async def schemas(a):
    nested = {'const': a.rng.random()}
    for _ in range(8):
        nested = {'oneOf': [nested, {'type': 'object', 'properties': {'a': nested}}, {'type': 'array', 'items': nested}]}
    product = {'allOf': [{'anyOf': [{'required': [f'{i}_{j}']} for j in range(8)]} for i in range(8)]}
    for schema in (nested, product, {'enum': [f'{a.rng.random()}' for _ in range(5000)]}, {'$ref': '#'},
                   {'properties': {f'p{i}{a.rng.random()}': {} for i in range(400)}},
                   {'type': 'string', 'minLength': 10**9}, {'pattern': 'a{1000000}'}):
        await a.ask_for(TEXT, text(max_tokens=2, guided_json=schema))


@attack('grammars that explode')
async def grammars(a):
    for fields in ({'regex': '(a{0,500}){0,500}'}, {'regex': '(' * 50000 + ')' * 50000}, {'regex': '.{0,10000}.{0,10000}'},
                   {'regex': f'(a|a)*{a.rng.random()}'}, {'grammar': 'root ::= root "a" | "b"'},
                   {'grammar': 'root ::= ' + ' | '.join(f'"{a.rng.random()}"' for _ in range(5000))},
                   {'grammar': 'root ::= ' + '(' * 60000}):
        await a.ask_for(TEXT, text(max_tokens=2, **fields))


@attack('values for the template')
async def template_values(a):
    for body in a.shuffled(TEMPLATE_VALUES):
        await a.ask_for(CHAT, body)
    await a.ask_for('/apply-template', TEMPLATE_VALUES[-1])


@attack('conversations of thousands of messages')
async def many_messages(a):
    await a.ask_for(CHAT, MESSAGES)
    tools = [{'type': 'function', 'function': {'name': f'f{i}', 'parameters': {'type': 'object', 'properties': {
        f'p{a.rng.random()}': {'type': 'string', 'pattern': '(a|b)*c{1,50}'}}}}} for i in range(500)]
    await a.ask_for(CHAT, chat('x', tools=tools, tool_choice='required'))


@attack('stored responses', works=True)
async def stored_responses(a):
    await a.ask_for('/v1/responses', {'input': 'x', 'max_output_tokens': 1, 'instructions': 'y ' * 2000,
                                      'metadata': {f'k{i}': 'z' * 500 for i in range(16)}})


@attack('resumable streams that are abandoned', works=True)
async def abandoned_streams(a):
    async with a.connection(reset=True) as c:
        await c.send(a.post(TEXT, text(stream=True, max_tokens=2000, ignore_eos=True), **{'x-quire-resumable': '1'}))
        status, fields = await c.head()
        a.counts[f'{status}, resumable: {"yes" if "x-quire-stream" in fields else "no"}'] += 1


@attack('names of streams that are made up')
async def made_up_streams(a):
    name = ''.join(a.rng.choice('0123456789abcdef') for _ in range(32))
    for method in ('GET', 'DELETE'):
        await a.ask(request(method, f'/v1/streams/{name}?after=0', Authorization=f'Bearer {a.key}'))
    await a.ask(request('GET', f'/v1/responses/resp_{name}', Authorization=f'Bearer {a.key}'))


@attack('texts and tokens of megabytes')
async def tokenize(a):
    await a.ask_for('/tokenize', WORDS)
    await a.ask_for('/detokenize', IDS)


@attack('vectors of many texts', works=True)
async def vectors(a):
    await a.ask_for('/v1/embeddings', {'input': ['the fox ' * 20] * 1024})


@attack('salts that empty the cache', works=True)
async def salts(a):
    await a.ask_for(TEXT, {'prompt': [9] * 1000, 'max_tokens': 1, 'cache_salt': f'{a.rng.random()}'})


@attack('names that forge the log')
async def forged_names(a):
    await a.ask_for(TEXT, text(model='a\nrequest id=1\x1b[2J' * 10))
    await a.ask_for(TEXT, text(user='x' * 100000))


@attack('numbers out of range')
async def numbers(a):
    for fields in ({'n': 10**9}, {'best_of': 10**9}, {'logprobs': 10**6}, {'top_k': 2**31}, {'temperature': -1},
                   {'max_tokens': -3}, {'seed': 1.5}, {'priority': 10**6}, {'min_tokens': 5}, {'prompt': [-1]},
                   {'prompt': ['x'] * 10000}, {'repetition_penalty': 0}):
        await a.ask_for(TEXT, text(**fields))


@attack('ordinary users', works=True)
async def ordinary_users(a):
    """No attack: what as many honest clients cost, to compare with."""
    await a.ask_for(CHAT, {'messages': [{'role': 'user', 'content': f'Tell me of fox {a.rng.randrange(100)}.'}], 'max_tokens': 60,
                           'stream': True})
    await asyncio.sleep(a.rng.random())
