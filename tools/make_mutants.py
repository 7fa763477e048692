#!/usr/bin/env python3
# Copies of sources with bugs in them that can be switched on one at a time: proof that the tests would find them.
#   tools/make_mutants.py --list tests/sim/mutants.txt --out FOLDER
# writes FOLDER/<name of the source> for each file that the list names, and FOLDER/mutants.h with all names. The bug that
# is on is ::quire_mutant, the number of its line in that list of names; -1: none. The list explains itself.
import argparse
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def read_list(path):
    """[(name, file, old text, new text)]"""
    mutants = []
    with open(path, encoding='utf-8') as f:
        for number, line in enumerate(f, 1):
            line = line.rstrip('\n')
            if line.startswith('== '):
                mutants.append([line[3:], None, [], []])
            elif line.startswith('- ') or line.startswith('+ '):
                mutants[-1][2 if line[0] == '-' else 3].append(line[2:])
            elif line.startswith('src/'):
                mutants[-1][1] = line
            elif line and not line.startswith('#'):
                sys.exit(f'{path}:{number}: want "== name", a file, "- old" or "+ new"')
    return [(name, file, '\n'.join(old), '\n'.join(new)) for name, file, old, new in mutants]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--list', required=True)
    parser.add_argument('--out', required=True)
    args = parser.parse_args()
    mutants = read_list(args.list)
    sources = {}
    for i, (name, file, old, new) in enumerate(mutants):
        if file not in sources:
            with open(os.path.join(ROOT, file), encoding='utf-8') as f:
                sources[file] = f.read()
        count = sources[file].count(old)
        if count != 1:
            sys.exit(f'{args.list}: "{name}": its old text occurs {count} times in {file}; it must be there once')
        sources[file] = sources[file].replace(old, new.replace('MUTANT', f'(::quire_mutant == {i})'))
    os.makedirs(args.out, exist_ok=True)
    for file, text in sources.items():
        with open(os.path.join(args.out, os.path.basename(file)), 'w', encoding='utf-8') as f:
            f.write('extern int quire_mutant;\n' + text)
    with open(os.path.join(args.out, 'mutants.h'), 'w', encoding='utf-8') as f:
        names = ',\n    '.join(f'"{name}"' for name, _, _, _ in mutants)
        f.write(f'#pragma once\ninline constexpr const char* kMutants[] = {{\n    {names}}};\n')


if __name__ == '__main__':
    main()
