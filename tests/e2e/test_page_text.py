# What the chat page makes of a model's text: Markdown, tables, coloured code, formulas. Asked of the page's own modules in a
# real browser.
import unittest

from page_case import PlayedCase

HELP = r'''
def html(text):
    """What markdown() makes of it."""
    return page.execute_async_script("""
        const done = arguments[arguments.length - 1];
        import('/page/markdown.js').then((m) => {
            const box = document.createElement('div');
            box.append(m.markdown(arguments[0]));
            done(box.innerHTML);
        }, (e) => done(String(e)));""", text)
def holds(text, *parts):
    made = html(text)
    for part in parts:
        assert part in made, (part, made)
'''


class Text(PlayedCase):
    def check(self, script):
        self.play({}, HELP + script)

    def test_text_never_becomes_markup(self):
        self.check(r'''
made = html("<img src=x onerror=alert(1)> **b** `c<i>` [bad](javascript:alert(1)) [ok](https://a.b/c)\n\n```py\n<script>1</script>\n"
            "```\n\n$\\text{<img src=x>}$ $<script>$\n\n| <b>x</b> | [y](data:text/html,z) |\n|---|---|\n| <svg onload=1> | 2 |")
for bad in ("<img", "<script", "<i>", "<b>", "<svg", 'href="javascript', 'href="data'):
    assert bad not in made, (bad, made)
assert 'href="https://a.b/c"' in made and "<code>c&lt;i&gt;</code>" in made
''')

    def test_markdown(self):
        self.check(r'''
holds("**b *and* c** ~~d~~ `e` __f__ snake_case_name 2 * 3 * 4 \\*g\\*", "<strong>b <em>and</em> c</strong>", "<s>d</s>",
      "<code>e</code>", "<strong>f</strong>", "snake_case_name 2 * 3 * 4 *g*")
holds("see https://a.b/c. And [x](https://a.b/d_(e))", 'href="https://a.b/c"', 'href="https://a.b/d_(e)"')
holds("# H\n> q\n> > r\n\n---\nlast", "<h3>H</h3>", "<blockquote><p>q</p><blockquote><p>r</p></blockquote></blockquote>", "<hr>")
holds("1. one\n   - a\n   - b\n2. two\n\nend", "<ol><li>one<ul><li>a</li><li>b</li></ul></li><li>two</li></ol><p>end</p>")
holds("3. three\n4. four", '<ol start="3">')
holds("- a\n\n  ```\n  x\n    y\n  ```\n- b", "x\n  y</code>", "<li>b</li>")
holds("| a | b |\n|:--|--:|\n| 1 \\| 2 | **3** |\n| 4 |", '<th scope="col">a</th>', '<th class="right" scope="col">b</th>',
      "<td>1 | 2</td>", '<td class="right"><strong>3</strong></td>', "<td>4</td>")
holds("a | b\nno table", "<p>a | b\nno table</p>")
''')

    def test_code_is_coloured_and_stays_as_it_was(self):
        self.check(r'''
code = 'def f(x):\n    """doc"""\n    return f"{x}" + str(42)  # not "text"\n'
made = html("```python\n" + code + "```")
for part in ('<span class="c-keyword">def</span>', '<span class="c-call">f</span>', '<span class="c-string">"""doc"""</span>',
             '<span class="c-number">42</span>', '<span class="c-comment"># not "text"</span>', "<span>python</span>"):
    assert part in made, (part, made)
for language in ("python", "cpp", "js", "rust", "go", "sh", "sql", "json", "yaml", "html", "css", "kotlin", "ruby", "php", "brainfuck", ""):
    text = code + "'open /* <a href=\"x\"> -- # // `${y}` \\"
    same = page.execute_async_script("""
        const done = arguments[arguments.length - 1];
        import('/page/highlight.js').then((m) => done(m.highlight(arguments[0], arguments[1]).textContent));""", text, language)
    assert same == text, (language, same)
holds("```sql\nSELECT 1 -- x\n```", '<span class="c-keyword">SELECT</span>', '<span class="c-comment">-- x</span>')
holds("```nothing\nif <b>\n```", "if &lt;b&gt;</code>")
''')

    def test_formulas(self):
        self.check(r'''
holds("It is $e^{i\\pi}+1=0$.", "<msup><mi>e</mi><mrow><mi>i</mi><mi>π</mi></mrow></msup>")
holds("\\(x_1^2\\)", "<msubsup><mi>x</mi><mn>1</mn><mn>2</mn></msubsup>")
holds("$$\\sum_{i=1}^n \\frac{1}{i}$$", 'display="block"', "<munderover>", "<mfrac><mn>1</mn><mi>i</mi></mfrac>")
holds("\\[\n\\begin{pmatrix} a & b \\\\ c & d \\end{pmatrix}\n\\]", "<mtable>", "<mtr>", "(", "<mi>d</mi>")
holds("$$f = \\begin{cases} 1 & x > 0 \\\\ 0 & \\text{else} \\end{cases}$$", "else</mtext>")
holds("$$\\begin{align} a &= b \\\\ &= c \\end{align}$$", 'class="left"', 'class="right"')
holds("$\\sqrt[3]{x} \\in \\mathbb{R}$", "<mroot><mi>x</mi><mn>3</mn></mroot>", "ℝ")
holds("$\\left( \\frac{a}{b} \\right)^2$", '<mo fence="true" stretchy="true">(</mo>')
holds("$f'(x)$ and $\\hat{x}$ and $\\vec v$", "′", 'accent="true"')
holds("It costs $5 and then $6.", "It costs $5 and then $6.")
for broken in ("\\frac{1}{", "\\nothing x", "}", "\\begin{pmatrix} a", "\\right)", "\\left( x", "x^", "^2_", "\\begin{constructor}",
               "\\sqrt[", "{" * 500 + "}" * 500, "\\text{", "\\end{pmatrix}"):
    made = html("$$" + broken + "$$")  # as it was written; or, where it can be read after all, as a formula
    assert 'class="tex"' in made or "<math" in made, (broken[:20], made)
    assert "Error" not in made, made
''')

    def test_long_and_hostile_text_is_done_in_time(self):
        self.check(r'''
n = 20000
for text in ("[" * n, "*" * n, "**a " * n, "_a " * n, "`" * n, "$" * n, "$a " * n, "> " * n, "- " * n, "| " * n + "\n" + "|-" * n,
             "#" * n, "# " + " #" * n, "~~" * n, "```" * n, "\\(" * n, "\\[" * n, "![" * n, "https://" * n, "-" * n + "x", "- - " * n + "x",
             "\n" * n, " " * n + "x", "`a``" * n, "$$" + "{" * n, "$$" + "\\frac" * n + "$$", "(" * n + "](https://a",
             "[a](https://" + "(" * n):
    started = time.monotonic()
    made = html(text)
    assert "Error" not in made[:50], (text[:10], made[:200])
    assert time.monotonic() - started < 30, (text[:10], time.monotonic() - started)
for language in ("python", "js", "html", "sql", "sh", "c"):
    for text in ('"' * n, "'" * n, "/*" * n, "<!--" * n, "`" * n, "1" * n, '"""' * n, "\\" * n, "a" * n, "$" * n):
        started = time.monotonic()
        html("~~~" + language + "\n" + text + "\n~~~")
        assert time.monotonic() - started < 30, (language, text[:10])
''')

    def test_a_growing_answer_keeps_its_finished_blocks_and_ends_as_it_would_alone(self):
        self.check(r'''
text = ("# T\n\nOne **two**\nthree\n\n- a\n- b\n\n  c\n\n```py\nx = 1\n\ny = 2\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n$$\nx\n- y\n$$\n\n> q\n"
        "\nlast\nline")
result = page.execute_async_script("""
    const done = arguments[arguments.length - 1];
    const text = arguments[0];
    import('/page/markdown.js').then((m) => {
        const box = document.createElement('div'), alone = document.createElement('div');
        let first;
        for (let n = 1; n <= text.length; ++n) {
            m.show(box, text.slice(0, n));
            alone.replaceChildren(m.markdown(text.slice(0, n)));
            if (box.innerHTML !== alone.innerHTML) return done([n, box.innerHTML, alone.innerHTML]);
            if (n === 30) first = box.firstChild;
        }
        done(first === box.firstChild);
    }, (e) => done(String(e)));""", text)
assert result is True, result
''')

    def test_what_was_guessed_is_tinted(self):
        # Behind a thought of ten characters, over two chunks, inside marks, in code, behind a formula, past a surrogate pair.
        text = 'A **bold word** 😀 end\n\n$x^2$ then\n\n```py\nif a < b:\n    go()\n```\n\n| one | two |\n|---|---|\n| 1 | 2 |\n'
        places = [(10 + text.index(t), len(t)) for t in ('bold', ' word** 😀', 'end', 'then', 'if a', 'go()', 'two ')]
        cut = text.index('end') + 1
        steps = [('guessed', '', [(3, 4)], 10), ('guessed', text[:cut], places[:2], 10 + cut),
                 ('guessed', text[cut:], places[2:], 10 + len(text))]
        self.play({'guess': steps}, r'''
def tinted():
    return "|".join(js("""return [...(CSS.highlights.get('guessed') ?? [])].map((s) => {
        const range = new Range();
        range.setStart(s.startContainer, s.startOffset);
        range.setEnd(s.endContainer, s.endOffset);
        return range.toString();
    })"""))
def tick():
    click("#show-settings")
    click("#guessed")
    click("#settings .close")
def colour(theme):
    return js("document.documentElement.dataset.theme = arguments[0];"
              "return getComputedStyle(document.querySelector('#log .text'), '::highlight(guessed)').backgroundColor", theme)
ask("guess")
done()
assert tinted() == "" and "guessed" not in by("#log .figures").text
tick()
want = "bold| word| 😀|nd|then|if| a|go|()|two"
assert tinted() == want, tinted()
assert "7 guessed ahead" in by("#log .figures").text
page.refresh()
wait(lambda: tinted() == want)
assert by("#log .assistant strong").get_attribute("innerHTML") == "bold word"  # nothing was put around it
assert len({colour("light"), colour("dark"), "rgba(0, 0, 0, 0)"}) == 3, colour("dark")
tick()
assert tinted() == ""
''')


if __name__ == '__main__':
    unittest.main()
