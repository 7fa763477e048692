// The chat page: talks to /v1/chat/completions as any client would, keeps conversations in the browser only. Text from
// the model becomes DOM nodes, never markup.
'use strict';

const $ = (id) => document.getElementById(id);
const kSettings = ['temperature', 'top_p', 'top_k', 'min_p', 'max_tokens', 'seed'];
const kMostChats = 200;
const kStore = 'quire';
const kReadableMs = 50;

let state = {chats: [], current: 0, settings: {}, key: '', theme: ''};
let running = null;  // the AbortController of the answer under way
let modelName = '';

// ---- what is kept ---------------------------------------------------------------------------------------------------

function load() {
  try {
    state = {...state, ...JSON.parse(localStorage.getItem(kStore) || '{}')};
  } catch {
    // unreadable: begin anew
  }
  if (!state.chats.length) newChat();
}

function save() {
  state.chats = state.chats.slice(0, kMostChats);
  state.current = Math.min(state.current, state.chats.length - 1);
  for (;;) {
    try {
      localStorage.setItem(kStore, JSON.stringify(state));
      return;
    } catch {
      if (state.chats.length < 2) return;  // no room at all: this conversation is not kept
      state.chats.pop();                   // the oldest makes room
      state.current = Math.min(state.current, state.chats.length - 1);
    }
  }
}

const chat = () => state.chats[state.current];

function newChat() {
  if (state.chats.length && !chat().messages.length) return;
  state.chats.unshift({title: '', system: state.chats.length ? chat().system : '', messages: []});
  state.current = 0;
}

// ---- Markdown, the part that chat answers use -------------------------------------------------------------------------

function element(tag, text, className) {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  if (className) e.className = className;
  return e;
}

const kInline = /`([^`\n]+)`|\*\*([^*\n]+)\*\*|\*([^*\s][^*\n]*)\*|\[([^\]\n]+)\]\((https?:\/\/[^\s)]+)\)/g;

function addInline(parent, text) {
  let at = 0;
  for (const m of text.matchAll(kInline)) {
    parent.append(text.slice(at, m.index));
    at = m.index + m[0].length;
    if (m[1] !== undefined) parent.append(element('code', m[1]));
    else if (m[2] !== undefined) parent.append(element('strong', m[2]));
    else if (m[3] !== undefined) parent.append(element('em', m[3]));
    else {
      const a = element('a', m[4]);
      a.href = m[5];
      a.rel = 'noopener noreferrer';
      a.target = '_blank';
      parent.append(a);
    }
  }
  parent.append(text.slice(at));
}

function codeBlock(lines) {
  const pre = element('pre');
  pre.append(element('code', lines.join('\n')));
  const copy = element('button', 'Copy');
  copy.onclick = () => copyText(lines.join('\n'), copy);
  pre.append(copy);
  return pre;
}

function tableOf(lines) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, '').split('|').map((c) => c.trim());
  const table = element('table');
  lines.forEach((line, i) => {
    if (i === 1) return;
    const row = table.insertRow();
    for (const cell of cells(line)) {
      const td = element(i === 0 ? 'th' : 'td');
      addInline(td, cell);
      row.append(td);
    }
  });
  return table;
}

// Kinds of blocks by their first line; each takes its lines off the front and gives an element.
const kItem = /^\s*(?:[-*+]|(\d+)[.)])\s+/;
const isBreak = (line) => !line.trim() || /^(```|#{1,6}\s|>\s?)/.test(line) || kItem.test(line);

