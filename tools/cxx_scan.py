# Finds the functions of a C++ file without compiling it: tokens first (comments, strings, raw strings and preprocessor
# lines fall away), then a walk over scopes. Good enough for code that clang-format accepts; check_sizes is its user.
# One idea: outside function bodies every "{" belongs to a head (the tokens since the last ";", "{" or "}"), and the
# head alone tells a namespace, a type, an initialiser and a function apart.
import re
from dataclasses import dataclass

TOKEN = re.compile(r'''
    (?P<skip>   (?:(?<=\n)|\A)[ \t]*\#(?:\\\r?\n|[^\n])*        # a preprocessor directive with its continuations
              | //(?:\\\r?\n|[^\n])* | /\*.*?\*/
              | [ \t\r\f\v]+ )
  | (?P<nl>   \n)
  | (?P<str>  (?:u8|[uUL])?R"(?P<delim>[^\s()\\]{0,16})\(.*?\)(?P=delim)"
            | (?:u8|[uUL])?"(?:\\.|[^"\\\n])*"
            | (?:u8|[uUL])?'(?:\\.|[^'\\\n])+')
  | (?P<num>  \.?\d(?:'?\w|[eEpP][+-]|\.)*)
  | (?P<id>   [A-Za-z_]\w*)
  | (?P<punct> ::|->|.)
''', re.VERBOSE | re.DOTALL)

NOT_A_NAME = {'alignas', 'decltype', 'noexcept', 'requires', '__attribute__', 'explicit', 'if', 'static_assert', 'throw'}
TYPE_WORDS = {'class', 'struct', 'union', 'enum'}
NOT_A_DECLARATION = {'using', 'typedef', 'static_assert', 'friend', 'return', 'goto'}
CONTROL_WORDS = {'if', 'for', 'while', 'switch', 'do', 'else', 'try', 'catch'}
OPENING, CLOSING = {'(': ')', '[': ']', '{': '}'}, {')', ']', '}'}


@dataclass
class Token:
    kind: str
    text: str
    line: int


@dataclass
class Function:
    name: str
    line: int        # of its first token
    n_lines: int     # from "{" to "}", both lines counted; 0 for a declaration
    n_params: int
    nesting: int     # deepest level of braced control statements


class ScanError(Exception):
    pass


def tokenize(text):
    tokens, line = [], 1
    for match in TOKEN.finditer(text):
        kind = match.lastgroup if match.lastgroup != 'delim' else 'str'
        if kind not in ('skip', 'nl'):
            tokens.append(Token(kind, match[0], line))
        line += match[0].count('\n')
    return drop_attributes(tokens)


def drop_attributes(tokens):
    """Without [[...]]: an attribute may stand anywhere and would only be in the way."""
    out, i = [], 0
    while i < len(tokens):
        if tokens[i].text == '[' and i + 1 < len(tokens) and tokens[i + 1].text == '[':
            i = closing(tokens, i) + 1
        else:
            out.append(tokens[i])
            i += 1
    return out


def closing(tokens, i):
    """The index of the bracket that closes tokens[i]."""
    stack = []
    for j in range(i, len(tokens)):
        text = tokens[j].text
        if tokens[j].kind != 'punct':
            continue
        if text in OPENING:
            stack.append(OPENING[text])
        elif text in CLOSING:
            if not stack or stack.pop() != text:
                raise ScanError(f'line {tokens[j].line}: "{text}" closes nothing')
            if not stack:
                return j
    raise ScanError(f'line {tokens[i].line}: "{tokens[i].text}" is never closed')


def closing_angle(tokens, i):
    """The index of the ">" that closes the template "<" at tokens[i], or None if it reads as a comparison."""
    depth, j = 0, i
    while j < len(tokens):
        text = tokens[j].text
        if text in ('(', '[', '{'):
            j = closing(tokens, j)
        elif text == '<':
            depth += 1
        elif text == '>':
            depth -= 1
            if depth == 0:
                return j
        elif text in (';', ')', '}'):
            return None
        j += 1
    return None


def top_level(head):
    """The head with each (...) group and each template argument list folded: items are a Token or a list of tokens."""
    items, i = [], 0
    while i < len(head):
        text = head[i].text
        if head[i].kind == 'punct' and text in OPENING:
            end = closing(head, i)
            items.append(head[i:end + 1])
            i = end + 1
            continue
        if text == '<' and i > 0 and head[i - 1].kind == 'id' and head[i - 1].text != 'operator':
            end = closing_angle(head, i)
            if end is not None:
                i = end + 1
                continue
        items.append(head[i])
        i += 1
    return items


def is_token(item, text):
    return isinstance(item, Token) and item.text == text


def signature(head):
    """(name, parameter tokens) when the head reads as a function's, else None."""
    items = top_level(head)
    words = [x.text if isinstance(x, Token) else x[0].text for x in items]
    if 'operator' in words:
        return operator_signature(items, words)
    for k, item in enumerate(items):
        if is_token(item, '='):
            return None
        if isinstance(item, list) and item[0].text == '(' and k > 0:
            before = items[k - 1]
            if not isinstance(before, Token) or before.kind != 'id' or before.text in NOT_A_NAME:
                continue
            if len(item) > 2 and item[1].text in ('*', '&'):
                return None  # a pointer to a function
            return qualified_name(items, k - 1), item[1:-1]
    return None


