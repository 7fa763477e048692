// Conversations to files and back: Markdown to read, JSON to bring back.
import {offerFile} from './dom.js';
import * as store from './store.js';
import * as tree from './tree.js';

const kForm = 1;
const kMostBytes = 64 << 20;

const nameOf = (c) => (c.title.replace(/[^\p{L}\p{N}]+/gu, '-').replace(/^-|-$/g, '').slice(0, 40) || 'conversation');

export function exportMarkdown(c) {
  const parts = [`# ${c.title || 'Conversation'}`];
  if (c.system) parts.push(`**system**\n\n${c.system}`);
  for (const at of tree.path(c)) parts.push(`**${c.messages[at].role}**\n\n${c.messages[at].content}`);
  offerFile(nameOf(c) + '.md', 'text/markdown', parts.join('\n\n') + '\n');
}

const json = (chats) => JSON.stringify({quire: kForm, conversations: chats.map(tree.toFile)}, null, 1) + '\n';

export const exportJson = (c) => offerFile(nameOf(c) + '.json', 'application/json', json([c]));

export const exportAll = () =>
  offerFile('conversations.json', 'application/json', json(store.chats.filter((c) => c.messages.length)));

// All of a file's conversations, or none: throws what is wrong with it.
export async function importFile(file) {
  if (file.size > kMostBytes) throw new Error(`${file.name} has ${file.size} bytes: the most is ${kMostBytes}`);
  let value;
  try {
    value = JSON.parse(await file.text());
  } catch (e) {
    throw new Error(`${file.name} is no JSON: ${e.message}`);
  }
  if (value?.quire !== kForm) throw new Error(`${file.name} was not written by this page: "quire" is not ${kForm}`);
  if (!Array.isArray(value.conversations)) throw new Error('conversations is no list');
  const chats = value.conversations.map((c, i) => tree.fromFile(c, `conversations[${i}]`));
  for (const c of chats) store.putBack(c);
  return chats;
}
