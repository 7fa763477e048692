// The list of conversations: search, rename, delete with undo.
import {$, button, element, iconButton} from './dom.js';
import * as answers from './answers.js';
import * as store from './store.js';

const kUndoMs = 20000;

let acts = {};  // open(conversation), changed()
let renaming = '';
let timer = 0;

export const setActs = (given) => { acts = given; };

export const titleOf = (c) => c.title || 'New conversation';

function matches(c, words) {
  const text = [c.title, ...c.messages.map((m) => m.content)].join('\n').toLowerCase();
  return words.every((word) => text.includes(word));
}

function renameField(c) {
  const field = element('input', undefined, 'rename');
  field.value = c.title;
  field.setAttribute('aria-label', `New name of ${titleOf(c)}`);
  let over = false;
  const end = (keep) => {
    if (over) return;
    over = true;
    renaming = '';
    if (keep && field.value.trim()) {
      c.title = field.value.trim().slice(0, 200);
      store.saveChat(c);
    }
    acts.changed();
    rowOf(c)?.querySelector('.open').focus();
  };
  field.onkeydown = (e) => {
    if (e.key === 'Escape') e.stopPropagation();
    if (e.key === 'Escape' || (e.key === 'Enter' && !e.isComposing)) end(e.key === 'Enter');
  };
  field.onblur = () => end(true);
  return field;
}

const rowOf = (c) => document.querySelector(`#chats [data-id="${c.id}"]`);

function row(c, isCurrent) {
  const li = element('li', undefined, isCurrent ? 'current' : '');
  li.dataset.id = c.id;
  if (renaming === c.id) {
    li.append(renameField(c));
    return li;
  }
  const open = button(titleOf(c), () => acts.open(c), 'open');
  if (isCurrent) open.setAttribute('aria-current', 'true');
  if (answers.isRunning(c)) {
    li.classList.add('running');
    open.append(element('span', ' (answering)', 'hidden-text'));
  }
  li.append(open,
            iconButton('pencil', `Rename ${titleOf(c)}`, () => { renaming = c.id; show(); rowOf(c).firstChild.select(); }, 'tool'),
            iconButton('bin', `Delete ${titleOf(c)}`, () => drop(c), 'tool drop'));
  return li;
}

let currentId = '';

export function show(current) {
  if (current) currentId = current.id;
  if (renaming && document.activeElement?.className === 'rename') return;
  const words = $('search').value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = words.length ? store.chats.filter((c) => matches(c, words)) : store.chats;
  $('chats').replaceChildren(...found.map((c) => row(c, c.id === currentId)));
  $('found').textContent = words.length ? `${found.length} of ${store.chats.length} found` : '';
}

// Says something at the bottom, with one thing that can be done about it.
export function notice(text, label, act) {
  const box = $('notice');
  const end = () => box.replaceChildren();
  clearTimeout(timer);
  timer = setTimeout(end, kUndoMs);
  const parts = [element('span', text)];
  if (label) parts.push(button(label, () => { end(); act(); }));
  box.replaceChildren(...parts, iconButton('close', 'Dismiss', end));
}

function drop(c) {
  answers.stop(c);
  const before = store.chats.indexOf(c);
  store.remove(c);
  acts.dropped(c, store.chats[Math.min(before, store.chats.length - 1)]);
  notice(`Deleted “${titleOf(c)}”`, 'Undo', () => {
    store.putBack(c);
    acts.open(c);
  });
  ($('chats').querySelector('.current .open') ?? $('new')).focus();
}