function takeBlock(lines) {
  const first = lines[0];
  if (first.startsWith('```')) {
    let end = lines.findIndex((line, i) => i > 0 && line.startsWith('```'));
    if (end < 0) end = lines.length;
    return codeBlock(lines.splice(0, end + 1).slice(1, end));
  }
  const heading = /^(#{1,6})\s+(.*)/.exec(first);
  if (heading) {
    lines.shift();
    const h = element('h' + Math.min(6, heading[1].length + 2));
    addInline(h, heading[2]);
    return h;
  }
  if (/^>\s?/.test(first)) {
    const quote = element('blockquote');
    const inner = [];
    while (lines.length && /^>\s?/.test(lines[0])) inner.push(lines.shift().replace(/^>\s?/, ''));
    addInline(quote, inner.join('\n'));
    return quote;
  }
  if (kItem.test(first)) {
    const ordered = kItem.exec(first)[1];
    const list = element(ordered ? 'ol' : 'ul');
    if (ordered) list.start = Number(ordered);
    while (lines.length && kItem.test(lines[0])) {
      const item = element('li');
      let text = lines.shift().replace(kItem, '');
      while (lines.length && !isBreak(lines[0])) text += '\n' + lines.shift().trim();
      addInline(item, text);
      list.append(item);
    }
    return list;
  }
  if (first.includes('|') && lines.length > 1 && /^[\s|:-]*-[\s|:-]*$/.test(lines[1]) && lines[1].includes('|')) {
    const rows = [];
    while (lines.length && lines[0].includes('|')) rows.push(lines.shift());
    return tableOf(rows);
  }
  const paragraph = element('p');
  const inner = [lines.shift()];
  while (lines.length && !isBreak(lines[0])) inner.push(lines.shift());
  addInline(paragraph, inner.join('\n'));
  return paragraph;
}

function markdown(text) {
  const out = document.createDocumentFragment();
  const lines = text.split('\n');
  while (lines.length) {
    if (!lines[0].trim()) lines.shift();
    else out.append(takeBlock(lines));
  }
  return out;
}

async function copyText(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = 'Copied';
  } catch {
    button.textContent = 'Not allowed';
  }
  setTimeout(() => { button.textContent = 'Copy'; }, 1200);
}

// ---- showing ----------------------------------------------------------------------------------------------------------

function figuresOf(meta) {
  const parts = [];
  if (meta.first_ms !== undefined) parts.push(`first token ${(meta.first_ms / 1000).toFixed(2)} s`);
  if (meta.speed) parts.push(`${meta.speed.toFixed(meta.speed < 100 ? 1 : 0)} tokens/s`);
  if (meta.prompt !== undefined) parts.push(`${meta.cached} of ${meta.prompt} cached`);
  return parts.join(' · ');
}

function button(label, act) {
  const b = element('button', label);
  b.onclick = act;
  return b;
}

function showMessage(message, index) {
  const article = element('article', undefined, message.role);
  const text = element('div', undefined, 'text');
  if (message.role === 'user') text.textContent = message.content;
  else text.append(markdown(message.content));
  const about = element('div', undefined, 'about');
  if (message.role === 'user') about.append(button('Edit', () => edit(index)));
  else about.append(button('Copy', (e) => copyText(message.content, e.target)));
  if (message.role === 'assistant' && index === chat().messages.length - 1)
    about.append(button('Regenerate', () => regenerate(index)));
  if (message.meta) about.append(element('span', figuresOf(message.meta)));
  article.append(text, about);
  if (message.error) article.append(element('p', message.error, 'error'));
  return article;
}

function show() {
  const log = $('log');
  log.replaceChildren(...chat().messages.map(showMessage));
  if (!chat().messages.length)
    log.append(element('article', `You are talking to ${modelName || 'the model'}. Conversations stay in this browser. ` +
                                  'Another model answers when the server is started with it: quire serve FILE.gguf', 'hello'));
  log.scrollTop = log.scrollHeight;
  $('chats').replaceChildren(...state.chats.map((c, i) => {
    const li = element('li', undefined, i === state.current ? 'current' : '');
    const open = button(c.title || 'New conversation', () => { state.current = i; closeMenu(); refresh(); });
    open.className = 'open';
    const drop = button('×', () => dropChat(i));
    drop.className = 'drop';
    drop.ariaLabel = `Delete ${c.title || 'conversation'}`;
    li.append(open, drop);
    return li;
  }));
  $('system').value = chat().system || '';
}

function refresh() {
  save();
  show();
}

function dropChat(i) {
  if (running && i === state.current) return;
  state.chats.splice(i, 1);
  if (i < state.current) --state.current;
  if (!state.chats.length) newChat();
  state.current = Math.max(0, Math.min(state.current, state.chats.length - 1));
  refresh();
}

function closeMenu() {
  document.body.classList.remove('menu');
  $('menu').ariaExpanded = 'false';
}

// ---- asking -----------------------------------------------------------------------------------------------------------

