// All cases, worst first: what is to do, and what is done.

import { fileOf } from '/static/api.js';
import { percent, unsure } from '/static/case.js';

const $ = (id) => document.getElementById(id);
const STATES = ['all', 'to do', 'accepted', 'corrected', 'set aside'];

export class QueueView {
  constructor() {
    this.state = 'all';
    this.rows = [];
    $('states').replaceChildren(...STATES.map((state) => {
      const button = document.createElement('button');
      button.type = 'button';
      button.dataset.state = state;
      button.onclick = () => { this.state = state; this.show(this.content); };
      return button;
    }));
    for (const id of ['search', 'flagged']) $(id).addEventListener('input', () => this.show(this.content));
  }

  // The next case to do after one, from the top where none follows.
  next(name) {
    const waiting = this.rows.filter((row) => row.ready && row.status === 'to do');
    const place = this.rows.findIndex((row) => row.name === name);
    return (waiting.find((row) => this.rows.indexOf(row) > place) ?? waiting[0])?.name;
  }

  show(content) {
    this.content = content;
    this.rows = content.cases;
    const done = this.rows.filter((row) => row.status !== 'to do').length;
    $('title').textContent = content.title;
    $('bar').value = this.rows.length ? done / this.rows.length : 0;
    $('done').textContent = `${done} of ${this.rows.length} done`;
    const ready = this.rows.filter((row) => row.ready).length;
    $('busy').textContent = content.busy ? `Preparing ${content.busy} (${ready} of ${this.rows.length} ready)` : '';
    for (const button of $('states').children) {
      const { state } = button.dataset;
      const count = state === 'all' ? this.rows.length : this.rows.filter((row) => row.status === state).length;
      button.textContent = `${state} ${count}`;
      button.setAttribute('aria-pressed', String(state === this.state));
    }
    const shown = this.rows.filter((row) => this.#fits(row));
    this.#cards(shown);
    $('none').hidden = shown.length > 0;
  }

  #fits(row) {
    return (this.state === 'all' || row.status === this.state)
      && row.name.toLowerCase().includes($('search').value.toLowerCase())
      && (!$('flagged').checked || (row.expected.flags ?? []).length > 0 || row.problem);
  }

  // Cards that are there are kept, so that the focus stays where it is.
  #cards(rows) {
    const there = new Map([...$('cards').children].map((item) => [item.dataset.name, item]));
    const items = rows.map((row) => {
      const looks = JSON.stringify(row);
      const old = there.get(row.name);
      return old && old.dataset.looks === looks ? old : card(row, looks);
    });
    const list = $('cards');
    items.forEach((item, place) => { if (list.children[place] !== item) list.insertBefore(item, list.children[place] ?? null); });
    while (list.children.length > items.length) list.lastChild.remove();
  }
}

function card(row, looks) {
  const item = document.createElement('li');
  Object.assign(item.dataset, { name: row.name, looks });
  const link = make(row.ready ? 'a' : 'div', 'card');
  if (row.ready) {
    link.href = `#case=${encodeURIComponent(row.name)}`;
    const picture = document.createElement('img');
    Object.assign(picture, { src: fileOf(row.name, 'thumbnail.jpg'), alt: '', loading: 'lazy' });
    link.append(picture);
  } else link.append(make('div', 'blank'));
  const words = document.createElement('div');
  words.append(make('strong', '', row.name), document.createElement('br'));
  words.append(row.problem ? make('span', 'pill problem', 'cannot be used') : make('span', `pill ${row.status.replace(' ', '-')}`, row.status));
  for (const [kind, text] of lines(row)) words.append(make('p', kind, text));
  link.append(words);
  item.append(link);
  return item;
}

function lines(row) {
  if (row.problem) return [['flag', row.problem]];
  if (!row.ready) return [['', 'Not predicted yet']];
  const { expected_dice: dice, low, high, flags = [] } = row.expected;
  const said = [];
  if (dice !== undefined) said.push(['', `Expected Dice ${percent(dice)}${low === undefined ? '' : `, ${percent(low)} to ${percent(high)}`}`]);
  said.push(['', unsure(row.share)]);
  if (row.seconds) said.push(['', `${Math.max(1, Math.round(row.seconds / 60))} min, ${row.changed ?? 0} voxels changed`]);
  return [...said, ...flags.map((flag) => ['flag', flag])];
}

function make(kind, name, text = '') {
  const element = document.createElement(kind);
  element.className = name;
  element.textContent = text;
  return element;
}
