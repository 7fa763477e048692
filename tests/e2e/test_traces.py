# Traces as a collector gets them: OTLP over HTTP in JSON.
import http.server
import json
import unittest

from quire_server import LocalServer, Server, eventually


class Collector(LocalServer):
    def __enter__(self):
        self.spans = spans = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                batch = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
                if self.path == '/below/v1/traces':
                    spans.extend(span for resource in batch['resourceSpans'] for scope in resource['scopeSpans']
                                 for span in scope['spans'])
                self.send_response(200)
                self.send_header('Content-Length', '2')
                self.end_headers()
                self.wfile.write(b'{}')

            def log_message(self, *_):
                pass

        return self.listen(Handler)


class Traces(unittest.TestCase):
    def test_a_request_is_one_tree(self):
        with Collector() as collector:
            server = Server('--otlp-endpoint', collector.url + '/below')
            try:
                server.post('/v1/completions', {'prompt': 'Once upon', 'max_tokens': 5, 'n': 2, 'ignore_eos': True})
                self.assertTrue(eventually(lambda: server.metric('quire_trace_spans_sent_total') == 8))
            finally:
                server.stop()
            names = sorted(span['name'] for span in collector.spans)
            self.assertEqual(names, ['POST /v1/completions', 'decode', 'decode', 'prefill', 'prefill', 'prepare', 'queue',
                                     'queue'])
            self.assertEqual(len({span['traceId'] for span in collector.spans}), 1)
            root = next(span for span in collector.spans if 'parentSpanId' not in span)
            below = [span for span in collector.spans if span is not root]
            self.assertEqual({span['parentSpanId'] for span in below}, {root['spanId']})
            for span in below:
                self.assertLessEqual(int(root['startTimeUnixNano']), int(span['startTimeUnixNano']))
                self.assertLessEqual(int(span['endTimeUnixNano']), int(root['endTimeUnixNano']))

    def test_nobody_waits_for_a_collector_that_is_not_there(self):
        server = Server('--otlp-endpoint', 'http://127.0.0.1:1')
        try:
            self.assertEqual(server.post('/v1/completions', {'prompt': 'Once', 'max_tokens': 2, 'ignore_eos': True})[0], 200)
            self.assertTrue(eventually(
                lambda: server.metric('quire_trace_spans_dropped_total') == 5))
        finally:
            server.stop()


if __name__ == '__main__':
    unittest.main()
