// The page: which view is shown, and what each key does. Every button has a key, and every key is in this one table.

import { readQueue, readTraining, startTraining } from '/static/api.js';
import { CaseView } from '/static/case.js';
import { QueueView } from '/static/queue.js';

const $ = (id) => document.getElementById(id);
const queue = new QueueView();
const view = new CaseView(say, onSaved);

const ANSWERS = { c: 'conservative', o: 'prediction', r: 'radical' };
const CASE_KEYS = {
  n: ['next', 'next uncertain piece, largest first', () => view.move(1)],
  p: ['previous', 'the piece before', () => view.move(-1)],
  c: ['conservative', 'take the conservative answer for the piece', (all) => view.choose('conservative', all)],
  o: ['prediction', 'take the prediction as it was', (all) => view.choose('prediction', all)],
  r: ['radical', 'take the radical answer', (all) => view.choose('radical', all)],
  f: ['finer', 'cut the piece finer: edges, then sectors', () => view.finer()],
  d: ['coarser', 'coarser again', () => view.coarser()],
  e: ['erase', 'erase', () => view.use(0)],
  g: ['fill', 'fill what the pen goes round', () => view.fill()],
  h: ['hand', 'look, do not draw', () => view.use(null)],
  z: ['undo', 'undo a choice or a stroke', () => view.undo()],
  l: ['label', 'show or hide the label', () => view.see('label')],
  i: ['region', 'show or hide what is uncertain', () => view.see('region')],
  k: ['lines', 'show or hide the conservative and the radical outline', () => view.see('lines')],
  v: ['view', 'three planes, one plane, or in space', () => view.viewer.look(view.viewer.view + 1)],
  '+': ['closer', 'closer', () => view.viewer.zoom(1.4)],
  '-': ['farther', 'farther', () => view.viewer.zoom(1 / 1.4)],
  w: ['reset', 'window and zoom as at first', reset],
  s: ['save', 'save the correction, and on to the next case', () => view.save('corrected')],
  a: ['accept', 'accept the case as it is', () => view.accept()],
  x: ['aside', 'set the case aside', () => view.save('set aside')],
  Escape: ['leave', 'back to the queue', () => leave()],
  ArrowUp: ['', 'a slice up', () => view.slice(1)],
  ArrowDown: ['', 'a slice down', () => view.slice(-1)],
  '[': ['', 'a smaller brush', () => brush(-1)],
  ']': ['', 'a larger brush', () => brush(1)],
};
const QUEUE_KEYS = { n: ['', 'open the first case that is to do', () => open(queue.next())] };
const PAGE_KEYS = { t: ['', 'train on', showTraining], '?': ['', 'these keys', () => $('help').showModal()] };

function say(text, bad = false) {
  $('say').textContent = text;
  $('say').classList.toggle('bad', bad);
}

const attempt = (work) => Promise.resolve().then(work).catch((error) => say(error.message, true));

function open(name, said = '') {
  location.hash = name ? `case=${encodeURIComponent(name)}` : '';
  if (said || !name) say(name ? said : `${said} Every case that is ready is done.`.trim());
}

function leave() {
  if (!view.dirty || window.confirm('Leave without saving what you changed?')) location.hash = '';
}

async function refresh() { queue.show(await readQueue()); }

async function onSaved(name, status, left) {
  await refresh();
  open(queue.next(name), `${name}: ${status}${left ? `, ${left} uncertain pieces left as predicted` : ''}.`);
}

async function route() {
  const name = location.hash.startsWith('#case=') ? decodeURIComponent(location.hash.slice(6)) : '';
  view.close();
  $('queue-view').hidden = Boolean(name);
  $('case-view').hidden = !name;
  await refresh();
  if (!name) { $('home').focus(); attempt(() => view.prepare()); return; }
  const row = queue.rows.find((one) => one.name === name);
  try {
    await view.open(name, queue.content.classes, row);
  } catch (error) {
    location.hash = '';
    throw error;
  }
}

