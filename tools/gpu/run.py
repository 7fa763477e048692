#!/usr/bin/env python3
"""Tests and measures the CUDA backend on the machine that has the GPU; `./dev gpu` makes the folder that this lies in.

    python3 run.py                 every part that has no result yet, each at most 8 minutes
    python3 run.py tests ops       these parts, again
    python3 run.py --table         what was found, as text

Needs NVIDIA's driver and python3, nothing else: no compiler, no network. What a part printed lies in results/PART.txt.
compute-sanitizer is used where it is installed. QUIRE_GPU_RESULTS: another folder for results; QUIRE_GPU_MODELS: where
models of up to 9 GB are made (/dev/shm).
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
RESULTS = os.environ.get('QUIRE_GPU_RESULTS') or os.path.join(HERE, 'results')
MOST_SECONDS = 8 * 60
MODELS = os.environ.get('QUIRE_GPU_MODELS') or ('/dev/shm' if os.path.isdir('/dev/shm') else tempfile.gettempdir())
BUNDLED = os.path.join(HERE, 'models', 'quill-q8_0.gguf')
SHAPES = {'1b': ['--shape', 'llama-3.2-1b'], '8b': ['--shape', 'llama-3.1-8b']}


def environment():
    return dict(os.environ, LD_LIBRARY_PATH=os.path.join(HERE, 'lib'))


def run(*command, seconds=MOST_SECONDS):
    """What it printed; its exit status is in the text where it is not 0."""
    began = time.monotonic()
    try:
        done = subprocess.run(command, cwd=HERE, env=environment(), timeout=seconds, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
        text = done.stdout + (f'exit status {done.returncode}\n' if done.returncode else '')
    except subprocess.TimeoutExpired as late:
        said = late.stdout or ''  # bytes, whatever was asked for
        text = (said if isinstance(said, str) else said.decode(errors='replace')) + f'stopped after {seconds} seconds\n'
    except OSError as error:
        text = f'{command[0]}: {error}\n'
    return f'$ {" ".join(os.path.basename(part) for part in command)}\n{text}({time.monotonic() - began:.1f} s)\n'


def program(name):
    return os.path.join(HERE, 'bin', name)


def part_device():
    query = 'name,memory.total,driver_version,clocks.max.sm,clocks.max.mem,power.limit'
    return run('nvidia-smi', f'--query-gpu={query}', '--format=csv') + run(program('quire'), 'doctor')


def part_tests():
    return run(program('device_test'), '--gtest_brief=1')


def part_sanitizer():
    if not shutil.which('compute-sanitizer'):
        return 'compute-sanitizer is not installed: skipped\n'
    return ''.join(run('compute-sanitizer', '--tool', tool, program('device_test'), '--gtest_brief=1', '--gtest_filter=Cuda.*',
                       seconds=MOST_SECONDS // 3) for tool in ('memcheck', 'racecheck', 'synccheck'))


def part_ops():
    return run(program('device_bench'))


def part_mma():
    """Whether the tensor cores sum as their twin does, in 1,000,000 tiles; what the twin has to be, where they do not."""
    return run(program('mma_tiles'))


def answer(backend):
    """Of the bundled model behind a server: two questions with logprobs, as they stand in the reply."""
    server = subprocess.Popen([program('quire'), 'serve', BUNDLED, '--backend', backend, '--port', '0'],
                              env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        said, address = [], None
        while address is None:
            line = server.stdout.readline()
            if not line:
                raise RuntimeError('the server ended: ' + ''.join(said))
            said.append(line)
            address = next((word.strip('.,') for word in line.split() if word.startswith('http://')), None)
        out = []
        for i, question in enumerate(('What is the capital of France?', 'Repeat after me: one two one two.')):
            body = {'messages': [{'role': 'user', 'content': question}], 'max_tokens': 24, 'seed': i, 'logprobs': True,
                    'top_logprobs': 3, 'temperature': 0.8 * i}
            request = urllib.request.Request(address.rstrip('/') + '/v1/chat/completions', json.dumps(body).encode(),
                                             {'Content-Type': 'application/json'})
            with urllib.request.urlopen(request, timeout=120) as reply:
                choice = json.load(reply)['choices'][0]
            out.append((choice['message']['content'], choice['logprobs']))
        return out
    finally:
        server.terminate()
        server.wait(timeout=30)


def part_answers():
    on_cpu, on_gpu = answer('cpu'), answer('cuda')
    same = 'the same text and logprobs' if on_cpu == on_gpu else 'NOT THE SAME'
    return f'over HTTP, on the GPU and on the CPU: {same}: {json.dumps([text for text, _ in on_gpu])}\n'


def made(shape):
    path = os.path.join(MODELS, f'quire-gpu-{shape}.gguf')
    if not os.path.exists(path):
        text = run(sys.executable, os.path.join(HERE, 'make_model.py'), *SHAPES[shape], '--type', 'q8_0', '--out', path)
        if not os.path.exists(path):
            raise RuntimeError(text)
    return path


def part_model(shape, *options):
    begin = time.monotonic()
    path = made(shape)
    text = f'made in {time.monotonic() - begin:.1f} s, {os.path.getsize(path)} bytes\n'
    return text + run(program('quire'), 'bench', path, '--backend', 'cuda', '--kv-type', 'f16', '--generate', '64', '--repeat',
                      '3', *options)


PARTS = {
    'device': part_device,
    'tests': part_tests,
    'mma': part_mma,
    'answers': part_answers,
    'ops': part_ops,
    '1b': lambda: part_model('1b', '--prompt', '512', '--batch', '1,8,16'),
    '8b': lambda: part_model('8b', '--prompt', '512', '--batch', '1,8,16', '--depth', '0,4096'),
    'sanitizer': part_sanitizer,
}


def main():
    wanted = sys.argv[1:]
    if wanted == ['--table']:
        for name in PARTS:
            path = os.path.join(RESULTS, name + '.txt')
            if os.path.exists(path):
                with open(path, encoding='utf-8') as found:
                    print(f'== {name}\n{found.read()}')
        return 0
    unknown = [name for name in wanted if name not in PARTS]
    if unknown:
        print(f'there is no part {unknown[0]}; parts: {", ".join(PARTS)}', file=sys.stderr)
        return 2
    os.makedirs(RESULTS, exist_ok=True)
    for name, part in PARTS.items():
        path = os.path.join(RESULTS, name + '.txt')
        if wanted and name not in wanted or not wanted and os.path.exists(path):
            continue
        try:
            text = part()
        except (OSError, RuntimeError, ValueError) as error:
            text = f'{error}\n'
        with open(path, 'w', encoding='utf-8') as found:
            found.write(text)
        print(f'== {name}\n{text}', flush=True)
    return 0


if __name__ == '__main__':
    sys.exit(main())
