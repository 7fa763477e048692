// Making and finding elements. Text becomes text nodes, never markup.

export const $ = (id) => document.getElementById(id);

export function element(tag, text, className) {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  if (className) e.className = className;
  return e;
}

export function button(label, act, className) {
  const b = element('button', label, className);
  b.type = 'button';
  b.onclick = act;
  return b;
}

// Strokes in a box of 24.
const kIcons = {
  pencil: 'M4 20h4L19 9l-4-4L4 16z M13 7l4 4',
  bin: 'M5 7h14 M10 4h4 M7 7l1 13h8l1-13 M10 11v6 M14 11v6',
  close: 'M6 6l12 12 M18 6L6 18',
  menu: 'M4 7h16 M4 12h16 M4 17h16',
  back: 'M15 5l-7 7 7 7',
  on: 'M9 5l7 7-7 7',
};

export function icon(name) {
  const kSvg = 'http:' + '//www.w3.org/2000/svg';  // a name, not a place that is asked
  const svg = document.createElementNS(kSvg, 'svg');
  const path = document.createElementNS(kSvg, 'path');
  svg.setAttribute('viewBox', '0 0 24 24');
  svg.setAttribute('aria-hidden', 'true');
  path.setAttribute('d', kIcons[name]);
  svg.append(path);
  return svg;
}

export function iconButton(name, label, act, className) {
  const b = button('', act, className ? 'icon ' + className : 'icon');
  b.setAttribute('aria-label', label);
  b.title = label;
  b.append(icon(name));
  return b;
}

export async function copyText(text, by) {
  const label = by.textContent;
  try {
    await navigator.clipboard.writeText(text);
    by.textContent = 'Copied';
  } catch {
    by.textContent = 'Not allowed';
  }
  setTimeout(() => { by.textContent = label; }, 1200);
}

export function offerFile(name, type, text) {
  const a = element('a');
  a.href = URL.createObjectURL(new Blob([text], {type}));
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 10000);
}
