// Answers under way, any number of conversations at once as far as the browser's connections go. An answer is a message
// of its conversation from its first moment; while it grows it holds `stream`, by which a reload finds it again.
import * as store from './store.js';
import * as tree from './tree.js';
import {placesOf} from './guessed.js';
import {endStream, readAnswer} from './server.js';

export const kSampling = ['temperature', 'top_p', 'top_k', 'min_p', 'max_tokens', 'seed'];
const kMostAtOnce = 4;       // a browser has six connections to a server
const kReadableMs = 50;
const kSaveMs = 500;
const kBeatMs = 2000;        // how often a tab says that an answer is its own
const kSilentMs = 12000;     // after which another may have it

const running = new Map();  // conversation's id → {controller, c, at, timer, saved}
let leaving = false;
let changed = () => {};     // (conversation, message's number): it grew; ended: (conversation)
let ended = () => {};

export function onChange(grew, over) {
  changed = grew;
  ended = over;
}

export const isRunning = (c) => running.has(c.id);
export const isOurs = (id) => running.has(id);
export const runningAt = (c) => running.get(c.id)?.at ?? -1;
export const canStart = () => running.size < kMostAtOnce;

function bodyOf(c, to) {
  const body = {messages: tree.prompt(c, to), stream: true, stream_options: {include_usage: true}};
  for (const name of kSampling) {
    const value = store.state.settings[name];
    if (value !== undefined && value !== '') body[name] = Number(value);
  }
  if (store.state.settings.guessed) body.return_accepted = true;
  return body;
}

// How fast it came is told by the connection that saw it begin: what waited for us while nobody read came all at once.
function measure(meta, stream, chunk, text) {
  const now = Date.now();
  if (text) meta.n = (meta.n || 0) + 1;
  if (text && meta.first_ms === undefined) {
    meta.first_ms = now - stream.sent;
    stream.first = now;
  }
  const n = chunk.usage?.completion_tokens ?? meta.n;
  if (chunk.usage) {
    meta.n = n;
    meta.prompt = chunk.usage.prompt_tokens;
    meta.cached = chunk.usage.prompt_tokens_details?.cached_tokens ?? 0;
    meta.guessed = chunk.usage.completion_tokens_details?.accepted_prediction_tokens ?? 0;
  }
  // Tokens that come all at once tell nothing by their distance: then the whole time counts.
  if (!stream.again && n > 1)
    meta.speed = 1000 * (n - 1) / (now - stream.first > kReadableMs ? now - stream.first : Math.max(1, now - stream.sent));
}

function take(message, chunk) {
  const choice = chunk.choices[0];
  const thought = choice?.delta?.reasoning_content || '';
  const text = choice?.delta?.content || '';
  if (thought) message.reasoning = (message.reasoning || '') + thought;
  if (text && message.reasoning && message.meta.thought_ms === undefined && message.stream.first)
    message.meta.thought_ms = Date.now() - message.stream.first;
  if (choice?.accepted) (message.guessed ||= []).push(...placesOf(choice, text, message.content.length));
  message.content += text;
  if (choice?.finish_reason) message.meta.end = choice.finish_reason;
  measure(message.meta, message.stream, chunk, text || thought);
}

// False where another tab has taken the answer, because this one was silent: then it is no longer ours to write.
function save(run) {
  if (leaveToOther(run)) return false;
  run.saved = Date.now();
  const {stream} = run.c.messages[run.at];
  if (stream) Object.assign(stream, {owner: store.tab.id, beat: run.saved});
  store.saveChat(run.c);
  return true;
}

function forget(run) {
  clearInterval(run.timer);
  if (running.get(run.c.id) === run) running.delete(run.c.id);
}

function leaveToOther(run) {
  const owner = store.kept(run.c.id)?.messages[run.at]?.stream?.owner;
  if (!owner || owner === store.tab.id) return false;
  forget(run);
  run.controller.abort();
  store.reread(run.c.id);
  ended(run.c, run.at);
  return true;
}

function finish(run, error) {
  if (leaving || running.get(run.c.id) !== run) return;
  forget(run);
  const message = run.c.messages[run.at];
  delete message.stream;
  if (error) message.error = error;
  store.saveChat(run.c);
  ended(run.c, run.at);
}

async function follow(run, body) {
  const message = run.c.messages[run.at];
  const hooks = {
    chunk: (chunk) => {
      take(message, chunk);
      if (Date.now() - run.saved > kSaveMs) save(run);
      changed(run.c, run.at);
    },
    again: () => {
      message.stream.again = true;
      return save(run);
    },
  };
  run.timer = setInterval(() => save(run), kBeatMs);
  try {
    await readAnswer(body, message.stream, run.controller.signal, hooks);
    finish(run);
  } catch (e) {
    finish(run, e.name === 'AbortError' ? '' : e.message);
  }
}

function run(c, at, body) {
  const one = {controller: new AbortController(), c, at, timer: 0, saved: 0};
  running.set(c.id, one);
  Object.assign(c.messages[at].stream, {owner: store.tab.id, beat: Date.now()});
  store.saveChat(c);
  follow(one, body);
}

// Answers message `to`, which is the user's; not while another answer of this conversation runs.
export function answer(c, to) {
  const message = {role: 'assistant', content: '', meta: {}, stream: {name: '', secret: '', after: 0, sent: Date.now()}};
  const at = tree.add(c, to, message);
  store.touch(c);
  run(c, at, bodyOf(c, to));
  return at;
}

export function stop(c) {
  const one = running.get(c.id);
  if (!one) return;
  one.c.messages[one.at].meta.end = 'stopped';
  one.controller.abort();
  endStream(one.c.messages[one.at].stream);
}

// Takes up what this tab was reading when it was loaded anew, and what no tab reads any more.
export function takeUpAll() {
  for (const c of store.chats) {
    const at = c.messages.findIndex((m) => m.stream);
    if (at < 0 || isRunning(c)) continue;
    const {stream} = c.messages[at];
    if (stream.owner !== store.tab.id && Date.now() - (stream.beat || 0) < kSilentMs) continue;
    if (!canStart()) return;
    if (stream.name) stream.again = true;
    run(c, at, stream.name ? null : bodyOf(c, c.messages[at].parent));  // without a name it had not begun: asked anew
  }
}

// The page goes: what its connections say from now on is not the answer's end.
export function leave() {
  running.forEach(save);
  leaving = true;
}
