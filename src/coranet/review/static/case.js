// One case: look, choose, draw, decide.

import { packed, readBytes, readCase, saveCase, stayAlive } from '/static/api.js';
import { Pieces } from '/static/pieces.js';
import { Viewer } from '/static/viewer.js';

const $ = (id) => document.getElementById(id);
const EDGES = ['outer edge', 'inner edge'];
const IDLE = 60000; // milliseconds after which nobody is thought to be working

export class CaseView {
  constructor(say, onSaved) {
    Object.assign(this, { say, onSaved, viewer: new Viewer(), info: null, tool: { value: null, filled: false } });
    setInterval(() => this.#tick(), 1000);
    setInterval(() => this.#alive(), 5000);
    for (const kind of ['pointerdown', 'keydown', 'wheel']) {
      window.addEventListener(kind, () => { this.touched = Date.now(); }, { passive: true, capture: true });
    }
  }

  get dirty() { return Boolean(this.info && this.history.length); }

  // NiiVue makes itself ready, which takes a while: once, and best before the first case is asked for.
  prepare() {
    this.ready ??= this.viewer.open($('canvas'), $('slices'), () => this.#drawn(), (low, high) => this.#window(low, high));
    return this.ready;
  }

  async open(name, classes, row) {
    const [info, bytes, voxels] = await Promise.all([
      readCase(name), readBytes(name, 'region.bin'), this.viewer.read(name), this.prepare()]);
    this.classes = classes;
    this.names = Object.fromEntries(classes.map((one) => [one.value, one.name]));
    const pieces = new Pieces(info.pieces, bytes, info.choices);
    await this.viewer.load(info, classes, pieces, voxels);
    Object.assign(this, { info, pieces, history: [], seconds: info.seconds, touched: Date.now() });
    $('case-name').textContent = name;
    $('case-facts').textContent = row ? facts(row) : '';
    this.#others(info.others);
    this.#window(...info.window);
    this.#channels(info.channels);
    this.#pens();
    this.use(null);
    if (this.pieces.current && this.pieces.isDecided(this.pieces.current)) this.pieces.advance();
    this.#show();
    $('canvas').focus();
  }

  close() {
    if (this.info) stayAlive(this.info.name, { ticket: this.info.ticket, closed: true }).catch(() => {});
    this.info = null;
  }

  // --- choosing

  choose(answer, all) {
    const piece = this.pieces.current;
    if (!piece) { this.say('There is nothing to choose here. Draw, or accept.'); return; }
    const numbers = all ? this.pieces.alike(piece) : piece.numbers;
    const before = new Map(this.pieces.choices);
    this.viewer.edit((put) => this.pieces.each(numbers, answer, put));
    numbers.forEach((number) => this.pieces.choices.set(number, answer));
    this.history.push(before);
    const others = numbers.length > piece.numbers.length ? ` and ${numbers.length - piece.numbers.length} parts like it` : '';
    this.say(`${answer}: ${this.#words(piece)}${others}`);
    this.pieces.advance();
    this.#show();
  }

  move(step) { this.pieces.move(step); this.#show(); }

  finer() { this.say(this.pieces.finer() ? '' : 'This piece is as fine as pieces get. Draw, if you need more.'); this.#show(); }

  coarser() { if (this.pieces.coarser()) this.#show(); }

  undo() {
    if (!this.viewer.undo()) { this.say('There is nothing to undo.'); return; }
    this.pieces.choices = this.history.pop() ?? this.pieces.choices;
    this.say('Undone.');
    this.#show();
  }

  // --- drawing

  use(value, filled = this.tool.filled) {
    this.tool = { value, filled };
    this.viewer.pen(value, filled);
    for (const button of document.querySelectorAll('#pens button')) {
      button.setAttribute('aria-pressed', String(Number(button.dataset.value) === value && value !== null));
    }
    press('erase', value === 0);
    press('hand', value === null);
    press('fill', filled);
  }

  fill() { this.use(this.tool.value ?? this.classes[0].value, !this.tool.filled); }

  #drawn() { this.history.push(new Map(this.pieces.choices)); }

  // --- deciding

  async save(status, anyway = false) {
    const { info } = this;
    if (!info) return;
    const label = status === 'set aside' ? undefined : await packed(await this.viewer.bytes());
    const choices = Object.fromEntries(this.pieces.choices);
    try {
      await saveCase(info.name, { status, label, choices, seconds: this.seconds, revision: info.revision, anyway });
    } catch (error) {
      if (error.status !== 409 || !window.confirm(`${error.message} Save anyway?`)) { this.say(error.message, true); return; }
      await this.save(status, true);
      return;
    }
    this.history = [];
    await this.onSaved(info.name, status, status === 'corrected' ? this.pieces.left : 0);
  }

  // As it was predicted, unless something was changed: then it is a correction.
  accept() { return this.save(this.dirty || this.pieces.choices.size ? 'corrected' : 'accepted'); }

  // --- showing

  see(name) { press(name, this.viewer.toggle(name)); }

  slice(direction) { this.viewer.step(direction); }

  async channel(number) {
    const label = this.viewer.nv.drawBitmap.slice();
    await this.viewer.load(this.info, this.classes, this.pieces, await this.viewer.read(this.info.name, number), number);
    this.viewer.nv.drawBitmap.set(label);
    this.viewer.nv.drawAddUndoBitmap();
    this.viewer.nv.refreshDrawing(true);
    this.#show();
  }

  #show() {
    const { pieces } = this;
    const piece = pieces.current;
    $('piece').textContent = piece
      ? `${pieces.at + 1} of ${pieces.list.length}, ${pieces.left} left. ${this.#words(piece)}${this.#answer(piece)}`
      : 'Nothing is uncertain here.';
    this.viewer.mark((put) => { if (piece) pieces.each(piece.numbers, null, put); });
    if (piece) this.viewer.goTo(pieces.middle(piece));
  }

  #words({ key, voxels, level }) {
    const [slice, kind, , edge, sector] = key;
    const parts = [this.names[kind] ?? 'no object', `slice ${slice + 1}`];
    if (level > 0) parts.push(EDGES[edge]);
    if (level > 1) parts.push(`part ${sector + 1} of 8`);
    return `${parts.join(', ')}: ${voxels} voxel${voxels === 1 ? '' : 's'}`;
  }

  #answer(piece) { const answer = this.pieces.answerOf(piece); return answer ? ` · ${answer}` : ''; }

  #window(low, high) {
    const digits = high - low > 20 ? 0 : 3;
    $('low').value = low.toFixed(digits);
    $('high').value = high.toFixed(digits);
  }

  #channels(count) {
    $('channel-box').hidden = count < 2;
    $('channel').replaceChildren(...Array.from({ length: count }, (_, number) => new Option(String(number), String(number))));
  }

  #pens() {
    $('pens').replaceChildren(...this.classes.map(({ value, name, colour }, place) => {
      const button = document.createElement('button');
      button.type = 'button';
      button.className = 'pen';
      button.dataset.value = value;
      button.style.setProperty('--colour', `rgb(${colour.join()})`);
      const key = document.createElement('kbd');
      key.textContent = String(place + 1);
      button.append(key, ` ${name}`);
      button.onclick = () => this.use(value);
      return button;
    }));
  }

  #others(count) {
    $('banner').hidden = !count;
    $('banner').textContent = 'This case is open in another window too. Save in one of them alone.';
  }

