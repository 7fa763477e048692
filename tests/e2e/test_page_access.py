# Whether everybody can use the chat page: axe's rules for WCAG A and AA in every state of the page, sizes of what is
# tapped, panels that leave the conversation where it is, and the menu of a narrow screen.
import os
import subprocess
import unittest

from client_packages import PYTHON, missing
from page_case import PlayedCase

ANSWERS = {
    'all': [('think', 'Let me *see*.\n\n- a `b`'), ('text', '''# Head

Text with **bold**, `code`, [a link](https://a.b/c) and $x^2$.

1. one
   - two

> quote

```python
@wraps  # comment
def f(x): return "text" + str(42)
```

| a | b |
|---|--:|
| 1 | 2 |

$$\\sum_{i=1}^n \\frac{1}{i}$$
''')],
    'slow': [('think', 'Hm.'), ('text', 'One '), 'gate', ('text', 'two.')],
    'wrong': [('text', 'No'), ('error', 'it went wrong')],
}

STATES = '''
def visit(check):
    """Calls check(name) in each state of the page."""
    check("empty")
    ask("all")
    done()
    check("answer")
    click(".thinking summary")
    wait(lambda: shown(".thinking .text"))
    check("thoughts")
    click("#log .again")
    wait(lambda: every(".versions"))
    done()
    click("#log .edit")
    check("edit and versions")
    click(".editor .about button:last-child")
    ask("wrong")
    wait(lambda: every("#log .error"))
    check("error")
    for name in ("show-engine", "show-settings", "show-files"):
        if name != "show-files":
            menu()
        click("#" + name)
        check(name)
        click(f"#{name[5:]} .close")
    ask("slow")
    wait(lambda: "One " in texts("#log .assistant > .text"))
    ask("later")
    check("in mid-stream with a message that waits")
    menu()
    click("#new")
    menu()
    wait(lambda: every("#chats .running"))
    check("another runs")
    js("document.querySelector('#chats .running .tool').click()")
    wait(lambda: every("#chats .rename"))
    check("rename")
    by("#chats .rename").send_keys(Keys.ESCAPE)
    by("#search").send_keys("slow")
    js("document.querySelector('#chats .drop').click()")
    wait(lambda: "Deleted" in by("#notice").text)
    check("search and deleted")
def menu():
    if shown("#menu") and not shown("#side"):
        click("#menu")
'''


class Access(PlayedCase):
    def visit(self, check, width=1100, theme='light'):
        self.play(ANSWERS, f'''{check}
{STATES}
page.set_window_size({width}, 800)
js("document.documentElement.dataset.theme = '{theme}'")
visit(check)
page.get_log("browser")  # an engine's numbers that a played server has not
''')

    def test_axe_finds_nothing(self):
        reason = missing('axe-playwright-python>=0.1.4', 'axe_playwright_python', ['--no-deps'])  # for the one file in it
        if reason:
            self.skipTest('no axe: ' + reason)
        found = subprocess.run([PYTHON, '-c', 'import importlib.util as u; print(u.find_spec("axe_playwright_python").origin)'],
                               capture_output=True, text=True, check=True).stdout.strip()
        axe = os.path.join(os.path.dirname(found), 'axe.min.js')
        check = f'''
with open({axe!r}, encoding="utf-8") as f:
    axe = f.read()
def check(name):
    found = page.execute_async_script(axe + """
        const done = arguments[arguments.length - 1];
        axe.run(document, {{runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}}).then(
            (r) => done({{n: r.passes.length, bad: r.violations.map((v) => [v.id, v.help, v.nodes.map((n) => n.html + n.failureSummary)])}}));""")
    assert found["n"] > 10, found
    assert not found["bad"], (name, found["bad"])
'''
        for width, theme in ((1100, 'light'), (420, 'dark')):
            with self.subTest(width=width, theme=theme):
                self.visit(check, width, theme)

    def test_what_is_tapped_is_large_enough_and_nothing_is_wider_than_the_screen(self):
        check = '''
def check(name):
    small = js("""
        return [...document.querySelectorAll('button, input, textarea, summary, select')].filter((e) => e.checkVisibility()
            && getComputedStyle(e).clipPath === 'none').map((e) => [e.outerHTML, e.getBoundingClientRect()])
            .filter(([, r]) => r.width < 44 || r.height < 44)""")
    assert not small, (name, small)
    assert js("return document.documentElement.scrollWidth <= innerWidth && document.body.scrollHeight <= innerHeight"), name
'''
        for width in (1100, 420):
            with self.subTest(width=width):
                self.visit(check, width)

    def test_panels_leave_the_conversation_where_it_is(self):
        self.play(ANSWERS, '''
ask("all")
done()
where = lambda: js("""return ['log', 'ask', 'input'].map((id) => JSON.stringify(document.getElementById(id).getBoundingClientRect()))
    + document.getElementById('log').scrollTop""")
before = where()
for name in ("engine", "settings", "files"):
    click("#show-" + name)
    wait(lambda: shown("#" + name))
    assert where() == before, name
    assert by("#show-" + name).get_attribute("aria-expanded") == "true"
click("#show-settings")  # one at a time
assert shown("#settings") and not shown("#files")
by("#settings .close").send_keys(Keys.ESCAPE)
assert not shown("#settings") and js("return document.activeElement.id") == "show-settings"
page.get_log("browser")
''')

    def test_a_narrow_screen_has_a_menu_with_a_backdrop(self):
        self.play(ANSWERS, '''
page.set_window_size(420, 800)
wait(lambda: shown("#menu") and not shown("#side"))
click("#menu")
wait(lambda: shown("#side") and shown("#backdrop"))
assert js("return document.getElementById('main').inert && document.activeElement.id") == "close-menu"
js("""const r = document.getElementById('backdrop').getBoundingClientRect();
    document.elementFromPoint(r.right - 20, r.height / 2).click()""")
wait(lambda: not shown("#side") and not shown("#backdrop"))
assert js("return document.activeElement.id") == "menu"
click("#menu")
by("#close-menu").send_keys(Keys.ESCAPE)
wait(lambda: not shown("#side"))
click("#menu")
click("#new")
wait(lambda: not shown("#side"))
assert not js("return document.getElementById('main').inert")
ask("x")
done()
''')

    def test_all_can_be_done_with_the_keyboard(self):
        self.play(ANSWERS, '''
ask("all")
done()
click("#new")
ask("x")
done()
js("document.body.tabIndex = -1; document.body.focus(); document.body.removeAttribute('tabindex')")
reached = []
for _ in range(40):
    page.switch_to.active_element.send_keys(Keys.TAB)
    name = js("const e = document.activeElement; return e.id || e.ariaLabel || e.textContent")
    reached.append(name)
for name in ("new", "search", "x", "Rename x", "Delete x", "all", "Delete all", "show-engine", "show-settings", "theme", "show-files", "log",
             "Edit", "Regenerate", "input", "send"):
    assert name in reached, (name, reached)
by("#input").send_keys("one" + Keys.SHIFT + Keys.ENTER + Keys.NULL + "two" + Keys.ENTER)
wait(lambda: "one\\ntwo" in texts("#log .user > .text"))
by("#input").send_keys(Keys.CONTROL + "k")
wait(lambda: every("#log .hello"))
''')


if __name__ == '__main__':
    unittest.main()
