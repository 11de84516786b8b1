// The uncertain region in pieces: coarse first, finer on demand. The server cut it (pieces.py); here one walks through it.

const LEVELS = [3, 4, 5]; // how much of a key (slice, class, object, edge, sector) tells pieces apart
const begins = (key, start) => start.every((value, place) => key[place] === value);

export class Pieces {
  constructor(rows, bytes, choices) {
    this.finest = rows.map(([key, start, voxels, middle]) => ({ key, start, voxels, middle }));
    const count = bytes.byteLength / 7;
    this.index = new Uint32Array(bytes, 0, count);
    ['prediction', 'conservative', 'radical'].forEach((name, place) => {
      this[name] = new Uint8Array(bytes, 4 * count + place * count, count);
    });
    this.choices = new Map(Object.entries(choices).map(([number, choice]) => [Number(number), choice]));
    this.list = this.#grouped(this.finest.map((_, number) => number), 0);
    this.at = 0;
  }

  get current() { return this.list[this.at]; }

  // Pieces of one level, largest first: each with the numbers of its finest ones.
  #grouped(numbers, level) {
    const found = new Map();
    for (const number of numbers) {
      const key = this.finest[number].key.slice(0, LEVELS[level]);
      const name = key.join();
      if (!found.has(name)) found.set(name, { key, level, numbers: [], voxels: 0 });
      found.get(name).numbers.push(number);
      found.get(name).voxels += this.finest[number].voxels;
    }
    return [...found.values()].sort((a, b) => b.voxels - a.voxels);
  }

  isDecided(piece) { return piece.numbers.every((number) => this.choices.has(number)); }

  answerOf(piece) {
    const answers = new Set(piece.numbers.map((number) => this.choices.get(number)));
    return answers.size === 1 ? [...answers][0] : undefined;
  }

  get left() { return this.list.filter((piece) => !this.isDecided(piece)).length; }

  move(step) { if (this.list.length) this.at = (this.at + step + this.list.length) % this.list.length; }

  // To the next one that is not decided; stays where all are.
  advance() {
    for (let step = 1; step <= this.list.length; step += 1) {
      const place = (this.at + step) % this.list.length;
      if (!this.isDecided(this.list[place])) { this.at = place; return; }
    }
  }

  finer() {
    const piece = this.current;
    if (!piece || piece.level === 2) return false;
    let parts = this.#grouped(piece.numbers, piece.level + 1);
    if (parts.length === 1 && piece.level === 0) parts = this.#grouped(piece.numbers, 2);
    if (parts.length === 1) return false;
    this.list.splice(this.at, 1, ...parts);
    return true;
  }

  coarser() {
    const piece = this.current;
    if (!piece || piece.level === 0) return false;
    const key = piece.key.slice(0, LEVELS[piece.level - 1]);
    const numbers = this.list.filter((one) => begins(one.key, key)).flatMap((one) => one.numbers);
    this.at = this.list.findIndex((one) => begins(one.key, key));
    this.list = this.list.filter((one, place) => place === this.at || !begins(one.key, key));
    this.list[this.at] = this.#grouped(numbers, piece.level - 1)[0];
    return true;
  }

  // The finest pieces of other slices with the same class, edge and sector that nobody has decided yet, and the piece's own.
  alike(piece) {
    const same = (key) => key[1] === piece.key[1] && piece.key.slice(3).every((value, place) => key[3 + place] === value);
    const own = new Set(piece.numbers);
    return this.finest.flatMap(({ key }, number) => (
      own.has(number) || (same(key) && !this.choices.has(number)) ? [number] : []));
  }

  // Calls put(place, value) for all voxels of some finest pieces, with places as the viewer has them.
  each(numbers, answer, put) {
    for (const number of numbers) {
      const { start, voxels } = this.finest[number];
      for (let row = start; row < start + voxels; row += 1) put(this.places[row], answer ? this[answer][row] : 0);
    }
  }

  // The middle of its largest part.
  middle(piece) {
    return piece.numbers.map((number) => this.finest[number]).reduce((a, b) => (b.voxels > a.voxels ? b : a)).middle;
  }
}
