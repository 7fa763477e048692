// A conversation and its branches. Messages lie in a list that only grows; each has its parent's number (-1: it begins
// the conversation), and each parent says which of its children is shown ("pick"). What is shown is the path along the
// picks. Editing or answering again adds a sibling, so nothing that was said is lost.

const kRoles = ['user', 'assistant'];

export function newConversation(system) {
  const id = Array.from(crypto.getRandomValues(new Uint8Array(8)), (b) => b.toString(16).padStart(2, '0')).join('');
  return {id, title: '', system: system || '', at: Date.now(), draft: '', queued: '', pick: -1, messages: []};
}

// Numbers of the messages that are shown, the first one first.
export function path(c) {
  const out = [];
  for (let at = c.pick; at >= 0; at = c.messages[at].pick) out.push(at);
  return out;
}

export const last = (c) => path(c).at(-1) ?? -1;

// Adds a message below `parent` and shows it; its number.
export function add(c, parent, message) {
  c.messages.push({...message, parent, pick: -1});
  const at = c.messages.length - 1;
  choose(c, at);
  return at;
}

export function choose(c, at) {
  const parent = c.messages[at].parent;
  if (parent < 0) c.pick = at;
  else c.messages[parent].pick = at;
}

// All versions of message `at`, itself among them.
export function versions(c, at) {
  const parent = c.messages[at].parent;
  return c.messages.flatMap((m, i) => (m.parent === parent ? [i] : []));
}

// What the model is asked: the path up to and with message `to`, behind the system prompt.
export function prompt(c, to) {
  const out = [];
  for (let at = to; at >= 0; at = c.messages[at].parent) {
    const {role, content} = c.messages[at];
    out.unshift({role, content});
  }
  if (c.system) out.unshift({role: 'system', content: c.system});
  return out;
}

// A conversation from the form that kept a plain list of messages.
export function fromList(title, system, list) {
  const c = newConversation(system);
  c.title = title;
  for (const {role, content, meta, error} of list) {
    const message = {role, content};
    if (meta) message.meta = meta;
    if (error) message.error = error;
    add(c, last(c), message);
  }
  return c;
}

function text(value, field, fallback) {
  if (value === undefined && fallback !== undefined) return fallback;
  if (typeof value !== 'string') throw new Error(`${field} is not a text`);
  return value;
}

function readMessage(m, n, field) {
  if (!m || typeof m !== 'object') throw new Error(`${field} is no message`);
  if (!kRoles.includes(m.role)) throw new Error(`${field}.role is ${JSON.stringify(m.role)}: it must be user or assistant`);
  const parent = m.parent ?? n - 1;
  if (!Number.isInteger(parent) || parent < -1 || parent >= n)
    throw new Error(`${field}.parent is ${JSON.stringify(m.parent)}: it must be an earlier message, or -1`);
  const out = {role: m.role, content: text(m.content, field + '.content'), parent, pick: -1};
  if (m.reasoning) out.reasoning = text(m.reasoning, field + '.reasoning');
  if (Array.isArray(m.guessed) && m.guessed.every(Number.isInteger)) out.guessed = m.guessed;
  if (m.error) out.error = text(m.error, field + '.error');
  if (m.meta && typeof m.meta === 'object')
    out.meta = Object.fromEntries(Object.entries(m.meta).filter(([, v]) => typeof v === 'number' || typeof v === 'string'));
  return out;
}

// A conversation out of a file; throws what is wrong with it, by the field's name.
export function fromFile(value, field) {
  if (!value || typeof value !== 'object' || !Array.isArray(value.messages)) throw new Error(`${field}.messages is no list`);
  const c = newConversation(text(value.system, field + '.system', ''));
  c.title = text(value.title, field + '.title', '');
  if (Number.isFinite(value.at)) c.at = value.at;
  value.messages.forEach((m, n) => {
    c.messages.push(readMessage(m, n, `${field}.messages[${n}]`));
    choose(c, n);
  });
  for (const at of [value.pick, ...value.messages.map((m) => m.pick)])
    if (Number.isInteger(at) && at >= 0 && at < c.messages.length) choose(c, at);
  return c;
}

export function toFile({title, system, at, pick, messages}) {
  return {title, system, at, pick, messages: messages.map(({stream, ...m}) => m)};
}
