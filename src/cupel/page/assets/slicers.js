// The built-in slicers, as functions of the budget alone.
//
// compile(spec, pool) gives (candidates, budget) -> { chosen, capped }.
// A candidate is an index into the policy's sorted list, so ascending candidates are in score order. Each slicer below
// says what it works out once for some candidates (`prepare`), and what it chooses of them (`choose`).

// What is worked out once for each key.
function kept(found, key, make) {
  if (!found.has(key)) found.set(key, make());
  return found.get(key);
}

const only = (chosen) => ({ chosen, capped: null });

const sum = (numbers) => numbers.reduce((total, one) => total + one, 0);

// The order in which candidates are tried: most score per token first, or best score first.
const triedOrder = (spec, pool) => (spec.type === "best_first" ? [...pool.density.keys()] : pool.density);

const greedy = (spec, pool) => ({
  prepare(candidates) {
    const offered = new Set(candidates);
    return triedOrder(spec, pool).filter((c) => offered.has(c));
  },

  choose(tried, budget) {
    const chosen = [];
    let remaining = budget.target;
    for (const c of tried) {
      if (pool.tokens[c] > remaining) continue;
      chosen.push(c);
      remaining -= pool.tokens[c];
    }
    return only(chosen);
  },
});

// The keep table for one capacity answers every smaller capacity too, so it is built rarely and only ever grows.
class KnapsackTable {
  static ENOUGH_CELLS = 50_000_000;

  constructor(weights, values) {
    this.weights = weights;
    this.values = values;
    this.total = sum(weights);
    this.width = 0;
  }

  pick(capacity) {
    const picked = [];
    const n = this.weights.length;
    if (this.total <= capacity) {
      for (let i = n - 1; i >= 0; i--) picked.push(i);
      return picked;
    }
    if (capacity >= this.width) this.build(capacity);
    let room = capacity;
    for (let i = n - 1; i >= 0; i--) {
      const cell = i * this.width + room;
      if (this.keep[cell >> 3] & (1 << (cell & 7))) {
        picked.push(i);
        room -= this.weights[i];
      }
    }
    return picked;
  }

  build(capacity) {
    const n = this.weights.length;
    const affordable = Math.floor(KnapsackTable.ENOUGH_CELLS / n);
    this.width = Math.max(capacity + 1, Math.min(this.total, affordable, 2 * capacity));
    this.keep = new Uint8Array(Math.ceil((n * this.width) / 8));
    const best = new Float64Array(this.width);
    for (let i = 0; i < n; i++) {
      const weight = this.weights[i];
      const value = this.values[i];
      const row = i * this.width;
      for (let w = this.width - 1; w >= weight; w--) {
        const withItem = best[w - weight] + value;
        if (withItem > best[w]) {
          best[w] = withItem;
          this.keep[(row + w) >> 3] |= 1 << ((row + w) & 7);
        }
      }
    }
  }
}

const knapsack = (spec, pool) => ({
  prepare(candidates) {
    const free = candidates.filter((c) => pool.tokens[c] === 0);
    const paid = candidates.filter((c) => pool.tokens[c] > 0);
    const useful = paid.filter((c) => pool.values[c] > 0);
    const weights = useful.map((c) => Math.ceil(pool.tokens[c] / spec.bucket_size));
    return { free, paid, useful, table: new KnapsackTable(weights, useful.map((c) => pool.values[c])) };
  },

  choose({ free, paid, useful, table }, budget) {
    const capacity = Math.floor(budget.target / spec.bucket_size);
    if (!paid.length || capacity === 0) return only(free);
    const cells = paid.length * (capacity + 1);
    if (spec.max_cells !== null && cells > spec.max_cells) {
      throw new Refusal(
        "TableTooLargeError",
        `The knapsack would need ${number(cells)} cells (${number(paid.length)} candidates, capacity ${number(capacity)}); ` +
          `the limit is ${number(spec.max_cells)}.`,
      );
    }
    return only(free.concat(table.pick(capacity).map((i) => useful[i])));
  },
});

function share(unassigned, mass, total) {
  const product = unassigned * mass;
  if (Number.isSafeInteger(product)) return Math.floor(product / total);
  return Number((BigInt(unassigned) * BigInt(mass)) / BigInt(total));
}

