#!/usr/bin/env python3
"""Tests and measures the CUDA backend on the machine that has the GPU; `./dev gpu` makes the folder that this lies in.

    python3 run.py                 every part that has no result yet, each at most 8 minutes
    python3 run.py tests ops       these parts, again
    python3 run.py --within 600    the same, and no part goes on for longer than that from now on
    python3 run.py --table         what was found, as text
    python3 run.py --numbers       the same as tables for docs/numbers.md, in results/numbers.md

Needs NVIDIA's driver and python3, nothing else: no compiler, no network. What a part printed lies in results/PART.txt; a
part that was stopped has no result, what it said is in results/log.txt with all else. compute-sanitizer is used where it is installed. QUIRE_GPU_RESULTS: another folder for
results; QUIRE_GPU_MODELS: where models are made (/dev/shm), one at a time, of up to 75 GB.
"""
import concurrent.futures
import glob
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
RESULTS = os.environ.get('QUIRE_GPU_RESULTS') or os.path.join(HERE, 'results')
MOST_SECONDS = 8 * 60
MODELS = os.environ.get('QUIRE_GPU_MODELS') or ('/dev/shm' if os.path.isdir('/dev/shm') else tempfile.gettempdir())
BUNDLED = os.path.join(HERE, 'models', 'quill-q8_0.gguf')
# name: shape, type of the weights, gigabytes
MODELS_MADE = {'1b': ('llama-3.2-1b', 'q8_0', 1.4), '8b': ('llama-3.1-8b', 'q8_0', 8.6),
               '8b-bf16': ('llama-3.1-8b', 'bf16', 16.1), '70b': ('llama-3.1-70b', 'q8_0', 75)}
WHOLE_MODELS = '*CudaArchitectures*:CudaKinds*:CudaTensorKinds*'  # tests of tests/golden
LENGTHS = ('--prompt', '512', '--generate', '64', '--repeat', '3')  # of prompts and answers, and how often
QUESTIONS = ('What is the capital of France?', 'Repeat after me: one two one two.', 'How many legs has a spider?',
             'Say hello to my friend.')
SHORTEST = 1.0  # seconds that a program gets at least
OVERLAPPING_USERS = '1,16,64'
# TFLOPS of bf16 without sparsity, as NVIDIA's data sheets say.
BF16_PEAKS = {'H200': 989, 'H100': 989, 'GH200': 989, 'B200': 2250, 'A100': 312, 'L40S': 362, 'RTX 4090': 165}


class Stopped(Exception):
    """What a part printed until its time was over."""


def environment():
    return dict(os.environ, LD_LIBRARY_PATH=os.path.join(HERE, 'lib'))


class Deadline:
    """When the part that runs must have ended, and all of them (--within)."""
    of_part = of_all = math.inf

    @classmethod
    def begin_part(cls):
        cls.of_part = time.monotonic() + MOST_SECONDS

    @classmethod
    def seconds(cls):
        return max(SHORTEST, min(cls.of_part, cls.of_all) - time.monotonic())