def operator_signature(items, words):
    at = words.index('operator')
    groups = [k for k in range(at + 1, len(items)) if isinstance(items[k], list) and words[k] == '(']
    if not groups:
        return None
    first = groups[0]
    if first == at + 1 and len(groups) > 1:
        first = groups[1]  # operator()
    symbol = ''.join('()' if word == '(' else word for word in words[at + 1:first])
    return 'operator' + symbol, items[first][1:-1]


def qualified_name(items, k):
    name = items[k].text
    if k > 0 and is_token(items[k - 1], '~'):
        name, k = '~' + name, k - 1
    while k >= 2 and is_token(items[k - 1], '::') and isinstance(items[k - 2], Token) and items[k - 2].kind == 'id':
        name, k = items[k - 2].text + '::' + name, k - 2
    return name


def is_macro(name):
    return len(name) > 1 and name.isupper()


def count_params(tokens):
    if not tokens or [t.text for t in tokens] == ['void']:
        return 0
    return 1 + sum(is_token(item, ',') for item in top_level(tokens))


def is_type_or_namespace(head):
    items = [x for x in top_level(head) if isinstance(x, Token)]
    words = [x.text for x in items if x.text not in ('template', 'export', 'inline', 'static', 'constexpr', 'typedef')]
    if 'requires' in words and words[0] == 'requires':
        words = [w for w in words if w in TYPE_WORDS] or words
    return bool(words) and (words[0] in TYPE_WORDS or words[0] == 'namespace' or
                            (words[0] == 'extern' and head[-1].kind == 'str'))


def in_initialiser_list(head):
    """True when "{" after this head initialises a member of a constructor, as in  F() : a_{1}, b_(2) {"""
    items = top_level(head)
    groups = [k for k, x in enumerate(items) if isinstance(x, list) and x[0].text == '(']
    return bool(groups) and any(is_token(x, ':') for x in items[groups[0]:]) and (
        head[-1].kind == 'id' or head[-1].text == '>')


class Scanner:
    def __init__(self, text):
        self.tokens = tokenize(text)
        self.functions = []

    def run(self):
        self._scope(0, len(self.tokens))
        return self.functions

    # Declarations of one namespace or type, tokens[i:end].
    def _scope(self, i, end):
        head = []
        while i < end:
            token = self.tokens[i]
            text = token.text if token.kind == 'punct' else ''
            if text == ';':
                self._declaration(head)
                head = []
            elif text == ':' and len(head) == 1 and head[0].text in ('public', 'private', 'protected'):
                head = []
            elif text in ('(', '['):
                stop = closing(self.tokens, i)
                self._lambdas(i, stop)
                head += self.tokens[i:stop + 1]
                i = stop
            elif text == '{':
                i, head = self._brace(head, i)
            elif text == '}':
                raise ScanError(f'line {token.line}: "}}" closes nothing')
            else:
                head.append(token)
            i += 1

    def _brace(self, head, i):
        stop = closing(self.tokens, i)
        if head and is_type_or_namespace(head):
            self._scope(i + 1, stop)
            return stop, []
        found = signature(head) if head else None
        if found and in_initialiser_list(head):
            return stop, head + self.tokens[i:stop + 1]
        if found:
            name, params = found
            self._add(name, head[0].line, i, stop, 0 if is_macro(name) else count_params(params))
            return stop, []
        self._lambdas(i - 1, stop)
        return stop, head + self.tokens[i:stop + 1]

    # Braces outside functions that are no scope: a lambda's body counts, the values of an initialiser do not. Looks at
    # all braces after tokens[i] up to tokens[stop], so lambdas in tables and in a macro's arguments are found.
    def _lambdas(self, i, stop):
        j = i + 1
        while j < stop:
            if self.tokens[j].kind == 'punct' and self.tokens[j].text == '{' and j > 0 and \
                    self.tokens[j - 1].text in (')', ']', 'mutable', 'noexcept'):
                end = closing(self.tokens, j)
                self._add('(lambda)', self.tokens[j].line, j, end, 0)
                j = end
            j += 1

    def _add(self, name, line, i, stop, n_params):
        n_lines = self.tokens[stop].line - self.tokens[i].line + 1
        self.functions.append(Function(name, line, n_lines, n_params, self._nesting(i, stop)))

    def _declaration(self, head):
        if not head or head[0].text in NOT_A_DECLARATION or is_type_or_namespace(head):
            return
        found = signature(head)
        if found and not is_macro(found[0]):
            self.functions.append(Function(found[0], head[0].line, 0, count_params(found[1]), 0))

    def _nesting(self, i, stop):
        levels, deepest, parens, pending = [], 0, 0, None  # pending: the paren depth of a control word without its "{"
        for token in self.tokens[i + 1:stop]:
            text = token.text
            if token.kind == 'id' and text in CONTROL_WORDS:
                pending = parens
            elif token.kind != 'punct':
                continue
            elif text in ('(', ')'):
                parens += 1 if text == '(' else -1
            elif text == '{':
                levels.append(pending == parens)
                deepest = max(deepest, sum(levels))
                pending = None if levels[-1] else pending
            elif text == '}':
                levels.pop()
            elif text == ';' and pending == parens:
                pending = None
        return deepest


def functions_of(text):
    return Scanner(text).run()
