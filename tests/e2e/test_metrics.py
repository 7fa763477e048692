# What /metrics says: in Prometheus's own reader, under vLLM's names too, and what the dashboard asks for. And the line
# that each request leaves in the log.
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import unittest
import urllib.parse
import urllib.request

from client_packages import PYTHON, missing
from quire_server import ROOT, Server, ServerCase, eventually

TEXT = '/v1/completions'
DASHBOARD = os.path.join(ROOT, 'deploy', 'grafana', 'quire.json')
VLLM = ['num_requests_running', 'num_requests_waiting', 'kv_cache_usage_perc', 'num_preemptions_total',
        'prefix_cache_queries_total', 'prefix_cache_hits_total', 'prompt_tokens_total', 'prompt_tokens_cached_total',
        'generation_tokens_total', 'time_to_first_token_seconds', 'inter_token_latency_seconds',
        'request_time_per_output_token_seconds', 'e2e_request_latency_seconds', 'request_queue_time_seconds',
        'request_prefill_time_seconds', 'request_decode_time_seconds', 'request_success_total', 'cache_config_info',
        'request_max_num_generation_tokens', 'request_params_max_tokens', 'request_params_n']
# What the panels of the dashboard that vLLM publishes show (prometheus_grafana/grafana.json among its examples).
HISTOGRAM = 'histogram_quantile(0.9, sum by(le) (rate(vllm:{}_bucket{{}}[1m])))'
LENGTHS = 'sum by(le) (increase(vllm:{}_bucket{{}}[1m]))'
SUM, COUNTER, GAUGE = 'rate(vllm:{}_sum{{}}[1m])', 'rate(vllm:{}{{}}[1m])', 'vllm:{}{{}}'
VLLM_PANELS = {
    'E2E Request Latency': [(HISTOGRAM, 'e2e_request_latency_seconds'), (SUM, 'e2e_request_latency_seconds')],
    'Token Throughput': [(COUNTER, 'prompt_tokens_total'), (COUNTER, 'generation_tokens_total')],
    'Inter Token Latency': [(HISTOGRAM, 'inter_token_latency_seconds'), (HISTOGRAM, 'time_per_output_token_seconds')],
    'Scheduler State': [(GAUGE, 'num_requests_running'), (GAUGE, 'num_requests_waiting')],
    'Time To First Token Latency': [(HISTOGRAM, 'time_to_first_token_seconds')],
    'Cache Utilization': [(GAUGE, 'kv_cache_usage_perc')],
    'Request Prompt Length': [(LENGTHS, 'request_prompt_tokens')],
    'Request Generation Length': [(LENGTHS, 'request_generation_tokens')],
    'Finish Reason': [('sum by(finished_reason) (increase(vllm:{}{{}}[1m]))', 'request_success_total')],
    'Queue Time': [(SUM, 'request_queue_time_seconds')],
    'Requests Prefill and Decode Time': [(SUM, 'request_prefill_time_seconds'), (SUM, 'request_decode_time_seconds')],
    'Max Generation Token in Sequence Group': [(SUM, 'request_max_num_generation_tokens')],
}


def expressions():
    with open(DASHBOARD, encoding='utf-8') as f:
        return [target['expr'] for panel in json.load(f)['panels'] for target in panel.get('targets', [])]


