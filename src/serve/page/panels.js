// What opens over the conversation and leaves it where it is: settings, the engine's numbers, files; and on a narrow
// screen the list of conversations. One at a time; Escape or its own button closes it, and the focus goes back.
import {$, element} from './dom.js';
import {ask} from './server.js';

const kEngineMs = 1000;
const narrow = matchMedia('(max-width: 44rem)');

let open = null;  // {panel, by}
let before = null;

export function closePanel() {
  if (!open) return false;
  const {panel, by} = open;
  open = null;
  const hadFocus = panel.contains(document.activeElement);
  panel.hidden = true;
  by.ariaExpanded = 'false';
  if (hadFocus) (by.offsetParent ? by : $('menu')).focus();
  return true;
}

export function openPanel(panel, by) {
  const same = open?.panel === panel;
  closePanel();
  if (same) return;
  closeMenu();
  open = {panel, by};
  panel.hidden = false;
  by.ariaExpanded = 'true';
  panel.querySelector('.close').focus();
  if (panel.id === 'engine') {
    before = null;
    showEngine();
  }
}

export function closeMenu() {
  if (!document.body.classList.contains('menu')) return false;
  document.body.classList.remove('menu');
  $('main').inert = false;
  $('menu').ariaExpanded = 'false';
  $('menu').focus();
  return true;
}

export function openMenu() {
  closePanel();
  document.body.classList.add('menu');
  $('main').inert = true;
  $('menu').ariaExpanded = 'true';
  $('close-menu').focus();
}

narrow.addEventListener('change', closeMenu);

function rowsOf(now) {
  const rate = (name) => (before ? ((now[name] - before[name]) / ((now.at - before.at) / 1000)).toFixed(1) : '–');
  return {
    'running': now.running,
    'waiting': now.waiting,
    'blocks in use': `${now.blocks - now.free_blocks - now.cached_blocks} of ${now.blocks}`,
    'blocks cached': now.cached_blocks,
    'prompt tokens cached': now.prompt_tokens ? `${(100 * now.cached_tokens / now.prompt_tokens).toFixed(0)} %` : '–',
    'last step': `${now.step_ms.toFixed(1)} ms`,
    'tokens/s out': rate('generated_tokens'),
    'tokens/s computed': rate('computed_tokens'),
    'preempted': now.preempted,
  };
}

async function showEngine() {
  if ($('engine').hidden) return;
  const box = $('engine-numbers');
  try {
    const now = {...await ask('engine'), at: performance.now()};
    box.replaceChildren(...Object.entries(rowsOf(now)).map(([name, value]) => {
      const div = element('div');
      div.append(element('dt', name), element('dd', String(value)));
      return div;
    }));
    before = now;
  } catch (e) {
    const div = element('div');
    div.append(element('dt', 'engine'), element('dd', e.message, 'error'));
    box.replaceChildren(div);
  }
  setTimeout(showEngine, kEngineMs);
}
