// TeX formulas to MathML, which browsers draw themselves: the part of TeX that answers use. The formula is read once from
// left to right over a stack of what is open, so nothing is called for within itself; what cannot be read is shown as
// it was written.
import {element} from './dom.js';
import {kAccents, kAlphabets, kBig, kEnvironments, kFunctions, kIntegrals, kLetters, kOperators, kSpaces, kTexts, kUnder,
        kWithLimits} from './symbols.js';

const kSpace = 'http:' + '//www.w3.org/1998/Math/MathML';  // a name, not a place that is asked
const kDeepest = 40;
const kMostChars = 20000;
const kToken = /\\([A-Za-z]+\*?|[^])|\s+|%[^\n]*|\d+(?:\.\d+)?|[^]/gu;

function node(tag, children, attributes = {}) {
  const e = document.createElementNS(kSpace, tag);
  e.append(...children);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  return e;
}
const row = (nodes) => (nodes.length === 1 ? nodes[0] : node('mrow', nodes));
const op = (text, attributes) => node('mo', [text], attributes);
const fence = (text) => op(text, {fence: 'true', stretchy: 'true'});
const space = (width) => node('mspace', [], {width});

function inAlphabet(name, text) {
  const alphabet = kAlphabets[name];
  if (!alphabet) return text;
  const [upper, lower, digit, others] = alphabet;
  return Array.from(text, (c) => {
    if (others[c]) return others[c];
    if (c >= 'A' && c <= 'Z') return String.fromCodePoint(upper + c.charCodeAt(0) - 65);
    if (c >= 'a' && c <= 'z') return String.fromCodePoint(lower + c.charCodeAt(0) - 97);
    if (c >= '0' && c <= '9' && digit) return String.fromCodePoint(digit + c.charCodeAt(0) - 48);
    return c;
  }).join('');
}

class Reader {
  constructor(source, display) {
    this.tokens = source.match(kToken) || [];
    this.at = 0;
    this.display = display;
    this.stack = [{kind: 'group', nodes: []}];
  }

  fail(why) {
    throw new SyntaxError(why);
  }
  get top() {
    return this.stack.at(-1);
  }
  open(frame) {
    if (this.stack.length >= kDeepest) this.fail('nested too deeply');
    this.stack.push(frame);
  }
  // Hands a finished piece to what is open; a command that has all it waits for becomes a piece itself.
  give(piece) {
    while (this.top.kind === 'wants') {
      this.top.got.push(piece);
      if (this.top.got.length < this.top.n) return;
      const {make, got} = this.stack.pop();
      piece = make(...got);
    }
    this.top.nodes.push(piece);
  }
  want(n, make) {
    this.open({kind: 'wants', n, got: [], make});
  }

  skipSpace() {
    while (/^\s/.test(this.tokens[this.at] ?? '')) ++this.at;
  }
  next() {
    this.skipSpace();
    return this.tokens[this.at++] ?? this.fail('ends too early');
  }
  // The text of {…} as it is written.
  raw() {
    if (this.next() !== '{') return this.tokens[this.at - 1];
    let text = '';
    for (let depth = 1; ; text += this.tokens[this.at++]) {
      const t = this.tokens[this.at] ?? this.fail('a { is not closed');
      depth += t === '{' ? 1 : t === '}' ? -1 : 0;
      if (depth === 0) break;
    }
    ++this.at;
    return text;
  }
  delimiter() {
    const t = this.next();
    if (t === '.') return '';
    if (t[0] !== '\\') return t;
    return kOperators.get(t.slice(1)) ?? this.fail('no delimiter: ' + t);
  }

