// The library's selections under one policy, one for each stop of the slider. Python writes each as its difference from
// the one before (`_stops.py`); nothing is selected here.

// A list written as parts of another: pairs of a place and a length, backwards if negative, a new entry if zero.
function parted(before, pairs) {
  const list = [];
  for (let at = 0; at < pairs.length; at += 2) {
    const [start, length] = [pairs[at], pairs[at + 1]];
    if (!length) list.push(start);
    for (let step = 0; step < Math.abs(length); step++) list.push(before[start + (length < 0 ? -step : step)]);
  }
  return list;
}

class Answers {
  constructor(policy, items) {
    Object.assign(this, { policy, items, read: [], placed: [], out: [], why: [] });
  }

  at(stop) {
    while (this.read.length <= stop) this.read.push(this.next(this.policy.answers[this.read.length]));
    return this.read[stop];
  }

  next({ error, placed, out, why, numbers }) {
    if (error) return { refused: error, placed: [], excluded: [], tokens: 0 };
    this.placed = parted(this.placed, placed);
    this.out = parted(this.out, out ?? []);
    this.why = this.why.slice();
    for (let at = 0; at < why?.length; at += 2) this.why[why[at]] = why[at + 1];
    const { items, policy } = this;
    const [listed, given] = [this.out, this.why];
    let rows;
    return {
      refused: null,
      placed: this.placed,
      tokens: this.placed.reduce((sum, position) => sum + items[position].tokens, 0),
      get excluded() {
        rows ??= listed.map((position) => ({ position, ...policy.reasons[given[position] ?? 0], ...numbers[given[position] ?? 0] }));
        return rows;
      },
    };
  }
}
