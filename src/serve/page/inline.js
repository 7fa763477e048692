// Text within a line of Markdown to nodes: code, strong, emphasis, struck out, links, formulas. Worked off a list, not by
// recursion: each kind cannot hold itself, so what is nested is at most as deep as there are kinds.
import {element} from './dom.js';
import {formula} from './math.js';

// Each alternative is linear in the line's length: no class can match the mark that ends it.
const kInline = new RegExp([
  '(?<fence>`+)(?<code>[^`]+)\\k<fence>(?!`)',
  '\\\\\\((?<paren>[^\\n]+?)\\\\\\)',
  '\\$\\$(?<display>[^$]+)\\$\\$',
  '(?<![\\w$\\\\])\\$(?=[^\\s$])(?<math>[^$\\n]*[^\\s$\\\\])\\$(?![\\w$])',
  '\\\\(?<escaped>[!-/:-@\\[-`{-~])',
  '\\*\\*(?=\\S)(?<strong>(?:[^*\\n]|\\*(?!\\*))+)\\*\\*',
  '(?<!\\w)__(?=\\S)(?<strong2>[^_\\n]+)__(?!\\w)',
  '\\*(?=[^\\s*])(?<em>[^*\\n]+)\\*',
  '(?<!\\w)_(?=[^\\s_])(?<em2>[^_\\n]+)_(?!\\w)',
  '~~(?=\\S)(?<struck>[^~\\n]+)~~',
  '!?\\[(?<label>[^\\[\\]\\n]+)\\]\\((?<href>https?:[^\\s()]+(?:\\([^\\s()]*\\)[^\\s()]*)*)(?:\\s"[^"\\n]*")?\\)',
  '(?<![\\w/])(?<url>https?:\\/\\/[^\\s<>()"\'`]*[^\\s<>()"\'`.,;:!?])',
  ' {2,}(?<br>\\n)',
].join('|'), 'g');

const kNested = {strong: 'strong', strong2: 'strong', em: 'em', em2: 'em', struck: 's'};

function link(href) {
  const a = element('a');
  a.href = href;
  a.rel = 'noopener noreferrer';
  a.target = '_blank';
  return a;
}

// The node for one match, and on `work` what its inside is made of.
function nodeOf(g, work) {
  if (g.code !== undefined) return element('code', g.code.replace(/^ (.+) $/, '$1'));
  if (g.escaped !== undefined) return document.createTextNode(g.escaped);
  if (g.br !== undefined) return element('br');
  if (g.url !== undefined) {
    const a = link(g.url);
    a.textContent = g.url;
    return a;
  }
  const math = g.paren ?? g.math ?? g.display;
  if (math !== undefined) return formula(math, g.display !== undefined);
  let node, text;
  if (g.label !== undefined) {
    node = link(g.href);
    text = g.label;
  } else {
    const kind = Object.keys(kNested).find((name) => g[name] !== undefined);
    node = element(kNested[kind]);
    text = g[kind];
  }
  work.push([node, text]);
  return node;
}

export function addInline(parent, text) {
  const work = [[parent, text]];
  while (work.length) {
    const [into, now] = work.pop();
    let at = 0;
    for (const m of now.matchAll(kInline)) {
      into.append(now.slice(at, m.index));
      at = m.index + m[0].length;
      into.append(nodeOf(m.groups, work));
    }
    into.append(now.slice(at));
  }
}