function headers() {
  const out = {'Content-Type': 'application/json'};
  if (state.key) out.Authorization = 'Bearer ' + state.key;
  return out;
}

function requestBody(c) {
  const messages = c.messages.map(({role, content}) => ({role, content}));
  if (c.system) messages.unshift({role: 'system', content: c.system});
  const body = {messages, stream: true, stream_options: {include_usage: true}};
  for (const name of kSettings)
    if (state.settings[name] !== undefined && state.settings[name] !== '') body[name] = Number(state.settings[name]);
  return body;
}

// Calls `each` with the data of every event; an event named error becomes an exception.
async function readEvents(response, each) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    const events = (rest + value).split('\n\n');
    rest = events.pop();
    for (const event of events) {
      const lines = event.split('\n');
      const data = lines.filter((l) => l.startsWith('data: ')).map((l) => l.slice(6)).join('\n');
      if (lines.includes('event: error')) throw new Error(JSON.parse(data).error.message);
      if (data && data !== '[DONE]') each(JSON.parse(data));
    }
  }
}

async function fetchAnswer(c, answer, signal, changed) {
  const sent = performance.now();
  let first = 0, nChunks = 0;
  // Tokens that come all at once tell nothing by their distance: then the whole time counts.
  const speedOf = (n, now) => 1000 * n / (now - first > kReadableMs ? now - first : now - sent);
  const response = await fetch('v1/chat/completions',
    {method: 'POST', headers: headers(), body: JSON.stringify(requestBody(c)), signal});
  if (!response.ok) {
    const body = await response.json().catch(() => null);
    throw new Error(body?.error?.message || `the server answered ${response.status}`);
  }
  await readEvents(response, (chunk) => {
    const text = chunk.choices[0]?.delta?.content || '';
    const now = performance.now();
    if (text && !first) {
      first = now;
      answer.meta.first_ms = now - sent;
    } else if (text) {
      answer.meta.speed = speedOf(++nChunks, now);
    }
    answer.content += text;
    if (chunk.usage) {
      const n = chunk.usage.completion_tokens;
      if (n > 1) answer.meta.speed = speedOf(n - 1, now);
      answer.meta.prompt = chunk.usage.prompt_tokens;
      answer.meta.cached = chunk.usage.prompt_tokens_details?.cached_tokens ?? 0;
    }
    changed();
  });
}

function setRunning(controller) {
  running = controller;
  $('send').hidden = !!controller;
  $('stop').hidden = !controller;
}

async function answerNow() {
  const c = chat();
  const answer = {role: 'assistant', content: '', meta: {}};
  const controller = new AbortController();
  setRunning(controller);
  show();
  const article = element('article', undefined, 'assistant');
  const text = element('div', '…', 'text');
  article.append(text);
  $('log').append(article);
  let pending = false;
  const changed = () => {
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => {
      pending = false;
      const log = $('log');
      const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
      text.replaceChildren(markdown(answer.content));
      $('figures').textContent = figuresOf(answer.meta);
      if (atEnd) log.scrollTop = log.scrollHeight;
    });
  };
  try {
    await fetchAnswer(c, answer, controller.signal, changed);
  } catch (e) {
    if (e.name !== 'AbortError') answer.error = e.message;
  }
  setRunning(null);
  if (answer.content || answer.error) c.messages.push(answer);
  $('figures').textContent = figuresOf(answer.meta);
  refresh();
  $('input').focus();
}

function send(text) {
  if (running || !text.trim()) return;
  const c = chat();
  c.messages.push({role: 'user', content: text});
  if (!c.title) c.title = text.trim().slice(0, 60);
  answerNow();
}

function edit(index) {
  if (running) return;
  $('input').value = chat().messages[index].content;
  chat().messages.length = index;
  refresh();
  grow();
  $('input').focus();
}

function regenerate(index) {
  if (running) return;
  chat().messages.length = index;
  answerNow();
}

function exportChat() {
  const c = chat();
  const text = [`# ${c.title || 'Conversation'}`, ...(c.system ? [`**system**\n\n${c.system}`] : []),
    ...c.messages.map((m) => `**${m.role}**\n\n${m.content}`)].join('\n\n') + '\n';
  const a = element('a');
  a.href = URL.createObjectURL(new Blob([text], {type: 'text/markdown'}));
  a.download = 'conversation.md';
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 1000);
}