def run(*command):
    """What it printed; its exit status is in the text where it is not 0."""
    began, seconds, was_stopped = time.monotonic(), Deadline.seconds(), False
    try:
        done = subprocess.run(command, cwd=HERE, env=environment(), timeout=seconds, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
        text = done.stdout + (f'exit status {done.returncode}\n' if done.returncode else '')
    except subprocess.TimeoutExpired as late:
        said, was_stopped = late.stdout or '', True  # bytes, whatever was asked for
        text = (said if isinstance(said, str) else said.decode(errors='replace')) + f'stopped after {seconds:.0f} seconds\n'
    except OSError as error:
        text = f'{command[0]}: {error}\n'
    text = f'$ {" ".join(os.path.basename(part) for part in command)}\n{text}({time.monotonic() - began:.1f} s)\n'
    with open(os.path.join(RESULTS, 'log.txt'), 'a', encoding='utf-8') as log:
        log.write(text)
    if was_stopped:
        raise Stopped(text)
    return text


def program(name):
    return os.path.join(HERE, 'bin', name)


def part_device():
    query = 'name,memory.total,driver_version,clocks.max.sm,clocks.max.mem,power.limit'
    return run('nvidia-smi', f'--query-gpu={query}', '--format=csv') + run(program('quire'), 'doctor')


def part_tests():
    return run(program('device_test'), '--gtest_brief=1', f'--gtest_filter=-{WHOLE_MODELS}')


def part_golden():
    """Whole models, each opened anew."""
    return run(program('device_test'), '--gtest_brief=1', f'--gtest_filter={WHOLE_MODELS}')


def part_sanitizer():
    if not shutil.which('compute-sanitizer'):
        return 'compute-sanitizer is not installed: skipped\n'
    return ''.join(run('compute-sanitizer', '--tool', tool, program('device_test'), '--gtest_brief=1', '--gtest_filter=Cuda.*')
                   for tool in ('memcheck', 'racecheck', 'synccheck'))


def part_ops():
    return run(program('device_bench'))


def part_mma():
    """Whether the tensor cores sum as their twin does, in 1,000,000 tiles; what the twin has to be, where they do not. Then wgmma."""
    return run(program('mma_tiles'))


def ask(address, i, question):
    """The answer to a question, with logprobs, as they stand in the reply."""
    body = {'messages': [{'role': 'user', 'content': question}], 'max_tokens': 40, 'seed': i, 'logprobs': True, 'top_logprobs': 3,
            'temperature': 0.8 * (i % 2), 'top_p': 0.9 if i > 1 else 1.0}
    request = urllib.request.Request(address.rstrip('/') + '/v1/chat/completions', json.dumps(body).encode(),
                                     {'Content-Type': 'application/json'})
    with urllib.request.urlopen(request, timeout=Deadline.seconds()) as reply:
        choice = json.load(reply)['choices'][0]
    return choice['message']['content'], choice['logprobs']


def answers(backend):
    """Of the bundled model behind a server, to questions that are all asked at once."""
    server = subprocess.Popen([program('quire'), 'serve', BUNDLED, '--backend', backend, '--port', '0'],
                              env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    watchdog = threading.Timer(Deadline.seconds(), server.kill)
    watchdog.start()
    try:
        said, address = [], None
        while address is None:
            line = server.stdout.readline()
            if not line:
                raise RuntimeError('the server ended: ' + ''.join(said))
            said.append(line)
            address = next((word.strip('.,') for word in line.split() if word.startswith('http://')), None)
        with concurrent.futures.ThreadPoolExecutor(len(QUESTIONS)) as users:
            return list(users.map(lambda i: ask(address, i, QUESTIONS[i]), range(len(QUESTIONS))))
    finally:
        watchdog.cancel()
        server.terminate()
        server.wait(timeout=30)


def part_answers():
    on_cpu, on_gpu = answers('cpu'), answers('cuda')
    same = 'the same text and logprobs' if on_cpu == on_gpu else 'NOT THE SAME'
    return f'over HTTP, on the GPU and on the CPU: {same}: {json.dumps([text for text, _ in on_gpu])}\n'


def made(name):
    """Its path, or None where it could not be made, and what was said meanwhile. Others are removed: there is room for one."""
    file, folders = f'quire-gpu-{name}.gguf', (MODELS, tempfile.gettempdir())
    for path in (os.path.join(folder, file) for folder in folders):
        if os.path.exists(path):
            return path, ''
    for other in (path for folder in folders for path in glob.glob(os.path.join(folder, 'quire-gpu-*'))):
        os.remove(other)
    shape, kind, gigabytes = MODELS_MADE[name]
    folder = next((folder for folder in folders if shutil.disk_usage(folder).free > 1.02e9 * gigabytes), None)
    if folder is None:
        raise Stopped(f'there is no room for {gigabytes} GB in {" and ".join(folders)}: skipped\n')
    path = os.path.join(folder, file)
    text = run(sys.executable, os.path.join(HERE, 'make_model.py'), '--shape', shape, '--type', kind, '--out', path)
    return (path, text) if os.path.exists(path) else (None, text)


def bench(path, *options):
    return run(program('quire'), 'bench', path, '--json', *LENGTHS, *options)


def part_model(name, *options, backend='cuda'):
    """A line of JSON for each measurement."""
    path, text = made(name)
    if path is None:
        return text
    return text + bench(path, '--backend', backend, *options)


def part_overlap(name):
    """What of the host's work between steps is hidden behind the device's."""
    path, text = made(name)
    if path is None:
        return text
    return text + ''.join(bench(path, '--backend', 'cuda', '--overlap', '--batch', OVERLAPPING_USERS, *options)
                          for options in ((), ('--sampled',)))


PARTS = {
    'device': part_device,
    'tests': part_tests,
    'mma': part_mma,
    'answers': part_answers,
    'ops': part_ops,
    '1b': lambda: part_model('1b', '--batch', '1,8,16'),
    '1b-overlap': lambda: part_overlap('1b'),
    '8b': lambda: part_model('8b', '--batch', '1,16', '--depth', '0,4096'),
    '8b-bf16': lambda: part_model('8b-bf16', '--batch', '1,16', backend='cuda-tensor'),
    '8b-bf16-portable': lambda: part_model('8b-bf16', '--batch', '1', backend='cuda'),
    '8b-overlap': lambda: part_overlap('8b'),
    'golden': part_golden,
    '70b': lambda: part_model('70b', '--batch', '1,16'),
    'sanitizer': part_sanitizer,
}


def found(name):
    path = os.path.join(RESULTS, name + '.txt')
    if not os.path.exists(path):
        return ''
    with open(path, encoding='utf-8') as file:
        return file.read()


def measured(name):
    return [json.loads(line) for line in found(name).splitlines() if line.startswith('{')]


def numbers():
    """Tables in Markdown of what there is results for."""
    gpu = found('device').splitlines()[2].split(',')[0] if found('device').count('\n') > 2 else 'a GPU'
    peak = next((tflops for key, tflops in sorted(BF16_PEAKS.items(), key=lambda entry: -len(entry[0])) if key in gpu), None)
    rate = re.search(r'reading memory: (\d+) GB/s', found('ops'))
    share = lambda value, most: f'{100 * value / most:.0f} %' if most else ''
    out = [f'## {gpu}', '', f'Reading memory: {rate[1]} GB/s.' if rate else 'Reading memory was not measured.', '',
           '| weights | users | depth | prefill, tok/s | of the bf16 peak | decode, tok/s | of the memory\'s rate | attention |',
           '| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |']
    for name in PARTS:
        prefill = ''
        for line in measured(name):
            speed = line.get('tok_s', {}).get('median', 0)
            if line['test'] == 'prefill':
                prefill = f'{speed:,.0f} | {share(speed * line["ops_per_token"], peak and peak * 1e12)}'
            elif line['test'] == 'decode':
                read = share(speed * line['bytes_per_token'], rate and float(rate[1]) * 1e9)
                attention = share(line.get('extra_gb_s', 0), rate and float(rate[1])) if 'extra_gb_s' in line else ''
                out.append(f'| {name} | {line["n_seqs"]} | {line["depth"]} | {prefill or " | "} | {speed:,.0f} | {read} | {attention} |')
                prefill = ''
    out += ['', '| weights | users | a step, ms | overlapping, ms | of the host\'s, ms | is hidden |', '| --- | ---: | ---: | ---: | ---: | ---: |']
    out += [f'| {name} | {line["n_users"]} | {line["step_ms"]:.3f} | {line["overlapping_step_ms"]:.3f} | {line["host_ms"]:.3f} | '
            f'{share(line["hidden"], 1)} |' for name in PARTS for line in measured(name) if line['test'] == 'overlap']
    return '\n'.join(out) + '\n'


def main():
    wanted, Deadline.of_all = sys.argv[1:], math.inf
    os.makedirs(RESULTS, exist_ok=True)
    if wanted == ['--table']:
        for name in PARTS:
            if found(name):
                print(f'== {name}\n{found(name)}')
        return 0
    if wanted == ['--numbers']:
        with open(os.path.join(RESULTS, 'numbers.md'), 'w', encoding='utf-8') as file:
            file.write(numbers())
        print(numbers(), end='')
        return 0
    if wanted[:1] == ['--within'] and len(wanted) > 1 and wanted[1].isdigit():
        Deadline.of_all = time.monotonic() + int(wanted[1])
        wanted = wanted[2:]
    unknown = [name for name in wanted if name not in PARTS]
    if unknown:
        print(f'there is no part {unknown[0]}; parts: {", ".join(PARTS)}', file=sys.stderr)
        return 2
    for name, part in PARTS.items():
        if name not in wanted if wanted else found(name):
            continue
        if time.monotonic() >= Deadline.of_all:
            print(f'== {name}\nnot begun: the time is over', flush=True)
            continue
        Deadline.begin_part()
        try:
            text = part()
        except Stopped as stopped:
            print(f'== {name}\n{stopped}', flush=True)
            continue
        except (OSError, RuntimeError, ValueError) as error:
            text = f'{error}\n'
            if time.monotonic() >= min(Deadline.of_part, Deadline.of_all):
                print(f'== {name}\nstopped: {text}', flush=True)
                continue
        with open(os.path.join(RESULTS, name + '.txt'), 'w', encoding='utf-8') as file:
            file.write(text)
        print(f'== {name}\n{text}', flush=True)
    return 0


if __name__ == '__main__':
    sys.exit(main())
