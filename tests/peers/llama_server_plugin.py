# The pytest plugin with which llama.cpp's server tests run against Quire (see llama_server_tests.py): short names, a free
# port for each server, no downloads beforehand, and one line of JSON for each test into QUIRE_PEERS_RESULTS.
import json
import os
import re
import socket

import pytest

ABSENT_MODEL = 'a model that only a hub has'


def short_name(nodeid, seen):
    """'completion::test_completion#2': file, function and which of its cases, without the values of the case."""
    path, function = nodeid.split('::', 1)
    name = re.sub(r'^test_|\.py$', '', os.path.basename(path)) + '::' + function.split('[', 1)[0].removeprefix('test_')
    seen[name] = seen.get(name, 0) + 1
    return f'{name}#{seen[name]}' if '[' in function else name


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    seen = {}
    for item in items:
        item.user_properties.append(('short_name', short_name(item.nodeid, seen)))


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart():
    import utils  # theirs; its folder is the current one
    plain = utils.ServerProcess.__init__

    def init(self):
        plain(self)
        self.server_port = free_port()

    def download(url, *_):
        print('absent: ' + ABSENT_MODEL)
        raise RuntimeError(url)

    utils.ServerProcess.__init__ = init
    utils.download_file = download
    utils.ServerPreset.load_all = staticmethod(lambda: None)


def why(report):
    """One line: what the wrapper said is absent, else what failed."""
    text = str(report.longrepr) + '\n' + '\n'.join(content for _, content in report.sections)
    absent = re.search(r'^absent: (.*)$', text, re.M)
    if absent:
        return 'absent: ' + absent[1]
    errors = re.findall(r'^E +(.*)$', str(report.longrepr), re.M)
    return (errors[0] if errors else text.strip().splitlines()[-1])[:300]


class Results:
    """Where the results are gathered: in the process that has all reports."""

    def __init__(self, path):
        self.file = open(path, 'w', encoding='utf-8')

    def pytest_runtest_logreport(self, report):
        if report.when != 'call' and report.outcome == 'passed':
            return
        name = dict(report.user_properties).get('short_name', report.nodeid)
        line = {'name': name, 'outcome': report.outcome, 'why': '' if report.outcome == 'passed' else why(report)}
        self.file.write(json.dumps(line) + '\n')
        self.file.flush()


def pytest_configure(config):
    if not hasattr(config, 'workerinput'):
        config.pluginmanager.register(Results(os.environ['QUIRE_PEERS_RESULTS']))