// ---- the engine view ----------------------------------------------------------------------------------------------------

let before = null;

async function showEngine() {
  if ($('engine').hidden) return;
  try {
    const response = await fetch('engine', {headers: headers()});
    if (!response.ok) throw new Error(`the server answered ${response.status}`);
    const now = {...await response.json(), at: performance.now()};
    const rate = (name) => before ? (now[name] - before[name]) / ((now.at - before.at) / 1000) : 0;
    const rows = {
      'running': now.running,
      'waiting': now.waiting,
      'blocks in use': `${now.blocks - now.free_blocks - now.cached_blocks} of ${now.blocks}`,
      'blocks cached': now.cached_blocks,
      'prompt tokens cached': now.prompt_tokens ? `${(100 * now.cached_tokens / now.prompt_tokens).toFixed(0)} %` : '–',
      'last step': `${(now.step_ms).toFixed(1)} ms`,
      'tokens/s out': rate('generated_tokens').toFixed(1),
      'tokens/s computed': rate('computed_tokens').toFixed(1),
      'preempted': now.preempted,
    };
    before = now;
    $('engine').replaceChildren(...Object.entries(rows).map(([name, value]) => {
      const div = element('div');
      div.append(element('b', String(value)), element('span', name));
      return div;
    }));
  } catch (e) {
    $('engine').replaceChildren(element('p', e.message, 'error'));
  }
  setTimeout(showEngine, 1000);
}

async function showModel() {
  try {
    const response = await fetch('v1/models', {headers: headers()});
    const body = await response.json();
    if (!response.ok) throw new Error(response.status === 401 ? 'needs an API key: see Settings' : body.error.message);
    modelName = body.data[0].id;
    $('model').textContent = `${modelName} · ${body.data[0].max_model_len} tokens of context`;
    document.title = `${modelName} · Quire`;
  } catch (e) {
    $('model').textContent = e.message;
  }
}

// ---- wiring -------------------------------------------------------------------------------------------------------------

function grow() {
  const input = $('input');
  input.style.height = 'auto';
  input.style.height = `${input.scrollHeight + 2}px`;
}

function toggle(section, by) {
  section.hidden = !section.hidden;
  by.ariaExpanded = String(!section.hidden);
}

function submit() {
  const text = $('input').value;
  if (running || !text.trim()) return;
  $('input').value = '';
  grow();
  send(text);
}

function wire() {
  $('ask').onsubmit = (e) => { e.preventDefault(); submit(); };
  $('input').oninput = grow;
  $('input').onkeydown = (e) => {
    if (e.key !== 'Enter' || e.shiftKey || e.isComposing) return;
    e.preventDefault();
    submit();
  };
  $('stop').onclick = () => running?.abort();
  $('new').onclick = () => { if (!running) { newChat(); closeMenu(); refresh(); $('input').focus(); } };
  $('export').onclick = exportChat;
  $('menu').onclick = () => { $('menu').ariaExpanded = String(document.body.classList.toggle('menu')); };
  $('show-settings').onclick = (e) => { toggle($('settings'), e.target); closeMenu(); };
  $('show-engine').onclick = (e) => { toggle($('engine'), e.target); closeMenu(); before = null; showEngine(); };
  $('theme').onclick = () => {
    const dark = getComputedStyle(document.documentElement).getPropertyValue('--back').trim() === '#191a1b';
    state.theme = dark ? 'light' : 'dark';
    document.documentElement.dataset.theme = state.theme;
    save();
  };
  for (const name of kSettings) {
    $(name).value = state.settings[name] ?? '';
    $(name).onchange = () => { state.settings[name] = $(name).value; save(); };
  }
  $('system').onchange = () => { chat().system = $('system').value; save(); };
  $('key').value = state.key;
  $('key').onchange = () => { state.key = $('key').value; save(); showModel(); };
  document.onkeydown = (e) => {
    if (e.key === 'Escape') {
      closeMenu();
      running?.abort();
    }
    if ((e.ctrlKey || e.metaKey) && e.key === 'k') {
      e.preventDefault();
      $('new').click();
    }
  };
}

load();
if (state.theme) document.documentElement.dataset.theme = state.theme;
wire();
show();
showModel().then(show);