function partition(candidates, pool) {
  const parts = new Map(); // kind -> candidates, in order of first appearance
  for (const c of candidates) kept(parts, pool.kind[c], () => []).push(c);
  return parts;
}

const quotas = (spec, pool, inner) => ({
  prepare: (candidates) =>
    [...partition(candidates, pool)].map(([kind, members]) => ({
      members,
      quota: spec.quotas.find((quota) => quota.kind === kind) ?? { require: 0, cap: 100 },
      weight: sum(members.map((c) => pool.tokens[c])),
    })),

  choose(parts, { target }) {
    const tokensFor = (percentage) => Math.floor((percentage / 100.0) * target);
    const bounds = parts.map(({ quota }) => ({ require: tokensFor(quota.require), cap: tokensFor(quota.cap) }));
    const mass = sum(parts.map(({ weight }, at) => (bounds[at].cap > bounds[at].require ? weight : 0)));
    const unassigned = Math.max(0, target - sum(spec.quotas.map((quota) => tokensFor(quota.require))));
    const chosen = parts.flatMap(({ members, weight }, at) => {
      const { require, cap } = bounds[at];
      const extra = mass > 0 && cap > require ? share(unassigned, weight, mass) : 0;
      const allotted = Math.min(require + extra, cap);
      return allotted > 0 ? inner(members, { max: cap, target: allotted }).chosen : [];
    });
    return only(chosen);
  },
});

function counts(spec, pool, inner) {
  const entryOf = new Map(spec.entries.map((entry) => [entry.kind, entry]));
  return {
    prepare(candidates) {
      const parts = partition(candidates, pool);
      const demands = spec.entries.filter((entry) => entry.require_count > 0);
      const taken = demands.map((entry) => (parts.get(entry.kind) ?? []).slice(0, entry.require_count));
      const committed = taken.flat();
      const aside = new Set(committed);
      return {
        committed,
        taken: new Map(demands.map((entry, at) => [entry.kind, taken[at].length])),
        scarce: demands.map((entry, at) => ({ ...entry, satisfied: taken[at].length })).find((entry) => entry.satisfied < entry.require_count),
        residual: candidates.filter((c) => !aside.has(c)),
        spent: sum(committed.map((c) => pool.tokens[c])),
      };
    },

    choose({ committed, taken, scarce, residual, spent }, budget) {
      if (spec.scarcity === "throw" && scarce) {
        throw new Refusal(
          "ScarcityError",
          `${spec.label}: candidate pool for kind '${scarce.name}' has ${scarce.satisfied} items but RequireCount is ${scarce.require_count}.`,
        );
      }
      const left = Math.min(Math.max(0, budget.target - spent), budget.max);
      const offered = inner(residual, { max: budget.max, target: left }).chosen.slice();
      if (spec.resort) offered.sort((a, b) => pool.rank[a] - pool.rank[b]);
      const held = new Map(taken);
      const chosen = committed.slice();
      for (const c of offered) {
        const count = held.get(pool.kind[c]) ?? 0;
        if (count >= (entryOf.get(pool.kind[c])?.cap_count ?? Infinity)) continue;
        chosen.push(c);
        held.set(pool.kind[c], count + 1);
      }
      return { chosen, capped: this.capped(held, budget) };
    },

    // Why a candidate is out if its kind is full.
    capped: (held, budget) => (c) => {
      const entry = entryOf.get(pool.kind[c]);
      const count = held.get(pool.kind[c]) ?? 0;
      if (!entry || count < entry.cap_count || pool.tokens[c] > budget.target) return null;
      return { reason: "CountCapExceeded", cap: entry.cap_count, count };
    },
  };
}

const SLICERS = { greedy, best_first: greedy, knapsack, quota: quotas, count_quota: counts };

function compile(spec, pool) {
  const slicer = SLICERS[spec.type](spec, pool, spec.inner && compile(spec.inner, pool));
  const prepared = new Map(); // by list of candidates
  return (candidates, budget) => {
    if (!candidates.length || budget.target <= 0) return { chosen: [], capped: slicer.capped?.(new Map(), budget) ?? null };
    return slicer.choose(kept(prepared, candidates, () => slicer.prepare(candidates)), budget);
  };
}
