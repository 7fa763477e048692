"""Group G of docs/hostile.md: constraints that nobody should ask for, with their names."""
from __future__ import annotations


def bombs() -> dict[str, dict[str, object]]:
    """Each as fields of a request."""
    nested = smaller = {'type': 'integer'}
    for _ in range(8):
        smaller, nested = nested, {'oneOf': [nested, {'type': 'object', 'properties': {'a': nested}}, {'type': 'array', 'items': nested}]}
    product = {'allOf': [{'anyOf': [{'required': [f'{i}_{j}']} for j in range(8)]} for i in range(8)]}
    many = [f'e{i}' for i in range(20_000)]
    return {
        'G1 recursion to the left': {'grammar': 'root ::= root "a" | "b"'},
        'G1 a rule that matches nothing': {'grammar': 'root ::= a*\na ::= ""'},
        'G1 an undefined rule': {'grammar': 'root ::= nobody'},
        'G1 a cycle': {'grammar': 'root ::= a\na ::= b\nb ::= a'},
        'G1 many alternatives': {'grammar': 'root ::= ' + ' | '.join(f'"{i}"' for i in range(20_000))},
        'G2 parentheses': {'regex': '(' * 50_000 + ')' * 50_000},
        'G2 brackets': {'grammar': 'root ::= ' + '(' * 60_000},
        'G2 a reference to itself': {'guided_json': {'$ref': '#'}},
        'G2 a reference elsewhere': {'guided_json': {'$ref': 'http://127.0.0.1/x'}},
        'G2 a file': {'guided_json': {'$ref': 'file:///etc/passwd'}},
        'G3 minLength': {'guided_json': {'type': 'string', 'minLength': 10 ** 9}},
        'G3 maxItems': {'guided_json': {'type': 'array', 'maxItems': 10 ** 9, 'minItems': 10 ** 8}},
        'G3 a counted pattern': {'guided_json': {'pattern': 'a{1000000}'}},
        'G3 multipleOf': {'guided_json': {'type': 'number', 'multipleOf': 1e-9}},
        'G3 min over max': {'guided_json': {'type': 'integer', 'minimum': 5, 'maximum': 4}},
        'G3 edges': {'guided_json': {'type': 'integer', 'minimum': -2 ** 63, 'maximum': 2 ** 63 - 1}},
        'G3 enum': {'guided_json': {'enum': many}},
        'G3 an enum over the limit': {'guided_json': {'enum': [f'e{i}' for i in range(50_000)]}},
        'G3 oneOf': {'guided_json': {'oneOf': [{'required': [f'a{i}']} for i in range(1000)]}},
        'G3 nested oneOf within the limit': {'guided_json': smaller},
        'G3 nested oneOf': {'guided_json': nested},
        'G3 a product': {'guided_json': product},
        'G3 optional properties': {'guided_json': {'properties': {f'p{i}': {} for i in range(400)}}},
        'G4 (a+)+$': {'regex': '(a+)+$'},
        'G4 (a|a)*': {'regex': '(a|a)*'},
        'G4 a back-reference': {'regex': r'(a)\1'},
        'G4 lookbehind': {'regex': '(?<=a)b'},
        'G4 counts of counts': {'regex': '(a{0,500}){0,500}'},
        'G4 two long dots': {'regex': '.{0,10000}.{0,10000}'},
        'G5 no schema': {'guided_json': '{'},
        'G5 a type that is none': {'guided_json': {'type': 5}},
        'G7 nothing matches': {'guided_json': False},
    }
