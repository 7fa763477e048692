# llama.cpp's own tests of what answers hold, read by Quire's parsers (src/text/parse/chat_cases_test.cc).
#   ./dev peers [--update] [-k EXPRESSION]
# Their tests are C++. The part that describes cases is cut out and compiled against llama_chat_cases.h, which writes each
# case as a line of JSON; lines, part and program lie in build/. llama_chat_expected.txt says which cases are read otherwise
# here, and why: a section for each reason. NAME/history is what the template writes of the case's calls, read back.
import json
import os
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
EXPECTED = os.path.join(HERE, 'llama_chat_expected.txt')
FOLDER = os.path.join(ROOT, 'build', 'peers')
UNSORTED = 'not yet'
HEAD = ("# Which of llama.cpp's cases of answers are read otherwise here: the reason, then template:line of their tests.\n"
        '# Written by ./dev peers --update; whatever is in [not yet] is to be mended, or moved to a section that says why not.\n')


def cut_out(text):
    """Their tools, messages and cases, without what is no case; every line keeps its number."""
    lines = text.split('\n')

    def at(start):
        return next(i for i, line in enumerate(lines) if line.startswith(start))

    parts = [(at('static common_chat_tool '), at('// Use for PEG parser implementations')),
             (at('static void test_lfm2_parser'), at('static void test_template_generation_prompt'))]
    for i in range(*parts[1]):  # blocks that render prompts
        if 'common_chat_templates_apply(' not in lines[i]:
            continue
        for indent in ('        ', '    '):
            begin = max(k for k in range(i) if lines[k] == indent + '{')
            end = min(k for k in range(begin, len(lines)) if lines[k] == indent + '}')
            if end > i:
                lines[begin:end + 1] = [''] * (end + 1 - begin)
                break
    out = ['#include "llama_chat_cases.h"']
    for begin, end in parts:
        out.append(f'#line {begin + 1}')
        out += [line for line in ('' if 'LOG_DBG(' in line else line for line in lines[begin:end])]
    return '\n'.join(out) + '\nint main() { test_template_output_peg_parsers(false); }\n'


def read_expected():
    """{case: reason}"""
    out, reason = {}, None
    with open(EXPECTED, encoding='utf-8') as file:
        for line in map(str.strip, file):
            if line.startswith('['):
                reason = line[1:-1]
            elif line and not line.startswith('#'):
                out[line] = reason
    return out


def write_expected(reasons):
    sections = {}
    for name, reason in reasons.items():
        sections.setdefault(reason, []).append(name)
    with open(EXPECTED, 'w', encoding='utf-8') as file:
        file.write(HEAD)
        for reason in sorted(sections):
            file.write(f'\n[{reason}]\n' + ''.join(f'{name}\n' for name in sorted(sections[reason])))


def make_cases(sources, expected):
    """The path of the cases, with the reasons of those that differ."""
    with open(os.path.join(sources, 'tests', 'test-chat.cpp'), encoding='utf-8') as file:
        source = cut_out(file.read())
    program = os.path.join(FOLDER, 'llama_chat_cases')
    with open(program + '.cc', 'w', encoding='utf-8') as file:
        file.write(source)
    subprocess.run([os.environ.get('CXX', 'c++'), '-std=c++20', '-w', '-I', HERE, program + '.cc', '-o', program], check=True)
    lines = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    path = program + '.jsonl'
    with open(path, 'w', encoding='utf-8') as file:
        for case in map(json.loads, lines.splitlines()):
            case['template'] = os.path.join(sources, 'models', 'templates', case['template'])
            names = (case['name'], case['name'] + '/history')
            case['differs'] = {name: expected[name] for name in names if name in expected}
            file.write(json.dumps(case) + '\n')
    return path


def run(sources, update):
    """(how many were read as expected, how many not); prints the reasons and what is not as expected."""
    expected = read_expected()
    binary = os.environ.get('QUIRE_TEXT_TEST') or os.path.join(ROOT, 'build', 'ci', 'text_test')
    done = subprocess.run([binary, '--gtest_filter=ChatCases.*', '--gtest_color=no'], capture_output=True, text=True,
                          env=dict(os.environ, QUIRE_CHAT_CASES=make_cases(sources, expected)), check=False)
    ends = dict(line.split(': ', 1) for line in done.stdout.splitlines() if line.endswith((': same', ': differs')))
    if not ends:
        raise SystemExit(f'no case was read:\n{done.stdout[-2000:]}{done.stderr[-2000:]}')
    now = {name: expected.get(name, UNSORTED) for name, end in ends.items() if end == 'differs'}
    counts = {}
    for reason in now.values():
        counts[reason] = counts.get(reason, 0) + 1
    print(f'{len(ends) - len(now):5}  cases and histories are read as their tests say')
    for reason, n in sorted(counts.items(), key=lambda item: -item[1]):
        print(f'{n:5}  otherwise: {reason}')
    if update:
        write_expected(now)
        return len(ends), 0
    wrong = sorted({name for name in now if name not in expected} | {name for name in expected if name not in now})
    for name in wrong:
        print(f'{name}: expected "{expected.get(name, "the same")}", is "{now.get(name, "the same")}"')
    if done.returncode != 0:
        print(done.stdout[-4000:])
    return len(ends) - len(wrong), max(len(wrong), int(done.returncode != 0))
