// What the page asks the server. An answer is a stream that is taken up again when its connection breaks or the page is
// loaded anew: `stream` says which one it is, who may have it and how far it was read, and is kept with the conversation.
import {state} from './store.js';

const kPatienceMs = 60000;  // for a server that cannot be reached; it keeps a stream as long (resumable_s)
const kMaxPauseMs = 4000;

export function headers(more = {}) {
  const out = {'Content-Type': 'application/json', ...more};
  if (state.key) out.Authorization = 'Bearer ' + state.key;
  return out;
}

async function refusal(response) {
  const body = await response.json().catch(() => null);
  return new Error(body?.error?.message || `the server answered ${response.status}`);
}

export async function ask(path, options = {}) {
  const response = await fetch(path, {headers: headers(), ...options});
  if (!response.ok) throw Object.assign(await refusal(response), {status: response.status});
  return response.json();
}

// Calls each(chunk) with every event; true once the last one was there. An event named error becomes an exception.
async function readEvents(response, stream, each) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return false;
    const events = (rest + value).split('\n\n');
    rest = events.pop();
    for (const event of events) {
      const lines = event.split('\n');
      const field = (name) => lines.filter((l) => l.startsWith(name + ': ')).map((l) => l.slice(name.length + 2)).join('\n');
      const data = field('data');
      if (field('id')) stream.after = Number(field('id'));
      if (field('event') === 'error') throw Object.assign(new Error(JSON.parse(data).error.message), {final: true});
      if (data === '[DONE]') return true;
      if (data) each(JSON.parse(data));
    }
  }
}

function begin(body, signal) {
  return fetch('v1/chat/completions',
    {method: 'POST', headers: headers({'x-quire-resumable': '1'}), body: JSON.stringify(body), signal});
}

function takeUp(stream, signal) {
  const more = {'Last-Event-ID': String(stream.after)};
  if (stream.secret) more['x-quire-stream-secret'] = stream.secret;
  return fetch('v1/streams/' + stream.name, {headers: headers(more), signal});
}

async function readOnce(response, stream, each) {
  if (!response.ok) throw Object.assign(await refusal(response), {final: true, status: response.status});
  stream.name ||= response.headers.get('x-quire-stream') || '';
  stream.secret ||= response.headers.get('x-quire-stream-secret') || '';
  return readEvents(response, stream, each);
}

function pause(ms, signal) {
  return new Promise((done) => {
    const timer = setTimeout(done, ms);
    signal.addEventListener('abort', () => { clearTimeout(timer); done(); }, {once: true});
  });
}

// Reads an answer to its end, over as many connections as it takes. `stream.name` empty: asks for it with `body`, else
// goes on behind event `stream.after`. hooks.chunk(chunk) hears every event, hooks.again() that one connection broke and
// whether another should be made. Throws what the server says, or AbortError.
export async function readAnswer(body, stream, signal, hooks) {
  let heard = performance.now();
  let waited = 250;
  const each = (chunk) => {
    heard = performance.now();
    waited = 250;
    hooks.chunk(chunk);
  };
  for (;;) {
    let why = 'the connection broke';
    try {
      const response = await (stream.name ? takeUp(stream, signal) : begin(body, signal));
      if (await readOnce(response, stream, each)) return;
    } catch (e) {
      if (stream.name && (e.status === 404 || e.status === 410)) e.message = `the rest of the answer is gone: ${e.message}`;
      if (e.final || e.name === 'AbortError') throw e;
      why = e.message;
    }
    if (!stream.name || performance.now() - heard > kPatienceMs) throw new Error(`the server cannot be reached: ${why}`);
    await pause(waited, signal);
    if (signal.aborted) throw new DOMException('stopped', 'AbortError');
    if (!hooks.again()) throw new DOMException('another tab has it', 'AbortError');
    waited = Math.min(2 * waited, kMaxPauseMs);
  }
}

// Only says so: what the server does not hear it finds out by its own clock.
export function endStream(stream) {
  if (!stream?.name) return;
  const more = stream.secret ? {'x-quire-stream-secret': stream.secret} : {};
  fetch('v1/streams/' + stream.name, {method: 'DELETE', headers: headers(more), keepalive: true}).catch(() => {});
}
