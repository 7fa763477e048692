// Colours for code: words, texts, numbers and comments of common languages, told apart by one expression per family. A
// language that is not known stays plain.

const kMostChars = 200000;

const kDouble = '"(?:[^"\\\\\\n]|\\\\[^])*"?';
const kSingle = "'(?:[^'\\\\\\n]|\\\\[^])*'?";
const kBack = '`(?:[^`\\\\]|\\\\[^])*`?';
const kSlashes = '\\/\\/[^\\n]*|\\/\\*(?:[^*]|\\*(?!\\/))*(?:\\*\\/)?';
const kHash = '#[^\\n]*';
const kNumber = '\\b(?:0[xXbBoO][\\da-fA-F_]+|\\d[\\d_]*(?:\\.\\d[\\d_]*)?(?:[eE][+-]?\\d+)?)\\w*';
const kWord = '[A-Za-z_$][\\w$]*';

const kC = 'auto break case catch class const constexpr continue default delete do else enum explicit export extern false final ' +
  'finally for friend goto if import inline int char bool float double long short unsigned signed void interface let mutable ' +
  'namespace new noexcept null nullptr operator override package private protected public register return size_t sizeof ' +
  'static struct super switch template this throw throws true try typedef typename union using var virtual volatile while ' +
  'abstract boolean byte extends implements instanceof string async await foreach in is out ref sealed record';
const kJs = 'async await break case catch class const continue debugger default delete do else enum export extends false finally for ' +
  'from function get if implements import in instanceof interface let new null of private protected public readonly return ' +
  'set static super switch this throw true try type typeof undefined var void while yield as number string boolean any never';
const kGo = 'break case chan const continue default defer else fallthrough false for func go goto if import interface map nil ' +
  'package range return select string struct switch true type var int error bool byte rune';
const kRust = 'as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut ' +
  'pub ref return self Self static struct super trait true type unsafe use where while i32 i64 u8 u32 u64 usize f32 f64 ' +
  'bool str String Vec Option Result';
const kKotlin = 'as break class companion continue data do else enum extension false final for fun func guard if import in init ' +
  'interface internal is let null nil object open override private protocol public return sealed self static struct super ' +
  'switch this throw true try typealias val var when where while';
const kPython = 'and as assert async await break class continue def del elif else except False finally for from global if import in ' +
  'is lambda match None nonlocal not or pass raise return self True try while with yield';
const kRuby = 'begin break case class def do else elsif end ensure false for if in module next nil not or puts require rescue ' +
  'return self super then true unless until when while yield and';
const kShell = 'case cd do done echo elif else esac exit export fi for function if in local read return set shift source then ' +
  'trap until while sudo';
const kSql = 'add all alter and as asc between by case cast count create cross delete desc distinct drop else end exists from full ' +
  'group having in index inner insert into is join key left like limit not null offset on or order outer primary references ' +
  'right select set sum table then union unique update values view when where with avg min max int integer text varchar';
const kData = 'true false null yes no on off';
const kCss = 'important inherit initial none auto var calc';

// name: [words, expression of comments, expression of texts, words in any case]
const kFamilies = {
  c: [kC, kSlashes + '|^[ \\t]*#[^\\n]*', `${kDouble}|${kSingle}`],
  js: [kJs, kSlashes, `${kDouble}|${kSingle}|${kBack}`],
  go: [kGo, kSlashes, `${kDouble}|${kSingle}|${kBack}`],
  rust: [kRust, kSlashes, `${kDouble}|'(?:[^'\\\\\\n]|\\\\[^\\n]+)'`],
  kotlin: [kKotlin, kSlashes, `"""(?:[^"]|"(?!""))*(?:""")?|${kDouble}|${kSingle}`],
  php: [kC + ' ' + kJs + ' echo fn use', `${kSlashes}|${kHash}`, `${kDouble}|${kSingle}`],
  python: [kPython, kHash, `[rbfuRBFU]{0,2}(?:"""(?:[^"\\\\]|\\\\[^]|"(?!""))*(?:""")?|'''(?:[^'\\\\]|\\\\[^]|'(?!''))*(?:''')?|${kDouble}|${kSingle})`],
  ruby: [kRuby, kHash, `${kDouble}|${kSingle}`],
  shell: [kShell, '(?<![\\w$])' + kHash, `${kDouble}|'[^']*'?`],
  sql: [kSql, '--[^\\n]*|\\/\\*(?:[^*]|\\*(?!\\/))*(?:\\*\\/)?', `'[^']*'?|"[^"\\n]*"?`, true],
  data: [kData, kHash, `${kDouble}|${kSingle}`],
  json: [kData, kSlashes, kDouble],
  css: [kCss, '\\/\\*(?:[^*]|\\*(?!\\/))*(?:\\*\\/)?', `${kDouble}|${kSingle}`],
  markup: ['', '<!--(?:[^-]|-(?!->))*(?:-->)?', `${kDouble}|'[^'\\n<>]*'`],
};

const kNames = {
  c: 'c cc cpp c++ cxx h hpp java cs csharp c# cuda objc scala dart glsl', js: 'js javascript jsx ts typescript tsx mjs',
  go: 'go golang', rust: 'rust rs', kotlin: 'kotlin kt swift', php: 'php', python: 'python py python3', ruby: 'ruby rb',
  shell: 'sh bash shell zsh console dockerfile docker makefile make cmake', sql: 'sql sqlite mysql postgresql',
  data: 'yaml yml toml ini conf properties', json: 'json jsonc json5', css: 'css scss less',
  markup: 'html xml svg xhtml vue',
};
const kFamilyOf = new Map(Object.entries(kNames).flatMap(([family, names]) => names.split(' ').map((n) => [n, family])));

const compiled = new Map();

function familyOf(language) {
  const name = kFamilyOf.get(language.toLowerCase());
  if (!name) return null;
  if (!compiled.has(name)) {
    const [words, comment, text, anyCase] = kFamilies[name];
    const tag = name === 'markup' ? '<\\/?[\\w:-]+|\\/?>|&[\\w#]+;' : '(?!)';
    compiled.set(name, {
      words: new Set(words.split(' ')),
      fold: (word) => (anyCase ? word.toLowerCase() : word),
      parts: new RegExp(`(?<comment>${comment})|(?<string>${text})|(?<keyword>${tag})|(?<number>${kNumber})|(?<word>${kWord})`, 'gm'),
    });
  }
  return compiled.get(name);
}

function span(kind, text) {
  const e = document.createElement('span');
  e.className = 'c-' + kind;
  e.textContent = text;
  return e;
}

function kindOf(family, m) {
  const {comment, string, keyword, number, word} = m.groups;
  if (comment !== undefined) return 'comment';
  if (string !== undefined) return 'string';
  if (keyword !== undefined) return 'keyword';
  if (number !== undefined) return 'number';
  if (family.words.has(family.fold(word))) return 'keyword';
  return m.input[m.index + word.length] === '(' ? 'call' : '';
}

export function highlight(text, language) {
  const out = document.createDocumentFragment();
  const family = text.length <= kMostChars ? familyOf(language) : null;
  let at = 0;
  if (family) {
    for (const m of text.matchAll(family.parts)) {
      const kind = kindOf(family, m);
      if (!kind || !m[0]) continue;
      out.append(text.slice(at, m.index), span(kind, m[0]));
      at = m.index + m[0].length;
    }
  }
  out.append(text.slice(at));
  return out;
}
