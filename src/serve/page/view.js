// The conversation as it is shown: one article for a message. An answer that grows has its own article brought up to
// date; whatever else changes, all are made anew.
import {$, button, copyText, element, iconButton} from './dom.js';
import {show as showText} from './markdown.js';
import * as answers from './answers.js';
import * as guessed from './guessed.js';
import * as store from './store.js';
import * as tree from './tree.js';

const kNearEnd = 60;

let acts = {};       // what buttons do: edit, again, choose
let shown = null;    // the conversation
let editing = -1;    // the message that is being edited
let articles = new Map();

export const setActs = (given) => { acts = given; };

const seconds = (ms) => `${(ms / 1000).toFixed(ms < 9950 ? 2 : 1)} s`;

export function figuresOf(meta) {
  const parts = [];
  if (meta.speed) parts.push(`${meta.speed.toFixed(meta.speed < 100 ? 1 : 0)} tokens/s`);
  if (meta.n) parts.push(`${meta.n} token${meta.n === 1 ? '' : 's'}`);
  if (meta.first_ms !== undefined) parts.push(`first token ${seconds(meta.first_ms)}`);
  if (meta.prompt) parts.push(`${Math.floor(100 * meta.cached / meta.prompt)} % of ${meta.prompt} cached`);
  if (meta.guessed && store.state.settings.guessed) parts.push(`${meta.guessed} guessed ahead`);
  if (meta.end === 'length') parts.push('cut off at the most tokens');
  if (meta.end === 'stopped') parts.push('stopped');
  return parts.join(' · ');
}

// The fold is open while only thoughts come and closes itself with the first word of the answer, unless it was touched.
function showThinking(article, message, live) {
  let fold = article.querySelector('.thinking');
  if (!message.reasoning) return fold?.remove();
  if (!fold) {
    fold = element('details', undefined, 'thinking');
    const summary = element('summary');
    summary.onclick = () => { fold.touched = true; };
    fold.append(summary, element('div', undefined, 'text'));
    article.firstChild.after(fold);
  }
  const under = live && !message.content;
  if (!fold.touched) fold.open = under;
  const {thought_ms: ms} = message.meta || {};
  fold.firstChild.textContent = under ? 'Thinking…' : ms === undefined ? 'Thoughts' : `Thought for ${seconds(ms)}`;
  showText(fold.lastChild, message.reasoning);
}

function fillAnswer(article, message, live) {
  showThinking(article, message, live);
  const text = article.querySelector(':scope > .text');
  showText(text, message.content);
  guessed.tint(text, message.content, store.state.settings.guessed ? message.guessed : undefined);
  text.classList.toggle('waiting', live && !message.content && !message.reasoning);
  article.classList.toggle('live', live);
  article.querySelector('.figures').textContent = figuresOf(message.meta || {});
}

function versionSwitch(at) {
  const all = tree.versions(shown, at);
  if (all.length < 2) return [];
  const i = all.indexOf(at);
  const to = (n, name, label) => {
    const b = iconButton(name, label, () => acts.choose(all[n], name));
    b.disabled = n < 0 || n >= all.length;
    return b;
  };
  const box = element('span', undefined, 'versions');
  box.append(to(i - 1, 'back', 'Earlier version'), element('span', `${i + 1} of ${all.length}`), to(i + 1, 'on', 'Later version'));
  return [box];
}

function editor(at) {
  const box = element('form', undefined, 'editor');
  const field = element('textarea');
  field.value = shown.messages[at].content;
  field.rows = Math.min(12, field.value.split('\n').length + 1);
  field.setAttribute('aria-label', 'Edited message');
  const send = element('button', 'Send', 'strong');
  const row = element('div', undefined, 'about');
  row.append(send, button('Cancel', () => endEdit(at)));
  box.append(field, row);
  box.onsubmit = (e) => {
    e.preventDefault();
    if (!field.value.trim()) return;
    editing = -1;
    acts.edit(at, field.value);
  };
  field.onkeydown = (e) => {
    if (e.key === 'Escape') {
      e.stopPropagation();
      endEdit(at);
    } else if (e.key === 'Enter' && !e.shiftKey && !e.isComposing) {
      e.preventDefault();
      box.requestSubmit();
    }
  };
  return box;
}

function endEdit(at) {
  editing = -1;
  show();
  articles.get(at)?.querySelector('.edit')?.focus();
}

