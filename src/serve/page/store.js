// What the browser keeps: settings under one name, each conversation under one of its own, so that two tabs do not
// write over each other's. The oldest conversation goes when the browser's room is full.
import {fromList, newConversation} from './tree.js';

const kSettings = 'quire';
const kChat = 'quire.chat.';
const kMostChats = 500;

export const state = {settings: {}, key: '', theme: ''};
export let chats = [];  // the latest first

const read = (name) => {
  try {
    return JSON.parse(localStorage.getItem(name));
  } catch {
    return null;  // unreadable: as if it were not there
  }
};

const byTime = () => chats.sort((a, b) => b.at - a.at);
const isChat = (c) => c && typeof c.id === 'string' && Array.isArray(c.messages);

// True once it is kept. What is given up for it are the oldest of the others.
function write(name, value) {
  const text = JSON.stringify(value);
  for (;;) {
    try {
      localStorage.setItem(name, text);
      return true;
    } catch {
      const oldest = chats.findLast((c) => kChat + c.id !== name && !c.messages.some((m) => m.stream));
      if (!oldest) return false;
      remove(oldest);
    }
  }
}

export function load() {
  const kept = read(kSettings) || {};
  for (const name of Object.keys(state)) if (kept[name] !== undefined) state[name] = kept[name];
  chats = Object.keys(localStorage).filter((name) => name.startsWith(kChat)).map(read).filter(isChat);
  if (Array.isArray(kept.chats)) {  // the form before each had a name of its own
    kept.chats.forEach((c, i) => {
      const chat = fromList(c.title || '', c.system || '', c.messages || []);
      chat.at -= i;
      chats.push(chat);
      saveChat(chat);
    });
    saveSettings();
  }
  byTime();
}

export function saveSettings() {
  write(kSettings, state);
}

// An empty one is not kept.
export function saveChat(c) {
  if (chats.includes(c) && (c.messages.length || c.draft)) write(kChat + c.id, c);
}

// It was spoken in just now.
export function touch(c) {
  c.at = Date.now();
  if (!chats.includes(c)) chats.push(c);
  byTime();
  while (chats.length > kMostChats) remove(chats.at(-1));
  saveChat(c);
}

export function addChat(system) {
  const empty = chats.find((c) => !c.messages.length && !c.draft);
  if (empty) {
    empty.at = Date.now();
    byTime();
    return empty;
  }
  const c = newConversation(system);
  chats.unshift(c);
  return c;
}

export function remove(c) {
  chats = chats.filter((other) => other !== c);
  localStorage.removeItem(kChat + c.id);
}

export function putBack(c) {
  chats.push(c);
  byTime();
  saveChat(c);
}

// As it was written last, by whichever tab.
export const kept = (id) => read(kChat + id);

// Another tab wrote or removed one: calls changed(id) once ours is the same. `isOurs(id)`: one that this tab writes.
export function watch(isOurs, changed) {
  addEventListener('storage', (e) => {
    if (!e.key?.startsWith(kChat)) return;
    const id = e.key.slice(kChat.length);
    if (isOurs(id)) return;
    reread(id);
    changed(id);
  });
}

export function reread(id) {
  const now = kept(id);
  chats = chats.filter((c) => c.id !== id);
  if (isChat(now)) chats.push(now);
  byTime();
}

// The conversation and the name of this tab; they outlive a reload, and no other tab has them.
export const tab = {
  get chat() { return sessionStorage.getItem('quire.current'); },
  set chat(id) { sessionStorage.setItem('quire.current', id); },
  id: '',
};
export function nameTab() {
  tab.id = sessionStorage.getItem('quire.tab') || newConversation('').id;
  sessionStorage.setItem('quire.tab', tab.id);
}
