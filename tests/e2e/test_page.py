# The chat page in a real browser (headless Chromium through its WebDriver).
import shutil
import subprocess
import unittest

from client_packages import PYTHON, ClientCase
from quire_server import eventually

HEAD = '''
import json
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

options = webdriver.ChromeOptions()
for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1100,800"):
    options.add_argument(argument)
options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
page = webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))
by = lambda selector: page.find_element(By.CSS_SELECTOR, selector)
every = lambda selector: page.find_elements(By.CSS_SELECTOR, selector)
wait = lambda condition: WebDriverWait(page, 30, 0.05, [StaleElementReferenceException]).until(lambda _: condition())
shown = lambda selector: by(selector).is_displayed()
def ask(text):
    by("#input").send_keys(text + Keys.ENTER)
def answered():
    wait(lambda: shown("#send") and every("#log .assistant .about"))
def set_value(selector, value):
    field = by(selector)
    field.clear()
    field.send_keys(str(value) + Keys.TAB)
def open_settings():
    if not shown("#settings"):
        by("#show-settings").click()
try:
    page.get("{url}/")
    wait(lambda: "context" in by("#model").text)
'''
TAIL = '''
    bad = [e for e in page.get_log("browser") if e["level"] in ("SEVERE", "WARNING")]
    assert not bad, bad
finally:
    page.quit()
'''


class Page(ClientCase):
    wanted = 'selenium>=4.20'

    @classmethod
    def setUpClass(cls):
        if not shutil.which('chromium') or not shutil.which('chromedriver'):
            raise unittest.SkipTest('no browser: chromium and chromium-driver are not installed')
        super().setUpClass()

    def run_page(self, script):
        body = '\n'.join('    ' + line for line in script.strip().split('\n'))
        done = subprocess.run([PYTHON, '-c', HEAD.replace('{url}', self.server.url) + body + TAIL],
                              capture_output=True, text=True, timeout=180)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_conversation(self):
        self.run_page('''
open_settings()
set_value("#max_tokens", 24)
set_value("#temperature", 0)
ask("Once upon a time")
answered()
first = by("#log .assistant .text").text
assert first and first != "…", first
figures = by("#figures").text
assert "tokens/s" in figures and "cached" in figures, figures
by("#log .assistant .about button:nth-child(2)").click()  # regenerate: greedy, so the same
wait(lambda: shown("#stop") or every("#log .assistant .about"))
answered()
assert by("#log .assistant .text").text == first
ask("And then?")
wait(lambda: len(every("#log .user")) == 2)
answered()
wait(lambda: len(every("#log .assistant .about")) == 2)
page.refresh()  # kept in the browser
wait(lambda: len(every("#log article")) == 4)
assert by("#chats .current .open").text == "Once upon a time"
by("#log .user .about button").click()  # edit the first message: what followed goes
assert by("#input").get_attribute("value") == "Once upon a time"
assert not every("#log .user")
by("#input").clear()
ask("The cat")
answered()
by("#new").click()
assert len(every("#chats li")) == 2 and every("#log .hello")
''')

    def test_stop_keeps_what_came(self):
        before = self.server.metric('quire_requests_cancelled_total')
        self.run_page('''
page.execute_script("""
    // An answer that does not end by itself, stopped in the page as its text comes: a driver's click may be too late.
    const send = window.fetch;
    window.fetch = (url, options) => send(url, options && options.body
        ? {...options, body: JSON.stringify({...JSON.parse(options.body), ignore_eos: true, max_tokens: 6000})} : options);
    const seen = new MutationObserver(() => {
        const text = document.querySelector('#log .assistant .text');
        if (!text || text.textContent.length <= 20) return;
        seen.disconnect();
        document.getElementById('stop').click();
    });
    seen.observe(document.getElementById('log'), {childList: true, characterData: true, subtree: true});""")
ask("Tell me a long story")
answered()
assert len(by("#log .assistant .text").text) > 20
assert not every("#log .error")
''')
        self.assertTrue(eventually(lambda: self.server.metric('quire_requests_cancelled_total') > before))

    def test_an_error_is_shown_and_the_engine_view_counts(self):
        self.run_page('''
open_settings()
page.execute_script("document.getElementById('temperature').max = ''")
set_value("#temperature", 200)
ask("x")
wait(lambda: every("#log .error"))
assert "temperature" in by("#log .error").text, by("#log .error").text
by("#show-engine").click()
wait(lambda: "blocks in use" in by("#engine").text)
page.get_log("browser")  # the refused request is logged by the browser itself
''')

    def test_text_never_becomes_markup_and_nothing_leaves_the_server(self):
        self.run_page(r'''
html = page.execute_script("""
    const box = document.createElement('div');
    box.append(markdown(arguments[0]));
    return box.innerHTML;""", "<img src=x onerror=alert(1)> **b** `c<i>` [bad](javascript:alert(1)) [ok](https://a.b/c)\n\n"
    "```py\n<script>1</script>\n```\n- one\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n# H\n> q")
for bad in ("<img", "<script", "<i>", 'href="javascript'):
    assert bad not in html, html
for good in ("<strong>b</strong>", "<code>c&lt;i&gt;</code>", 'href="https://a.b/c"', "<li>one</li>", "<td>1</td>", "<h3>H</h3>",
             "<blockquote>q</blockquote>", "&lt;script&gt;1"):
    assert good in html, (good, html)
urls = [json.loads(e["message"])["message"] for e in page.get_log("performance")]
urls = [m["params"]["request"]["url"] for m in urls if m["method"] == "Network.requestWillBeSent"]
assert urls and all(u.startswith(("{url}", "data:", "blob:")) for u in urls), urls
'''.replace('{url}', self.server.url))

    def test_a_narrow_screen_has_a_menu(self):
        self.run_page('''
page.set_window_size(500, 800)
assert not shown("#new")
by("#menu").click()
wait(lambda: shown("#new"))
by("#new").click()
wait(lambda: not shown("#new"))
assert page.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
''')


if __name__ == '__main__':
    unittest.main()