function beginEdit(at) {
  editing = at;
  show();
  const field = articles.get(at).querySelector('textarea');
  field.focus();
  field.selectionStart = field.value.length;
}

function userArticle(message, at, writing) {
  const article = element('article', undefined, 'user');
  article.append(element('h2', 'You', 'hidden-text'));
  if (editing === at) {
    article.append(writing ?? editor(at));
    return article;
  }
  const about = element('div', undefined, 'about');
  about.append(button('Edit', () => beginEdit(at), 'edit'), button('Copy', (e) => copyText(message.content, e.currentTarget)),
               ...versionSwitch(at));
  article.append(element('div', message.content, 'text'), about);
  return article;
}

function answerArticle(message, at) {
  const article = element('article', undefined, 'assistant');
  article.append(element('h2', 'Answer', 'hidden-text'));
  const live = answers.runningAt(shown) === at;
  const about = element('div', undefined, 'about');
  const figures = element('span', '', 'figures');
  if (live) about.append(figures);
  else
    about.append(button('Copy', (e) => copyText(message.content, e.currentTarget)),
                 button(message.error ? 'Try again' : 'Regenerate', () => acts.again(at), 'again'), ...versionSwitch(at), figures);
  article.append(element('div', undefined, 'text'), about);
  if (message.error) {
    const error = element('p', message.error, 'error');
    error.setAttribute('role', 'alert');
    about.before(error);
  }
  fillAnswer(article, message, live);
  return article;
}

function queuedArticle() {
  const article = element('article', undefined, 'user queued');
  const about = element('div', undefined, 'about');
  about.append(element('span', 'Sent when the answer ends'), button('Send now', acts.sendNow), button('Take back', acts.takeBack));
  article.append(element('div', shown.queued, 'text'), about);
  return article;
}

export function setHello(text) {
  $('log').dataset.hello = text;
  const hello = $('log').querySelector('.hello');
  if (hello) hello.textContent = text;
}

export function show(c = shown) {
  const log = $('log');
  const other = c !== shown;
  const atEnd = isAtEnd(log);
  const at = log.scrollTop;
  if (other) editing = -1;
  const writing = editing >= 0 ? articles.get(editing)?.querySelector('.editor') : null;  // what is written there stays
  const hadFocus = writing?.contains(document.activeElement);
  shown = c;
  guessed.clear();
  articles = new Map(tree.path(c).map((i) => {
    const message = c.messages[i];
    return [i, message.role === 'user' ? userArticle(message, i, writing) : answerArticle(message, i)];
  }));
  log.replaceChildren(...articles.values());
  if (hadFocus) writing.querySelector('textarea').focus();
  if (c.queued) log.append(queuedArticle());
  if (!c.messages.length) log.append(element('p', log.dataset.hello || '', 'hello'));
  log.ariaBusy = String(answers.isRunning(c));
  log.scrollTop = (other || atEnd) && editing < 0 ? log.scrollHeight : at;
}

const isAtEnd = (log) => log.scrollHeight - log.scrollTop - log.clientHeight < kNearEnd;

let waiting = false;
let drawingMs = 0;  // what the last frame took

// Message `at` of conversation `c` grew: drawn with the next frame. A long answer takes long to draw, and is drawn as
// much more rarely: three quarters of the time are left to all else.
export function grew(c, at) {
  if (c !== shown || waiting) return;
  waiting = true;
  const draw = () => {
    waiting = false;
    const article = articles.get(at);
    if (c !== shown || !article?.isConnected || answers.runningAt(c) !== at) return;
    const log = $('log');
    const atEnd = isAtEnd(log);
    const begin = performance.now();
    fillAnswer(article, c.messages[at], true);
    if (atEnd) log.scrollTop = log.scrollHeight;
    drawingMs = performance.now() - begin;
  };
  setTimeout(() => requestAnimationFrame(draw), 3 * drawingMs);
}

// After versions were switched: the same button of the message that is there now.
export function focusSwitch(at, name) {
  const label = name === 'back' ? 'Earlier version' : 'Later version';
  const buttons = [...(articles.get(at)?.querySelectorAll('.versions button') ?? [])];
  (buttons.find((b) => b.ariaLabel === label && !b.disabled) ?? buttons.find((b) => !b.disabled))?.focus();
}
