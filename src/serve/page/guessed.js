// What was guessed ahead, tinted in an answer that is shown: ranges over its text nodes, which stay as they are. A text
// node is found in the answer's source by its lines, for Markdown takes marks out and changes nothing else; formulas and
// what we put around code have no tint, nor has anything where the browser knows no such ranges.
const kName = 'guessed';
const kMostMarks = 2000;  // characters of the source that may lie between two lines that are shown

export const canTint = typeof Highlight === 'function' && Boolean(CSS.highlights);
const shown = new Map();  // box → its ranges

// Where tokens that a chunk tells lie in the answer, as [begin, end, begin, end, …] in its UTF-16 units; `base` is where
// `text` begins there, which is the last of what the chunk has come to. Tokens of thoughts lie before it.
export function placesOf(choice, text, base) {
  const starts = [];  // of each code point
  for (let at = 0; at < text.length; at += text.codePointAt(at) > 0xffff ? 2 : 1) starts.push(at);
  const first = choice.text_length - starts.length;
  const unit = (point) => base + (starts[point - first] ?? text.length);
  return choice.accepted.flatMap(({text_offset: at, length}) => {
    const begin = Math.max(at, first);
    return begin < at + length ? [unit(begin), unit(at + length)] : [];
  });
}

function textsOf(box) {
  const skips = (node) => node.nodeType === Node.ELEMENT_NODE && node.matches('math, .head');
  const walker = document.createTreeWalker(box, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT,
    (node) => (skips(node) ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT));
  const out = [];
  while (walker.nextNode()) if (walker.currentNode.nodeType === Node.TEXT_NODE) out.push(walker.currentNode);
  return out;
}

function rangesOf(box, source, places) {
  const out = [];
  let from = 0;
  let next = 0;  // of the places the first that does not lie before `from`
  for (const node of textsOf(box)) {
    for (const {0: line, index} of node.data.matchAll(/[^\n]+/g)) {
      const at = source.slice(from, from + kMostMarks + line.length).indexOf(line);
      if (at < 0) continue;
      const begin = from + at;
      from = begin + line.length;
      while (next < places.length && places[next + 1] <= begin) next += 2;
      for (let i = next; i < places.length && places[i] < from; i += 2) {
        const [a, b] = [Math.max(places[i], begin), Math.min(places[i + 1], from)];
        const [startOffset, endOffset] = [index + a - begin, index + b - begin];
        out.push(new StaticRange({startContainer: node, startOffset, endContainer: node, endOffset}));
      }
    }
  }
  return out;
}

function show() {
  const all = new Highlight();
  for (const ranges of shown.values()) for (const range of ranges) all.add(range);
  CSS.highlights.set(kName, all);
}

// `places` undefined: nothing of it.
export function tint(box, source, places) {
  if (!canTint || (!places?.length && !shown.has(box))) return;
  shown.set(box, rangesOf(box, source, places ?? []));
  show();
}

// What was shown is gone.
export function clear() {
  if (!canTint || !shown.size) return;
  shown.clear();
  show();
}