  #tick() {
    if (this.info && !document.hidden && Date.now() - this.touched < IDLE) this.seconds += 1;
  }

  async #alive() {
    if (!this.info) return;
    const { name, ticket } = this.info;
    try {
      this.#others((await stayAlive(name, { ticket })).others);
    } catch {
      this.say('The server does not answer. Is coranet review still running?', true);
    }
  }
}

function press(name, on) {
  document.querySelector(`[data-do="${name}"]`).setAttribute('aria-pressed', String(on));
}

export function facts(row) {
  const { expected } = row;
  const said = [];
  if (expected.expected_dice !== undefined) {
    const range = expected.low !== undefined ? ` (${percent(expected.low)} to ${percent(expected.high)})` : '';
    said.push(`expected Dice ${percent(expected.expected_dice)}${range}`);
  } else if (row.share !== null) said.push(unsure(row.share));
  const sizes = Object.entries(row.millilitres).map(([name, size]) => `${name} ${size.toPrecision(3)} mL`);
  return [...said, ...sizes, ...(expected.flags ?? [])].join(' · ');
}

export const unsure = (share) => (share > 3 ? 'Hardly anything was found' : `Uncertain ${percent(share)} of the predicted volume`);

export const percent = (share) => `${Math.round(100 * share)} %`;
