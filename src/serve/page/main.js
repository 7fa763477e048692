// The chat page: talks to the server as any client would, keeps conversations in the browser only. Here everything is
// joined: what the buttons do, and what is shown after it.
import {$, icon} from './dom.js';
import * as answers from './answers.js';
import * as files from './files.js';
import * as panels from './panels.js';
import * as sidebar from './sidebar.js';
import * as store from './store.js';
import * as tree from './tree.js';
import * as view from './view.js';
import {canTint} from './guessed.js';
import {ask} from './server.js';

const kTitleChars = 60;
const kTakeUpMs = 5000;

let c = null;  // the conversation that is shown

function showRunning() {
  $('stop').hidden = !answers.isRunning(c);
}

function refresh() {
  view.show(c);
  sidebar.show(c);
  showRunning();
}

function grow() {
  const input = $('input');
  input.style.height = 'auto';
  input.style.height = `${input.scrollHeight + 2}px`;
}

function writeInput(text) {
  $('input').value = text;
  c.draft = text;
  grow();
}

function open(other) {
  if (other !== c && !c.messages.length && !c.draft) store.remove(c);  // nothing was said in it
  store.saveChat(c);
  c = other;
  store.tab.chat = c.id;
  $('system').value = c.system || '';
  panels.closeMenu();
  refresh();
  writeInput(c.draft || '');
}

function newChat() {
  open(store.addChat(c.system));
  $('input').focus();
}

// ---- asking -------------------------------------------------------------------------------------------------------------

function say(chat, parent, text) {
  const at = tree.add(chat, parent, {role: 'user', content: text});
  if (!chat.title) chat.title = text.trim().slice(0, kTitleChars);
  answers.answer(chat, at);
}

// While an answer runs what is sent waits for its end.
function send() {
  const text = $('input').value;
  if (!text.trim()) return;
  writeInput('');
  if (answers.isRunning(c) || !answers.canStart()) c.queued = c.queued ? c.queued + '\n\n' + text : text;
  else say(c, tree.last(c), text);
  store.touch(c);
  refresh();
  $('log').scrollTop = $('log').scrollHeight;
}

function takeQueued(chat) {
  const text = chat.queued;
  chat.queued = '';
  store.saveChat(chat);
  return text;
}

// What waited goes on its way, in any conversation; behind a failure it goes back to where it was written.
function sendQueued() {
  for (const chat of store.chats) {
    if (!chat.queued || answers.isRunning(chat) || !answers.canStart()) continue;
    if (chat.messages[tree.last(chat)]?.error) {
      chat.draft = [takeQueued(chat), chat.draft].filter(Boolean).join('\n\n');
      store.saveChat(chat);
      if (chat === c) writeInput(chat.draft);
    } else {
      say(chat, tree.last(chat), takeQueued(chat));
    }
  }
}

// Answers one message of this conversation anew, once nothing else of it runs.
function restart(act) {
  answers.stop(c);
  if (!answers.isRunning(c)) return act();
  const chat = c;
  setTimeout(() => chat === c && restart(act));
}

const kActs = {
  edit(at, text) {
    restart(() => {
      say(c, c.messages[at].parent, text);
      refresh();
      $('input').focus();
    });
  },
  again(at) {
    restart(() => {
      answers.answer(c, c.messages[at].parent);
      refresh();
    });
  },
  choose(at, name) {
    tree.choose(c, at);
    store.saveChat(c);
    refresh();
    view.focusSwitch(at, name);
  },
  sendNow: () => answers.stop(c),
  takeBack() {
    writeInput([takeQueued(c), $('input').value].filter(Boolean).join('\n\n'));
    refresh();
    $('input').focus();
  },
};

// ---- settings -----------------------------------------------------------------------------------------------------------

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
}

function wireSettings() {
  const {state} = store;
  if (state.theme) document.documentElement.dataset.theme = state.theme;
  $('theme').onclick = () => {
    state.theme = isDark() ? 'light' : 'dark';
    document.documentElement.dataset.theme = state.theme;
    store.saveSettings();
  };
  for (const name of answers.kSampling) {
    $(name).value = state.settings[name] ?? '';
    $(name).onchange = () => { state.settings[name] = $(name).value; store.saveSettings(); };
  }
  $('guessed').checked = canTint && Boolean(state.settings.guessed);
  $('guessed').disabled = !canTint;
  $('guessed').onchange = () => { state.settings.guessed = $('guessed').checked; store.saveSettings(); view.show(); };
  $('system').onchange = () => { c.system = $('system').value; store.saveChat(c); };
  $('key').value = state.key;
  $('key').onchange = () => { state.key = $('key').value; store.saveSettings(); showModel(); };
}