class Metrics(ServerCase):
    options = ('--api-key', 'k-1', '--admin-port', '0')

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.admin = cls.server.logged('metrics on ').split()[-1]
        key = {'Authorization': 'Bearer k-1'}
        for body in ({'prompt': 'Once upon a time', 'max_tokens': 8, 'temperature': 0, 'ignore_eos': True},
                     {'prompt': ''}):
            cls.server.post(TEXT, body, key)
        connection = cls.server.connect()
        connection.request('POST', TEXT, json.dumps({'prompt': 'Once', 'max_tokens': 20, 'stream': True, 'ignore_eos': True}),
                           {'Content-Type': 'application/json', **key})
        connection.getresponse().read()
        connection.close()

    def text(self):
        request = urllib.request.Request(self.admin + '/metrics', headers={'Authorization': 'Bearer k-1'})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read().decode()

    def values(self):
        out = {}
        for line in self.text().splitlines():
            if not line.startswith('#'):
                series, value = line.rsplit(' ', 1)
                out[series] = float(value)
        return out

    @unittest.skipUnless(shutil.which('promtool'), 'promtool is not installed (Debian: prometheus)')
    def test_promtool_finds_nothing_wrong(self):
        done = subprocess.run(['promtool', 'check', 'metrics'], input=self.text(), capture_output=True, text=True, timeout=60)
        # Its advice on names is not for names that are vLLM's; what cannot be parsed ends it with 1.
        self.assertNotEqual(done.returncode, 1, done.stdout + done.stderr)
        advice = [line for line in done.stderr.splitlines() if line and not line.startswith('vllm:')]
        self.assertEqual(advice, [])

    @unittest.skipUnless(shutil.which('promtool'), 'promtool is not installed (Debian: prometheus)')
    def test_the_alert_rules_fire_for_what_they_are_for(self):
        folder = os.path.join(ROOT, 'deploy', 'prometheus')
        done = subprocess.run(['promtool', 'test', 'rules', 'alerts_test.yml'], cwd=folder, capture_output=True, text=True,
                              timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(os.path.join(folder, 'alerts.yml'), encoding='utf-8') as f:
            asked = set(re.findall(r'\bquire_\w+', f.read())) - {'quire_kv_tier_writing'}  # of servers with a disk tier
        there = {re.split(r'[{ ]', line)[0] for line in self.text().splitlines() if not line.startswith('#')}
        self.assertEqual(asked - there, set())

    def test_the_python_client_reads_the_same(self):
        reason = missing('prometheus-client>=0.20')
        if reason:
            self.skipTest(reason)
        script = ('import sys, json\nfrom prometheus_client.parser import text_string_to_metric_families as read\n'
                  'print(json.dumps([[s.name, s.value] for f in read(sys.stdin.read()) for s in f.samples]))')
        text = self.text()
        done = subprocess.run([PYTHON, '-c', script], input=text, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(json.loads(done.stdout)), len([x for x in text.splitlines() if not x.startswith('#')]))

    def test_histograms_are_whole(self):
        values = self.values()
        for name in ('time_to_first_token', 'inter_token_latency', 'request_queue_time', 'request_prefill_time',
                     'request_decode_time', 'request_time_per_output_token', 'e2e_request_latency'):
            buckets = [v for series, v in values.items() if series.startswith(f'quire_{name}_seconds_bucket')]
            self.assertGreater(len(buckets), 5, name)
            self.assertEqual(buckets, sorted(buckets), name)
            self.assertEqual(buckets[-1], values[f'quire_{name}_seconds_count'], name)
            if name != 'inter_token_latency':  # a stream that is sent at once has nothing between its tokens
                self.assertGreater(values[f'quire_{name}_seconds_count'], 0, name)
        self.assertEqual(values['quire_time_to_first_token_seconds_count'], 2)
        self.assertEqual(values['quire_generation_tokens_total'], 28)

    def test_vllms_names_hold_the_same_numbers(self):
        values = self.values()
        for name in VLLM:
            theirs = {s: v for s, v in values.items() if re.match(rf'vllm:{name}(_count|_sum|_bucket)?{{', s)}
            self.assertTrue(theirs, name)
            for series, value in theirs.items():
                self.assertIn('model_name="', series)
                ours = re.sub(r'{,?(.*)}$', lambda m: '{' + m[1] + '}' if m[1] else '',
                              re.sub(r'model_name="[^"]*",engine="0",?', '', series.replace('vllm:', 'quire_')))
                self.assertEqual(value, values[ours], series)

    def test_what_was_moved_and_computed_is_told(self):
        values = self.values()
        for name in ('quire_memory_read_bytes_total', 'quire_operations_total', 'quire_engine_busy_seconds_total',
                     'process_cpu_seconds_total', 'process_resident_memory_bytes', 'process_open_fds'):
            self.assertGreater(values[name], 0, name)

    def test_the_dashboard_asks_for_what_is_there(self):
        there = {re.split(r'[{ ]', line)[0] for line in self.text().splitlines() if not line.startswith('#')}
        asked = {name for expr in expressions() for name in re.findall(r'\bquire_\w+', expr)}
        self.assertGreater(len(asked), 20)
        self.assertEqual(asked - there, set())

    @unittest.skipUnless(shutil.which('prometheus'), 'prometheus is not installed')
    def test_prometheus_itself_answers_every_panel(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        with socket.socket() as s:
            s.bind(('127.0.0.1', 0))
            port = s.getsockname()[1]
        config = os.path.join(folder.name, 'prometheus.yml')
        with open(config, 'w', encoding='utf-8') as f:
            json.dump({'global': {'scrape_interval': '1s'},
                       'scrape_configs': [{'job_name': 'quire', 'authorization': {'credentials': 'k-1'},
                                           'static_configs': [{'targets': [self.admin.split('//')[1]]}]}]}, f)
        process = subprocess.Popen(['prometheus', '--config.file', config, '--storage.tsdb.path', folder.name + '/data',
                                    '--web.listen-address', f'127.0.0.1:{port}'], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)

        def ask(expr):
            try:
                url = f'http://127.0.0.1:{port}/api/v1/query?' + urllib.parse.urlencode({'query': expr})
                with urllib.request.urlopen(url, timeout=30) as answer:
                    return json.load(answer)['data']['result']
            except OSError:
                return []
        self.assertTrue(eventually(lambda: any(r['value'][1] == '1' for r in ask('up{job="quire"}')), 60))
        self.assertTrue(eventually(lambda: ask('rate(quire_requests_total[1m])'), 60), 'two scrapes')
        for expr in expressions():
            expr = expr.replace('$__rate_interval', '1m').replace('$instance', '.*')
            with self.subTest(expr):
                self.assertTrue(ask(expr))
        name = next(iter(ask('vllm:num_requests_running')))['metric']['model_name']
        for panel, shown in VLLM_PANELS.items():
            for form, metric in shown:
                expr = form.format(metric).replace('{}', f'{{model_name="{name}"}}')
                with self.subTest(panel, expr=expr):
                    self.assertTrue(ask(expr))


class RequestLog(unittest.TestCase):
    def lines(self, form):
        server = Server('--log-requests', form)
        self.addCleanup(server.stop)
        _, headers, _ = server.post(TEXT, {'prompt': 'a secret of mine', 'max_tokens': 5, 'temperature': 0, 'ignore_eos': True})
        server.events(TEXT, {'prompt': 'another secret', 'max_tokens': 6, 'ignore_eos': True, 'temperatur': 1})
        server.post(TEXT, {'prompt': ''})
        server.get('/health')
        server.stop()
        self.assertNotIn('secret', ''.join(server.log))
        return headers['x-request-id'], server.log

    def test_json(self):
        first, log = self.lines('json')
        records = [json.loads(line) for line in log if line.startswith('{')]
        self.assertEqual([r['status'] for r in records], [200, 200, 400])
        whole, stream, refused = records
        self.assertEqual(whole['id'], first)
        self.assertEqual((whole['generated_tokens'], whole['stream']), (5, False))
        self.assertEqual((stream['generated_tokens'], stream['stream'], stream['end']), (6, True, 'finished'))
        self.assertIn('temperatur', stream['warning'])
        self.assertNotIn('warning', whole)
        self.assertGreater(whole['prompt_tokens'], 0)
        self.assertIsNone(refused['first_token_ms'])
        self.assertLessEqual(whole['queue_ms'], whole['first_token_ms'])
        self.assertLessEqual(whole['first_token_ms'], whole['total_ms'])

    def test_text_and_off(self):
        first, log = self.lines('text')
        said = [line for line in log if ' request id=' in line]
        self.assertEqual(len(said), 3)
        self.assertIn(f'id={first} endpoint=/v1/completions status=200 end=finished', said[0])
        self.assertIn('generated=5', said[0])
        self.assertIn('warning="unknown fields were ignored: temperatur"', said[1])
        self.assertEqual([line for line in self.lines('off')[1] if 'request id=' in line], [])


if __name__ == '__main__':
    unittest.main()
