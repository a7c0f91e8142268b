// Scores, removes copies and sorts anew where the reader changes weights or pins.
//
// Every operation is the library's, in its order: sums from the first scorer to the last with weights over their sum,
// ranks as one division of whole numbers. Doubles are the same in both languages, so the scores are the same bits.
// Scorers that cannot be repeated so come as a column, and the payload says what must not be changed then.

const PINNED_SCORE = 1;

const foldAscii = (text) => text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());

// A number of the payload: beyond the finite they are written as text.
const numeric = (value) => (typeof value === "string" ? Number(value) : value);

const SCORERS = {
  column: (form, members) => members.map((position) => numeric(form.scores[position])),
  fixed: (form, members) => members.map((position) => numeric(form.scores[position])),

  // How many of those that have a value have a smaller one.
  rank(form, members, items) {
    const levels = members.map((position) => items[position][form.by] ?? null);
    const present = levels.filter((level) => level !== null).sort((a, b) => a - b);
    const last = present.length - 1;
    const scores = new Map();
    present.forEach((level, below) => { if (!scores.has(level)) scores.set(level, last ? below / last : 1); });
    return levels.map((level) => (level === null ? 0 : scores.get(level)));
  },

  // How many of the others share a tag.
  frequency(form, members, items) {
    if (members.length <= 1) return members.map(() => 0);
    const tags = members.map((position) => [...new Set((items[position].tags ?? []).map(foldAscii))]);
    const holders = new Map();
    tags.forEach((own, member) => own.forEach((tag) => holders.set(tag, [...(holders.get(tag) ?? []), member])));
    const counts = new Map();
    return tags.map((own) => {
      if (!own.length) return 0;
      const key = own.slice().sort().join("\u0000");
      if (!counts.has(key)) counts.set(key, new Set(own.flatMap((tag) => holders.get(tag))).size);
      return (counts.get(key) - 1) / (members.length - 1);
    });
  },

  scaled(form, members, items, [raw]) {
    const ordered = raw.filter((score) => !Number.isNaN(score));
    const low = ordered.reduce((least, score) => Math.min(least, score), Infinity);
    const high = ordered.reduce((most, score) => Math.max(most, score), -Infinity);
    return low === high ? raw.map(() => 0.5) : raw.map((score) => (score - low) / (high - low));
  },

  composite(form, members, items, inner) {
    const shares = sharesOf(form.weights);
    let totals = members.map(() => 0);
    inner.forEach((scores, at) => { totals = totals.map((total, member) => total + scores[member] * shares[at]); });
    return totals;
  },
};

function sharesOf(weights) {
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  return weights.map((weight) => weight / total);
}

// A scorer's scores for some positions, with those of the scorers inside it.
function scored(form, members, items) {
  const inner = (form.inner ?? []).map((one) => scored(one, members, items));
  return { form, inner, scores: SCORERS[form.type](form, members, items, inner.map((one) => one.scores)) };
}

// Positions from the highest score down, NaN last; equal ones keep their order.
function descending(positions, scoreAt) {
  const key = (position) => (Number.isNaN(scoreAt(position)) ? -Infinity : scoreAt(position));
  const isNaNAt = (position) => Number(Number.isNaN(scoreAt(position)));
  return positions.slice().sort((a, b) => isNaNAt(a) - isNaNAt(b) || (key(b) > key(a) ? 1 : key(b) < key(a) ? -1 : 0));
}

// The best of items with one text stays, of equals the first.
function withoutCopies(members, items, scoreAt) {
  const best = new Map();
  for (const position of members) {
    const { text } = items[position];
    if (text === undefined) continue;
    if (!best.has(text) || scoreAt(position) > scoreAt(best.get(text))) best.set(text, position);
  }
  const stays = (position) => items[position].text === undefined || best.get(items[position].text) === position;
  const copies = members.filter((position) => !stays(position));
  return [members.filter(stays), copies.map((position) => ({ position, reason: "Deduplicated", by: best.get(items[position].text) }))];
}

function scoreRanks(scores) {
  const ranks = new Array(scores.length);
  let rank = -1;
  let previous;
  for (const position of descending([...scores.keys()], (at) => scores[at])) {
    if (rank < 0 || !Object.is(scores[position] + 0, previous + 0)) rank += 1; // + 0: the two zeros are one score
    previous = scores[position];
    ranks[position] = rank;
  }
  return ranks;
}

const scaledScore = (score) => Math.max(0, Math.floor(score * 10_000));

// Which items are pinned: as they say, as the reader wants it, and whatever the policy's rules pin.
function pinnedNow(policy, items, pins) {
  const ruled = new Set(policy.scoring.ruled);
  return [...items.keys()].filter((at) => items[at].tokens >= 0 && (ruled.has(at) || (pins.get(at) ?? items[at].pinned ?? false)));
}

// The positions that are scored: all but the pinned and those with negative tokens.
function membersOf(items, pinned) {
  const aside = new Set(pinned);
  return [...items.keys()].filter((at) => items[at].tokens >= 0 && !aside.has(at));
}

// The policy as it would be with other weights (null: its own) and pins (a Map from position to whether it is pinned).
function adjusted(policy, items, weights, pins) {
  const pinned = pinnedNow(policy, items, pins);
  const members = membersOf(items, pinned);
  const form = weights ? { ...policy.scoring.form, weights } : policy.scoring.form;
  const scores = items.map(() => 0);
  for (const position of pinned) scores[position] = PINNED_SCORE;
  scored(form, members, items).scores.forEach((score, member) => { scores[members[member]] = score; });
  const scoreAt = (position) => scores[position];
  const [kept, copies] = policy.scoring.deduplicate ? withoutCopies(members, items, scoreAt) : [members, []];
  const sorted = descending(kept, scoreAt);
  const densities = sorted.map((at) => (items[at].tokens ? scores[at] / items[at].tokens : Number.MAX_VALUE));
  const negative = policy.dropped.filter((row) => row.reason === "NegativeTokens");
  return {
    ...policy,
    scoring: { ...policy.scoring, form },
    pinned,
    scores,
    sorted,
    density: descending([...sorted.keys()], (c) => densities[c]),
    values: sorted.map((at) => scaledScore(scores[at])),
    score_rank: scoreRanks(scores),
    dropped: [...negative, ...copies],
  };
}

// True if the script, with nothing changed, arrives at the ranks that the library sent.
function repeats(policy, items) {
  const own = adjusted(policy, items, null, new Map());
  const same = (name) => JSON.stringify(own[name]) === JSON.stringify(policy[name]);
  return ["pinned", "scores", "sorted", "density", "values", "score_rank", "dropped"].every(same);
}
