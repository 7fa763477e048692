// Markdown, the part that answers use, to DOM nodes; text never becomes markup. Blocks are taken off the front of a list
// of lines; what quotes and lists hold is put on a list of work, not called for, and below kDeepest it stays text.
import {button, copyText, element} from './dom.js';
import {highlight} from './highlight.js';
import {addInline} from './inline.js';
import {formula} from './math.js';

const kDeepest = 12;
const kFence = /^ {0,3}(`{3,}|~{3,})\s*([^`\s]*)/;
const kItem = /^(\s*)(?:[-*+]|(\d{1,9})[.)])(\s+|$)/;
const kHeading = /^ {0,3}(#{1,6})\s+(.*)$/;
const kRule = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const kQuote = /^ {0,3}>\s?/;
const kTableRule = /^[\s|:-]*-[\s|:-]*$/;
const kMathOpen = /^\s*(\$\$|\\\[)/;
const isBreak = (line) =>
  !line.trim() || kFence.test(line) || kHeading.test(line) || kQuote.test(line) || kItem.test(line) || kRule.test(line) ||
  kMathOpen.test(line);
const widthOf = (line) => line.length - line.trimStart().length;

function codeBlock(lines, language) {
  const pre = element('pre');
  pre.tabIndex = 0;  // what scrolls can be reached with keys
  const text = lines.join('\n');
  const code = element('code');
  code.append(highlight(text, language));
  pre.append(code);
  const box = element('div', undefined, 'code');
  const head = element('div', undefined, 'head');
  head.append(element('span', language), button('Copy', (e) => copyText(text, e.currentTarget)));
  box.append(head, pre);
  return box;
}

function takeCode(lines) {
  const [, mark, language] = kFence.exec(lines[0]);
  const indent = widthOf(lines[0]);
  let end = lines.findIndex((line, i) => i > 0 && line.trim().startsWith(mark) && !line.trim().slice(mark.length).trim());
  if (end < 0) end = lines.length;
  const body = lines.splice(0, end + 1).slice(1, end);
  return codeBlock(body.map((line) => line.slice(Math.min(indent, widthOf(line)))), language);
}

// A formula on lines of its own; undefined while its end has not come.
function takeMath(lines) {
  const open = kMathOpen.exec(lines[0]);
  const close = open[1] === '$$' ? '$$' : '\\]';
  let text = lines[0].slice(open[0].length);
  let n = 0;
  while (!text.includes(close)) {
    if (++n >= lines.length || !lines[n].trim()) return undefined;
    text += '\n' + lines[n];
  }
  const end = text.indexOf(close);
  if (text.slice(end + close.length).trim()) return undefined;  // more behind it: a part of a paragraph
  lines.splice(0, n + 1);
  const box = element('div', undefined, 'formula');
  box.tabIndex = 0;
  box.append(formula(text.slice(0, end), true));
  return box;
}

const cells = (line) =>
  line.trim().replace(/^\|/, '').replace(/(?<!\\)\|$/, '').split(/(?<!\\)\|/).map((c) => c.trim().replaceAll('\\|', '|'));

function takeTable(lines) {
  const head = cells(lines.shift());
  const align = cells(lines.shift()).map((c) => (c.endsWith(':') ? (c.startsWith(':') ? 'center' : 'right') : ''));
  const table = element('table');
  const rowOf = (texts, tag) => {
    const row = element('tr');
    head.forEach((_, i) => {
      const cell = element(tag, undefined, align[i]);
      if (tag === 'th') cell.scope = 'col';
      addInline(cell, texts[i] ?? '');
      row.append(cell);
    });
    return row;
  };
  table.createTHead().append(rowOf(head, 'th'));
  const body = table.createTBody();
  while (lines.length && lines[0].includes('|') && lines[0].trim()) body.append(rowOf(cells(lines.shift()), 'td'));
  const box = element('div', undefined, 'table');
  box.tabIndex = 0;
  box.append(table);
  return box;
}

function takeList(lines, later) {
  const [, indent, number] = kItem.exec(lines[0]);
  const ordered = number !== undefined;
  const list = element(ordered ? 'ol' : 'ul');
  if (ordered && number !== '1') list.start = Number(number);
  const isOwn = (line) => {
    const m = kItem.exec(line);
    return m && m[1].length <= indent.length + 1 && (m[2] !== undefined) === ordered && !kRule.test(line);
  };
  while (lines.length && isOwn(lines[0])) {
    const mark = kItem.exec(lines[0])[0].length;
    const inner = [lines.shift().slice(mark)];
    for (;;) {
      const blank = lines.length > 1 && !lines[0].trim() ? 1 : 0;
      const next = lines[blank];
      if (next === undefined || !next.trim()) break;
      const deeper = widthOf(next) > indent.length + 1;
      if (!deeper && (blank || isBreak(next))) break;
      inner.push(...lines.splice(0, blank + 1).map((line) => line.slice(Math.min(mark, widthOf(line)))));
    }
    while (lines.length > 1 && !lines[0].trim() && isOwn(lines[1])) lines.shift();
    const item = element('li');
    list.append(item);
    later(item, inner);
  }
  return list;
}

function takeQuote(lines, later) {
  const quote = element('blockquote');
  const inner = [];
  while (lines.length && kQuote.test(lines[0])) inner.push(lines.shift().replace(kQuote, ''));
  later(quote, inner);
  return quote;
}

function takeParagraph(lines) {
  const paragraph = element('p');
  const inner = [lines.shift()];
  while (lines.length && !isBreak(lines[0])) inner.push(lines.shift());
  addInline(paragraph, inner.join('\n'));
  return paragraph;
}

// Takes a block off the front of `lines`, the first of which is not blank.
function takeBlock(lines, later) {
  const first = lines[0];
  if (kFence.test(first)) return takeCode(lines);
  const math = kMathOpen.test(first) && takeMath(lines);
  if (math) return math;
  const heading = kHeading.exec(first);
  if (heading) {
    lines.shift();
    const h = element('h' + Math.min(6, heading[1].length + 2));
    addInline(h, heading[2].trim());
    return h;
  }
  if (kRule.test(first)) {
    lines.shift();
    return element('hr');
  }
  if (kQuote.test(first)) return takeQuote(lines, later);
  if (kItem.test(first)) return takeList(lines, later);
  if (first.includes('|') && lines.length > 1 && lines[1].includes('-') && lines[1].includes('|') && kTableRule.test(lines[1]))
    return takeTable(lines);
  return takeParagraph(lines);
}

// An item of one paragraph has its text in it, not in a <p>.
function unwrapItem(item) {
  const [first, ...rest] = item.children;
  if (item.tagName === 'LI' && first?.tagName === 'P' && rest.every((e) => /^[OU]L$/.test(e.tagName)))
    first.replaceWith(...first.childNodes);
}

function fill(parent, lines) {
  const work = [{parent, lines, depth: 0}];
  while (work.length) {
    const now = work.pop();
    const later = (into, inner) => {
      if (now.depth < kDeepest) work.push({parent: into, lines: inner, depth: now.depth + 1});
      else into.append(inner.join('\n'));
    };
    while (now.lines.length) {
      if (!now.lines[0].trim()) now.lines.shift();
      else now.parent.append(takeBlock(now.lines, later));
    }
    unwrapItem(now.parent);
  }
}

export function markdown(text) {
  const out = document.createDocumentFragment();
  fill(out, text.split('\n'));
  return out;
}

// The first block of `lines`, which it takes, with the lines that it was made of and the two behind it: while all of
// these are the same, so is the block. A formula whose end has not come may become anything.
function readBlock(lines) {
  const all = lines.slice();
  const node = document.createDocumentFragment();
  const work = [];
  node.append(takeBlock(lines, (into, inner) => work.push([into, inner])));
  for (const [into, inner] of work) fill(into, inner);
  const n = all.length - lines.length;
  const open = kMathOpen.test(all[0]) && node.firstChild.tagName === 'P';
  return {lines: all.slice(0, n + 2), n, settled: !open && all.length >= n + 2, node: node.firstChild};
}

// Shows `text` in `box`, which is this function's own: blocks that did not change since the last call stay, so that a
// growing answer costs its last blocks, and what is selected or scrolled in the others stays so.
export function show(box, text) {
  const shown = box.shownBlocks || [];
  const lines = text.split('\n');
  const blocks = [];
  let same = true;
  while (lines.length) {
    if (!lines[0].trim()) {
      lines.shift();
      continue;
    }
    const before = shown[blocks.length];
    same = same && before?.settled && before.lines.every((line, i) => lines[i] === line);
    if (same) lines.splice(0, before.n);
    blocks.push(same ? before : readBlock(lines));
  }
  const n = blocks.findIndex((block, i) => block !== shown[i]);
  const kept = n < 0 ? blocks.length : n;
  for (const block of shown.slice(kept)) block.node.remove();
  box.append(...blocks.slice(kept).map((block) => block.node));
  box.shownBlocks = blocks;
}