  // ^ or _ behind the last piece; both of one base become one.
  script(mark) {
    if (this.top.kind === 'wants') this.fail(mark + ' without a base');
    const base = this.top.nodes.pop() ?? node('mrow', []);
    this.want(1, (x) => {
      const over = base.limits === 'always' || (base.limits && this.display);
      const [sub, sup, both] = over ? ['munder', 'mover', 'munderover'] : ['msub', 'msup', 'msubsup'];
      const old = base.script;  // the mark that `base` already has
      if (old && old !== mark && base.children.length === 2) {
        const [inner, first] = [...base.children];
        const all = mark === '^' ? [inner, first, x] : [inner, x, first];
        return node(base.over ? 'munderover' : 'msubsup', all);
      }
      const out = node(mark === '^' ? sup : sub, [base, x]);
      out.script = mark;
      out.over = both === 'munderover';
      return out;
    });
  }
  primes() {
    let n = 1;
    while (this.tokens[this.at] === "'") ++this.at, ++n;
    this.script('^');
    this.give(op('′'.repeat(n)));
  }

  // ---- what has an end -------------------------------------------------------------------------------------------

  close(kind) {
    if (this.top.kind !== kind) this.fail('an end without its beginning');
    return this.stack.pop();
  }
  begin() {
    const name = this.raw();
    if (!Object.hasOwn(kEnvironments, name)) this.fail('no environment ' + name);
    const form = kEnvironments[name];
    if (name === 'array') this.raw();
    this.open({kind: 'table', name, form, rows: [], cells: [], nodes: []});
  }
  cell() {
    if (this.top.kind !== 'table') this.fail('& outside a table');
    this.top.cells.push(this.top.nodes);
    this.top.nodes = [];
  }
  line() {
    if (this.tokens[this.at] === '[') while (this.next() !== ']');
    if (this.top.kind === 'group' && this.stack.length === 1) {  // lines without a table: a table of one column
      const nodes = this.stack.pop().nodes;
      this.stack.push({kind: 'table', name: '', form: ['', '', 'center'], rows: [], cells: [], nodes});
    }
    this.cell();
    this.top.rows.push(this.top.cells);
    this.top.cells = [];
  }
  table(frame) {
    const {form: [left, right, align]} = frame;
    frame.cells.push(frame.nodes);
    if (frame.cells.length > 1 || frame.nodes.length) frame.rows.push(frame.cells);
    const side = (i) => (align === 'pair' ? (i % 2 ? 'left' : 'right') : align);
    const rows = frame.rows.map((cells) => node('mtr', cells.map((c, i) => node('mtd', c, {class: side(i)}))));
    const out = node('mtable', rows, align === 'pair' ? {displaystyle: 'true'} : {});
    return left || right ? node('mrow', [...(left ? [fence(left)] : []), out, ...(right ? [fence(right)] : [])]) : out;
  }

  // ---- commands --------------------------------------------------------------------------------------------------

  structure(name) {
    switch (name) {
      case 'frac': case 'dfrac': case 'tfrac': case 'cfrac':
        return this.want(2, (a, b) => node('mfrac', [a, b], name === 'dfrac' ? {displaystyle: 'true'} : {}));
      case 'binom':
        return this.want(2, (a, b) => node('mrow', [fence('('), node('mfrac', [a, b], {linethickness: '0'}), fence(')')]));
      case 'sqrt':
        this.skipSpace();
        if (this.tokens[this.at] !== '[') return this.want(1, (x) => node('msqrt', [x]));
        ++this.at;
        this.want(2, (n, x) => node('mroot', [x, n]));
        return this.open({kind: 'index', nodes: []});
      case 'overset': case 'stackrel':
        return this.want(2, (a, b) => node('mover', [b, a]));
      case 'underset':
        return this.want(2, (a, b) => node('munder', [b, a]));
      case 'boxed':
        return this.want(1, (x) => node('mrow', [x], {class: 'boxed'}));
      case 'left':
        return this.open({kind: 'left', nodes: [fence(this.delimiter())]});
      case 'right': {
        const right = this.delimiter();
        return this.give(node('mrow', [...this.close('left').nodes, fence(right)]));
      }
      case 'middle':
        return this.give(fence(this.delimiter()));
      case 'begin':
        return this.begin();
      case 'end': {
        const frame = this.close('table');
        if (this.raw() !== frame.name) this.fail('another environment ends');
        return this.give(this.table(frame));
      }
      case 'not': {
        const t = this.next();
        return this.give(op((kOperators.get(t.slice(1)) ?? t) + '\u0338'));
      }
      case '\\': case 'newline': case 'cr':
        return this.line();
      case 'limits': case 'nolimits': case 'displaystyle': case 'textstyle': case 'nonumber': case 'notag': case 'hline':
        return undefined;
    }
    return this.plain(name);
  }

