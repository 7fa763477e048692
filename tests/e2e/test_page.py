# The chat page with the program behind it: conversations, stop, reload in mid-stream, errors, what it asks for, and how
# it stands on a narrow screen.
import json
import os
import subprocess
import sys
import tempfile
import unittest

from page_case import FOLDER, PageCase, run_page
from quire_server import ROOT, Server, eventually

# A tiny model of random weights whose template begins the model's thinking.
THINKER = '''
import sys
sys.path.insert(0, "tools")
import make_model
make_model.CHAT_TEMPLATE += "{# ends with </think> #}<think>\\n"
make_model.main(["--shape", "tiny", "--seed", "1", "--out", "OUT"])
'''

# An answer that does not end by itself: every request of the page is made so.
ENDLESS = '''
js("""
    const send = window.fetch;
    window.fetch = (url, options) => send(url, options && options.body
        ? {...options, body: JSON.stringify({...JSON.parse(options.body), ignore_eos: true, max_tokens: 1000, temperature: 0})}
        : options);
    // What happens in mid-stream is done in the page, as the text comes: a driver may be too late.
    window.whenText = (n, act) => {
        const seen = new MutationObserver(() => {
            const text = document.querySelector('#log .assistant > .text');
            if (!text || text.textContent.length <= n) return;
            seen.disconnect();
            act();
        });
        seen.observe(document.getElementById('log'), {childList: true, characterData: true, subtree: true});
    };""")
'''


class Page(PageCase):
    def test_a_conversation(self):
        self.run_page('''
settings(max_tokens=24, temperature=0)
start = "Once upon a time there was a fox who lived in a wood by a river with her two cubs, and each day she went out to"
ask(start)
done()
first = by("#log .assistant > .text").text
assert first, first
figures = by("#log .figures").text
assert "tokens/s" in figures and "first token" in figures and "% of" in figures and "tokens" in figures, figures
click("#log .again")  # greedy, so the same, as another version
wait(lambda: "2 of 2" in by("#log .assistant .about").text)
done()
assert by("#log .assistant > .text").text == first
cached = by("#log .figures").text
assert " 0 % of" not in cached, cached
ask("And then?")
wait(lambda: len(every("#log .user")) == 2)
done()
wait(lambda: len(every("#log .assistant .again")) == 2)
page.refresh()  # kept in the browser
wait(lambda: len(every("#log article")) == 4)
assert by("#chats .current .open").get_attribute("textContent") == start[:60]
''')

    def test_stop_keeps_what_came_and_ends_it_on_the_server(self):
        before = self.server.metric('quire_requests_cancelled_total')
        self.run_page(ENDLESS.replace('1000', '6000') + '''
js("whenText(20, () => document.getElementById('stop').click())")
ask("Tell me a long story")
done()
assert len(by("#log .assistant > .text").text) > 20
assert "stopped" in by("#log .figures").text
assert not every("#log .error")
other = [e for e in page.get_log("browser") if e["level"] == "SEVERE" and "ERR_CONNECTION_RESET" not in e["message"]]
assert not other, other  # the server may cut the stream's connection before the browser has closed it
''')
        self.assertTrue(eventually(lambda: self.server.metric('quire_requests_cancelled_total') > before))

    def test_a_reload_in_mid_stream_goes_on(self):
        whole = self.server.post('/v1/chat/completions', {
            'messages': [{'role': 'user', 'content': 'Tell me a long story'}], 'ignore_eos': True, 'max_tokens': 1000,
            'temperature': 0})[2]['choices'][0]['message']['content']
        said = self.run_page(ENDLESS + '''
js("whenText(100, () => location.reload())")
ask("Tell me a long story")
wait(lambda: any("/v1/streams/" in e["message"] for e in page.get_log("performance")))
done()
assert not every("#log .error"), by("#log .error").text
assert "tokens/s" in by("#log .figures").text
print(js("return Object.entries(localStorage).find(([name]) => name.startsWith('quire.chat.'))[1]"))
''')
        message = json.loads(said.strip().split('\n')[-1])['messages'][1]
        self.assertEqual(message['content'], whole)  # not a letter lost, none twice
        self.assertNotIn('stream', message)

    def test_what_a_model_thinks_is_shown(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'thinker.gguf')
            subprocess.run([sys.executable, '-c', THINKER.replace('OUT', path)], check=True, cwd=ROOT, capture_output=True)
            server = Server(path=path)
            try:
                run_page(server.url, '''
settings(max_tokens=20, temperature=0)
ask("Hi")
done()
assert "cut off at the most tokens" in by("#log .figures").text
thought = texts(".thinking > .text")
assert thought and thought[0] and texts("#log .assistant > .text") == [""], thought
page.refresh()
wait(lambda: texts(".thinking > .text") == thought)
''')
            finally:
                server.stop()

    def test_an_error_is_shown_and_the_engine_view_counts(self):
        self.run_page('''
js("document.getElementById('temperature').max = ''")
settings(temperature=200)
ask("x")
wait(lambda: every("#log .error"))
assert "temperature" in by("#log .error").text, by("#log .error").text
assert by("#log .again").text == "Try again"
click("#show-engine")
wait(lambda: "blocks in use" in by("#engine").text)
page.get_log("browser")  # the refused request is logged by the browser itself
''')

    def test_it_is_what_the_folder_holds_and_asks_nobody_else(self):
        for name in sorted(os.listdir(FOLDER)):
            with open(os.path.join(FOLDER, name), encoding='utf-8') as f:
                text = f.read()
            self.assertEqual(self.server.get('/page/' + name)[2], text)
            self.assertLessEqual(text.count('\n'), 300, name)
        self.run_page('''
ask("Hi")
done()
urls = [json.loads(e["message"])["message"] for e in page.get_log("performance")]
urls = [m["params"]["request"]["url"] for m in urls if m["method"] == "Network.requestWillBeSent"]
assert any("/page/main.js" in u for u in urls), urls
assert all(u.startswith((URL, "data:", "blob:")) for u in urls), urls
''')

    def test_defaults_of_the_server_stand_in_the_settings(self):
        params = self.server.get('/props')[2]['default_generation_settings']['params']
        self.run_page(f'''
want = {params['temperature']!r}
wait(lambda: by("#temperature").get_attribute("placeholder") == str(want))
assert "from" in by("#temperature").get_attribute("title")
''')


if __name__ == '__main__':
    unittest.main()
