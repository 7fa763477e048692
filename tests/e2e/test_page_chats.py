# Conversations on the chat page against a played server, which pauses and breaks where a test says so: thinking, streams
# that go on, branches, delete with undo, what is sent while an answer runs, search, rename, export and import.
import os
import tempfile
import unittest

from page_case import PlayedCase

SLOW = {'slow': [('text', 'One '), 'gate', ('text', 'two '), 'gate', ('text', 'three.')]}


class Chats(PlayedCase):
    def test_thinking_is_folded_and_not_sent_back(self):
        played = self.play({'think': [('think', 'Let me **see**.'), 'gate', ('think', ' So.'), ('text', 'It is'), 'gate',
                                      ('text', ' four.')]}, '''
ask("think")
wait(lambda: texts(".thinking > .text") == ["Let me see."])
assert by(".thinking").get_attribute("open") and by(".thinking summary").text == "Thinking…"
release()
wait(lambda: texts("#log .assistant > .text") == ["It is"])
wait(lambda: not by(".thinking").get_attribute("open"))
assert by(".thinking summary").text.startswith("Thought for ")
release()
done()
assert texts("#log .assistant > .text") == ["It is four."]
click(".thinking summary")
wait(lambda: shown(".thinking > .text"))
assert texts(".thinking > .text strong") == ["see"]
page.refresh()
wait(lambda: texts(".thinking > .text") == ["Let me see. So."])
assert not shown(".thinking > .text")
ask("more")
wait(lambda: len(every("#log .assistant .again")) == 2)
''')
        self.assertEqual(played.asked[1], [{'role': 'user', 'content': 'think'}, {'role': 'assistant', 'content': 'It is four.'},
                                           {'role': 'user', 'content': 'more'}])

    def test_an_answer_of_thoughts_alone_is_kept(self):
        self.play({'think': [('think', 'Only thoughts.')]}, '''
ask("think")
done()
page.refresh()
wait(lambda: texts(".thinking > .text") == ["Only thoughts."])
''')

    def test_a_reload_and_a_broken_connection_go_on(self):
        played = self.play({'slow': [('text', 'One '), 'gate', ('text', 'two '), 'cut', ('text', 'three '), 'gate',
                                     ('text', 'four.')]}, '''
ask("slow")
wait(lambda: texts("#log .assistant > .text") == ["One "])
page.refresh()
wait(lambda: texts("#log .assistant > .text") == ["One "] and shown("#stop"))
release()
wait(lambda: texts("#log .assistant > .text") == ["One two three "])
release()
done()
assert texts("#log .assistant > .text") == ["One two three four."]
assert "tokens/s" not in by("#log .figures").text or "20 tokens" in by("#log .figures").text
assert "75 % of 40 cached" in by("#log .figures").text
''')
        self.assertEqual(len(played.asked), 1)

    def test_a_stream_that_is_gone_says_so_and_keeps_what_came(self):
        self.play(SLOW, '''
ask("slow")
wait(lambda: texts("#log .assistant > .text") == ["One "])
page.get("about:blank")
urllib.request.urlopen(urllib.request.Request(URL + "/forget", method="POST")).read()
load()
wait(lambda: every("#log .error"))
assert by("#log .error").text == "the rest of the answer is gone: no such stream"
assert texts("#log .assistant > .text") == ["One "]
click("#log .again")
wait(lambda: "2 of 2" in by("#log .assistant .about").text or shown("#stop"))
page.get_log("browser")
''')

    def test_another_conversation_meanwhile(self):
        played = self.play(SLOW, '''
ask("slow")
wait(lambda: texts("#log .assistant > .text") == ["One "])
click("#new")  # begins another; the first goes on
wait(lambda: every("#log .hello"))
assert not shown("#stop") and every("#chats .running")
ask("quick")
done()
assert texts("#log .assistant > .text") == ["Yes."]
release()
release()
wait(lambda: not every("#chats .running"))
by("#chats li:not(.current) .open").click()
wait(lambda: texts("#log .assistant > .text") == ["One two three."])
''')
        self.assertEqual([m[-1]['content'] for m in played.asked], ['slow', 'quick'])

    def test_enter_while_an_answer_runs(self):
        played = self.play(SLOW, '''
ask("slow")
wait(lambda: texts("#log .assistant > .text") == ["One "])
ask("next")
ask("and more")
assert texts(".queued > .text") == ["next\\n\\nand more"]
by(".queued button:nth-of-type(2)").click()  # take back
assert by("#input").get_attribute("value") == "next\\n\\nand more" and not every(".queued")
by("#input").send_keys(Keys.ENTER)
page.refresh()  # it waits through a reload
wait(lambda: every(".queued") and shown("#stop"))
release()
release()
wait(lambda: texts("#log .assistant > .text") == ["One two three.", "Yes."])
done()
ask("slow")
wait(lambda: shown("#stop"))
ask("now")
by(".queued button:nth-of-type(1)").click()  # send now: stops the answer
wait(lambda: len(every("#log .assistant")) == 4)
done()
''')
        self.assertEqual([m[-1]['content'] for m in played.asked], ['slow', 'next\n\nand more', 'slow', 'now'])
        self.assertEqual(played.ended, ['s2'])

    def test_edit_keeps_branches_and_can_be_cancelled(self):
        played = self.play({'a': [('text', 'A.')], 'b': [('text', 'B.')], 'c': [('text', 'C.')]}, '''
ask("a")
done()
ask("b")
wait(lambda: len(every("#log .assistant .again")) == 2)
click("#log .edit")
field = by(".editor textarea")
assert field.get_attribute("value") == "a"
field.send_keys("xyz" + Keys.ESCAPE)
assert texts("#log .text") == ["a", "A.", "b", "B."]
click("#log .edit")
by(".editor .about button:last-child").click()  # Cancel
assert texts("#log .text") == ["a", "A.", "b", "B."]
click("#log .edit")
by(".editor textarea").clear()
by(".editor textarea").send_keys("c" + Keys.ENTER)
wait(lambda: texts("#log .text") == ["c", "C."])
done()
assert "2 of 2" in by("#log .user .about").text
named("Earlier version").click()
assert texts("#log .text") == ["a", "A.", "b", "B."]
page.refresh()
wait(lambda: texts("#log .text") == ["a", "A.", "b", "B."])
named("Later version").click()
assert texts("#log .text") == ["c", "C."]
assert js("return document.activeElement.ariaLabel") == "Earlier version"
''')
        self.assertEqual(played.asked[-1], [{'role': 'user', 'content': 'c'}])

    def test_delete_can_be_undone(self):
        self.play(SLOW, '''
ask("first")
done()
click("#new")
ask("slow")
wait(lambda: texts("#log .assistant > .text") == ["One "])
named("Delete slow").click()
wait(lambda: texts("#chats .open") == ["first"] and texts("#log .text") == ["first", "Yes."])
assert "Deleted" in by("#notice").text
by("#notice button").click()
wait(lambda: texts("#log .text") == ["slow", "One "])
page.refresh()
wait(lambda: texts("#log .text") == ["slow", "One "])
assert sorted(texts("#chats .open")) == ["first", "slow"]
named("Delete slow").click()
wait(lambda: texts("#chats .open") == ["first"])
page.refresh()
wait(lambda: texts("#chats .open") == ["first"])
named("Delete first").click()
wait(lambda: every("#log .hello"))
''')

    def test_rename_and_search(self):
        self.play({}, '''
for text in ("about foxes", "about trees", "numbers"):
    click("#new")
    ask(text)
    done()
named("Rename numbers").click()
by("#chats .rename").send_keys(Keys.CONTROL + "a" + Keys.NULL + "Primes" + Keys.ENTER)
wait(lambda: texts("#chats .open")[0] == "Primes")
named("Rename Primes").click()
by("#chats .rename").send_keys("xyz" + Keys.ESCAPE)
wait(lambda: texts("#chats .open") == ["Primes", "about trees", "about foxes"])
page.refresh()
wait(lambda: texts("#chats .open") == ["Primes", "about trees", "about foxes"])
by("#search").send_keys("TREES about")
assert texts("#chats .open") == ["about trees"] and by("#found").text == "1 of 3 found"
by("#search").clear()
by("#search").send_keys("numbers")  # what was said counts, not the name alone
assert texts("#chats .open") == ["Primes"]
by("#search").clear()
by("#search").send_keys("yes nothing")
assert texts("#chats .open") == []
''')

    def test_export_and_import(self):
        with tempfile.TemporaryDirectory() as folder:
            self.play({'a': [('think', 'Hm.'), ('text', 'A **b**.')]}, r'''
def file(name):
    path = os.path.join("FOLDER", name)
    wait(lambda: os.path.exists(path) and os.path.getsize(path))
    with open(path, encoding="utf-8") as f:
        return f.read()
def bring(text):
    with open("FOLDER/in.json", "w", encoding="utf-8") as f:
        f.write(text)
    by("#file").send_keys("FOLDER/in.json")
settings(system="Be brief.")
ask("a")
done()
click("#log .again")
wait(lambda: "2 of 2" in by("#log .assistant .about").text)
done()
click("#show-files")
click("#as-markdown")
assert file("a.md") == "# a\n\n**system**\n\nBe brief.\n\n**user**\n\na\n\n**assistant**\n\nA **b**.\n"
click("#all-json")
whole = file("conversations.json")
click("#as-json")
assert json.loads(file("a.json")) == json.loads(whole)
click("#files .close")
named("Delete a").click()
bring(whole)
wait(lambda: "Imported 1 conversation" in by("#notice").text)
assert texts("#log .text")[0] == "a" and "2 of 2" in by("#log .assistant .about").text
assert texts(".thinking > .text") == ["Hm."] and by("#system").get_attribute("value") == "Be brief."
for text, why in (("{", "no JSON"), ("{}", "not written by this page"), (whole.replace('"user"', '"root"'), "conversations[0].messages[0].role is"),
                  (whole.replace('"parent": 0', '"parent": 7'), "messages[1].parent is 7"), ('{"quire": 1, "conversations": [{"messages": 3}]}', "messages is no list")):
    bring(text)
    wait(lambda: "Nothing was imported" in by("#notice").text and why in by("#notice").text)
assert len(every("#chats .open")) == 1
'''.replace('FOLDER', folder), downloads=folder)

    def test_what_earlier_pages_kept_is_taken_over(self):
        self.play({}, '''
js("""localStorage.clear(); localStorage.setItem('quire', JSON.stringify({chats: [
    {title: 'new', system: 'S', messages: [{role: 'user', content: 'u'}, {role: 'assistant', content: 'v', meta: {speed: 5}}]},
    {title: 'old', system: '', messages: []}, {title: 'older', system: '', messages: [{role: 'user', content: 'w'}]}],
    current: 0, settings: {seed: '3'}, key: '', theme: 'dark'}))""")
page.refresh()
wait(lambda: texts("#log .text") == ["u", "v"])
assert texts("#chats .open")[0] == "new" and "older" in texts("#chats .open")
assert by("#seed").get_attribute("value") == "3" and by("#system").get_attribute("value") == "S"
page.refresh()
wait(lambda: texts("#log .text") == ["u", "v"])
''')

    def test_two_tabs(self):
        self.play(SLOW, '''
ask("slow")
wait(lambda: texts("#log .assistant > .text") == ["One "])
first = page.current_window_handle
page.switch_to.new_window("tab")
load()
wait(lambda: texts("#log .text")[:1] == ["slow"])
assert not shown("#stop")  # the first tab reads it
page.switch_to.window(first)
release()
wait(lambda: texts("#log .assistant > .text") == ["One two "])
release()
done()
page.switch_to.window(page.window_handles[1])
wait(lambda: texts("#log .assistant > .text") == ["One two three."])  # and the second sees what it wrote
''')


if __name__ == '__main__':
    unittest.main()