function wireFiles() {
  $('as-markdown').onclick = () => files.exportMarkdown(c);
  $('as-json').onclick = () => files.exportJson(c);
  $('all-json').onclick = files.exportAll;
  $('import').onclick = () => $('file').click();
  $('file').onchange = async () => {
    const [file] = $('file').files;
    $('file').value = '';
    if (!file) return;
    try {
      const chats = await files.importFile(file);
      if (chats.length) open(chats[0]);
      sidebar.notice(`Imported ${chats.length} conversation${chats.length === 1 ? '' : 's'}`);
    } catch (e) {
      sidebar.notice(`Nothing was imported: ${e.message}`);
    }
  };
}

// What the server's defaults are, and whose they are, stands in the empty fields.
async function showDefaults() {
  const props = await ask('props');
  const values = props.default_generation_settings?.params ?? {};
  for (const name of answers.kSampling) {
    if (values[name] === undefined) continue;
    const from = props.default_generation_from?.[name];
    $(name).placeholder = `${values[name]}`;
    $(name).title = from ? `Default ${values[name]}, from ${from}` : '';
  }
}

async function showModel() {
  let named = false;
  try {
    const {id, max_model_len: most} = (await ask('v1/models')).data[0];
    $('model').textContent = `${id} · ${most} tokens of context`;
    document.title = `${id} · Quire`;
    view.setHello(`You are talking to ${id}. Conversations stay in this browser. Another model answers when the server is ` +
                  'started with it: quire serve FILE.gguf');
    named = true;
    await showDefaults();
  } catch (e) {
    if (!named) $('model').textContent = e.status === 401 ? 'needs an API key: see Settings' : e.message;
  }
}

// ---- wiring -------------------------------------------------------------------------------------------------------------

function wireKeys() {
  $('input').onkeydown = (e) => {
    if (e.key !== 'Enter' || e.shiftKey || e.isComposing) return;
    e.preventDefault();
    send();
  };
  document.onkeydown = (e) => {
    if (e.key === 'Escape' && !panels.closeMenu() && !panels.closePanel()) answers.stop(c);
    if ((e.ctrlKey || e.metaKey) && e.key === 'k') {
      e.preventDefault();
      newChat();
    }
  };
}

function wire() {
  $('ask').onsubmit = (e) => { e.preventDefault(); send(); };
  let timer = 0;
  $('input').oninput = () => {
    c.draft = $('input').value;
    grow();
    clearTimeout(timer);
    timer = setTimeout(() => store.saveChat(c), 500);
  };
  $('stop').onclick = () => { answers.stop(c); $('input').focus(); };
  $('new').onclick = newChat;
  $('search').oninput = () => sidebar.show();
  $('menu').append(icon('menu'));
  $('menu').onclick = panels.openMenu;
  $('backdrop').onclick = panels.closeMenu;
  for (const b of document.querySelectorAll('.close, #close-menu')) b.append(icon('close'));
  $('close-menu').onclick = panels.closeMenu;
  for (const by of document.querySelectorAll('[aria-controls]')) {
    const panel = $(by.getAttribute('aria-controls'));
    by.onclick = () => panels.openPanel(panel, by);
    panel.querySelector('.close').onclick = panels.closePanel;
  }
  wireKeys();
  wireSettings();
  wireFiles();
  addEventListener('pagehide', () => { c.draft = $('input').value; store.saveChat(c); answers.leave(); });
  addEventListener('pageshow', (e) => e.persisted && location.reload());
}

function begin() {
  store.nameTab();
  store.load();
  c = store.chats.find((chat) => chat.id === store.tab.chat) ?? store.chats[0] ?? store.addChat('');
  view.setActs(kActs);
  sidebar.setActs({open, changed: () => sidebar.show(c), dropped: (gone, next) => (gone === c ? open(next ?? store.addChat(c.system)) : sidebar.show(c))});
  answers.onChange(view.grew, (chat) => {
    const now = store.chats.find((other) => other.id === chat.id);
    if (chat === c && now) c = now;
    sendQueued();
    refresh();
  });
  store.watch(answers.isOurs, (id) => {
    c = store.chats.find((chat) => chat.id === (c.id === id ? id : c.id)) ?? (c.id === id ? store.addChat('') : c);
    refresh();
  });
  wire();
  open(c);
  answers.takeUpAll();
  sendQueued();
  refresh();
  setInterval(() => { answers.takeUpAll(); showRunning(); }, kTakeUpMs);
  showModel();
}

begin();