  plain(name) {
    if (/^([bB]igg?)[lrm]?$/.test(name)) return this.give(op(this.delimiter(), {stretchy: 'false'}));
    if (kTexts.has(name)) return this.give(this.words(name, this.raw()));
    if (Object.hasOwn(kAlphabets, name)) {
      const text = this.raw();
      if (/^[A-Za-z0-9]+$/.test(text)) return this.give(node('mi', [inAlphabet(name, text)], {mathvariant: 'normal'}));
      return this.give(this.words('text', kLetters.get(text.slice(1)) ?? text));
    }
    if (kLetters.has(name)) return this.give(node('mi', [kLetters.get(name)]));
    if (kOperators.has(name)) return this.give(op(kOperators.get(name)));
    if (kSpaces.has(name)) return this.give(space(kSpaces.get(name)));
    if (kAccents.has(name)) return this.want(1, (x) => node('mover', [x, op(kAccents.get(name))], {accent: 'true'}));
    if (kUnder.has(name)) return this.want(1, (x) => Object.assign(node('munder', [x, op(kUnder.get(name))]), {limits: 'always'}));
    const big = kBig.get(name) ?? kIntegrals.get(name);
    if (big) return this.give(Object.assign(op(big, {largeop: 'true'}), {limits: kBig.has(name)}));
    if (kFunctions.has(name))
      return this.give(Object.assign(node('mi', [name], {mathvariant: 'normal'}), {limits: kWithLimits.has(name)}));
    return this.fail('no command ' + name);
  }
  words(name, text) {
    if (name === 'operatorname' || name === 'mathop') return node('mi', [text], {mathvariant: 'normal'});
    return node('mtext', [text.replaceAll(' ', '\u00a0')], {class: name});
  }

  character(t) {
    if (t === '{') return this.open({kind: 'group', nodes: []});
    if (t === '}') {
      if (this.stack.length === 1) this.fail('a } too many');
      return this.give(row(this.close('group').nodes));
    }
    if (t === ']' && this.top.kind === 'index') return this.give(row(this.stack.pop().nodes));
    if (t === '^' || t === '_') return this.script(t);
    if (t === "'") return this.primes();
    if (t === '&') return this.cell();
    if (t === '~') return this.give(space('0.33em'));
    if (/^\d/.test(t)) return this.give(node('mn', [t]));
    if (/^\p{L}/u.test(t)) return this.give(node('mi', [t]));
    return this.give(op(t === '-' ? '−' : t === '*' ? '∗' : t, '()[]|/'.includes(t) ? {stretchy: 'false'} : {}));
  }

  read() {
    while (this.at < this.tokens.length) {
      const t = this.tokens[this.at++];
      if (t[0] === '\\' && t.length > 1) this.structure(t.slice(1));
      else if (!/^[\s%]/.test(t)) this.character(t);
    }
    if (this.stack.length === 1 && this.top.name === '') return this.table(this.stack.pop());
    if (this.stack.length !== 1) this.fail('something is not closed');
    return node('mrow', this.top.nodes);
  }
}

// The element for a formula in TeX; its source, as code, where it cannot be read.
export function formula(source, display) {
  try {
    if (source.length > kMostChars) throw new SyntaxError('too long');
    const math = node('math', [new Reader(source.trim(), display).read()], display ? {display: 'block'} : {});
    math.setAttribute('alttext', source.trim());
    return math;
  } catch (e) {
    if (!(e instanceof SyntaxError)) throw e;
    return element('code', (display ? '$$' : '$') + source + (display ? '$$' : '$'), 'tex');
  }
}