// One after the other: a case that is still loading is not mixed with the next one.
let routing = Promise.resolve();
function go() { routing = routing.then(() => attempt(route)); }

function brush(step) {
  $('pen-size').value = Number($('pen-size').value) + step;
  view.viewer.penSize = Number($('pen-size').value);
}

function reset() {
  view.viewer.reset();
  view.viewer.setWindow(...view.info.window);
  [$('low').value, $('high').value] = view.info.window;
}

// --- training on

let watching = 0;
async function showTraining() {
  if (!$('train').open) $('train').showModal();
  tell(await readTraining());
}

function tell(state) {
  $('command').textContent = state.command;
  $('train-start').disabled = state.running;
  $('log').hidden = !state.said.length;
  $('log').textContent = state.said.join('\n');
  const rows = Object.entries(state.gain ?? {}).filter(([, row]) => row.cases);
  const gains = rows.map(([what, row]) => `${row.cases} ${what} cases: Dice ${(100 * row.before).toFixed(1)} before, ${(100 * row.after).toFixed(1)} now.`);
  const ended = { true: 'Training.', false: state.ended === 0 ? `Trained. ${gains.join(' ')}` : `It ended with status ${state.ended}.` };
  $('gain').textContent = state.ended === null && !state.running ? '' : ended[state.running];
  clearTimeout(watching);
  if (state.running && $('train').open) watching = setTimeout(() => attempt(showTraining), 2000);
}

// --- keys

function onKey(event) {
  const typing = event.target.matches('input:not([type=range], [type=checkbox]), select, textarea');
  if (event.ctrlKey && event.key === 'z' && view.info) { event.preventDefault(); view.undo(); return; }
  if (typing || event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
  const inCase = !$('case-view').hidden && view.info;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const all = event.shiftKey && key in ANSWERS;
  const found = { ...PAGE_KEYS, ...(inCase ? CASE_KEYS : QUEUE_KEYS) }[key];
  const pen = inCase && /^[1-9]$/.test(key) ? view.classes[Number(key) - 1] : undefined;
  if (!found && !pen) return;
  event.preventDefault();
  event.stopPropagation();
  attempt(() => (pen ? view.use(pen.value) : found[2](all)));
}

function listKeys() {
  const rows = Object.entries({ ...PAGE_KEYS, ...CASE_KEYS }).map(([key, [, words]]) => [key, words]);
  rows.push(['1 … 9', 'draw with this class'], ['Shift c', 'this piece, and all like it on other slices (also o and r)'], ['n', 'in the queue: open the first case that is to do']);
  $('keys').replaceChildren(...rows.map(([key, words]) => {
    const line = document.createElement('div');
    const name = document.createElement('kbd');
    name.textContent = key;
    line.append(name, words);
    return line;
  }));
}

for (const [, [name, , work]] of Object.entries(CASE_KEYS)) {
  const button = name && document.querySelector(`[data-do="${name}"]`);
  if (button) button.addEventListener('click', (event) => attempt(() => work(event.shiftKey)));
}
$('help-open').onclick = () => $('help').showModal();
$('train-open').onclick = () => attempt(showTraining);
$('train-start').onclick = () => attempt(async () => tell(await startTraining()));
$('pen-size').oninput = () => brush(0);
for (const id of ['low', 'high']) $(id).onchange = () => view.viewer.setWindow(Number($('low').value), Number($('high').value));
$('channel').onchange = () => attempt(() => view.channel(Number($('channel').value)));
window.addEventListener('keydown', onKey, { capture: true });
window.addEventListener('hashchange', go);
window.addEventListener('beforeunload', (event) => { if (view.dirty) event.preventDefault(); });
window.addEventListener('pagehide', () => view.close());
setInterval(() => { if (!$('queue-view').hidden && !document.hidden) attempt(refresh); }, 3000);
window.review = view; // for tests, and for whoever looks into the page
listKeys();
go();
