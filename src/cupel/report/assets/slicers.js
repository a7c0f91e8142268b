// The built-in slicers, as functions of the budget alone.
//
// compile(spec, pool) gives (candidates, budget) -> { chosen, capped }.
// A candidate is an index into the policy's sorted list, so ascending candidates are in score order.

// What is worked out once for each key.
function kept(found, key, make) {
  if (!found.has(key)) found.set(key, make());
  return found.get(key);
}

const only = (chosen) => ({ chosen, capped: null });

// The order in which candidates are tried: most score per token first, or best score first.
const triedOrder = (spec, pool) => (spec.type === "best_first" ? [...pool.density.keys()] : pool.density);

function compileGreedy(spec, pool) {
  const order = triedOrder(spec, pool);
  return (candidates, budget) => {
    if (!candidates.length || budget.target <= 0) return only([]);
    const offered = new Uint8Array(pool.size);
    for (const c of candidates) offered[c] = 1;
    const chosen = [];
    let remaining = budget.target;
    for (const c of order) {
      if (!offered[c] || pool.tokens[c] > remaining) continue;
      chosen.push(c);
      remaining -= pool.tokens[c];
    }
    return only(chosen);
  };
}

// The keep table for one capacity answers every smaller capacity too, so it is built rarely and only ever grows.
class KnapsackTable {
  static ENOUGH_CELLS = 50_000_000;

  constructor(weights, values) {
    this.weights = weights;
    this.values = values;
    this.total = weights.reduce((sum, w) => sum + w, 0);
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

function compileKnapsack(spec, pool) {
  const prepared = new Map(); // candidate list -> what does not depend on the budget
  const prepare = (candidates) => {
    const free = candidates.filter((c) => pool.tokens[c] === 0);
    const paid = candidates.filter((c) => pool.tokens[c] > 0);
    const useful = paid.filter((c) => pool.values[c] > 0);
    const weights = useful.map((c) => Math.ceil(pool.tokens[c] / spec.bucket_size));
    const table = new KnapsackTable(weights, useful.map((c) => pool.values[c]));
    return { free, paid, useful, table };
  };
  return (candidates, budget) => {
    if (!candidates.length || budget.target <= 0) return only([]);
    const { free, paid, useful, table } = kept(prepared, candidates, () => prepare(candidates));
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
  };
}

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

function compileQuota(spec, pool) {
  const inner = compile(spec.inner, pool);
  const prepared = new Map();
  const quotaOf = new Map(spec.quotas.map((quota) => [quota.kind, quota]));
  const tokensFor = (value, target) => Math.floor((value / 100.0) * target);
  return (candidates, budget) => {
    if (!candidates.length || budget.target <= 0) return only([]);
    const parts = kept(prepared, candidates, () => partition(candidates, pool));
    const target = budget.target;
    const bounds = new Map();
    let mass = 0;
    const required = spec.quotas.reduce((sum, quota) => sum + tokensFor(quota.require, target), 0);
    for (const [kind, members] of parts) {
      const quota = quotaOf.get(kind);
      const require = quota ? tokensFor(quota.require, target) : 0;
      const cap = quota ? tokensFor(quota.cap, target) : target;
      const weight = members.reduce((sum, c) => sum + pool.tokens[c], 0);
      bounds.set(kind, { require, cap, weight });
      if (cap > require) mass += weight;
    }
    const unassigned = Math.max(0, target - required);
    const chosen = [];
    for (const [kind, members] of parts) {
      const { require, cap, weight } = bounds.get(kind);
      const extra = mass > 0 && cap > require ? share(unassigned, weight, mass) : 0;
      const allotted = Math.min(require + extra, cap);
      if (allotted <= 0) continue;
      chosen.push(...inner(members, { max: cap, target: allotted }).chosen);
    }
    return only(chosen);
  };
}

function compileCounts(spec, pool) {
  const inner = compile(spec.inner, pool);
  const entryOf = new Map(spec.entries.map((entry) => [entry.kind, entry]));
  const prepared = new Map();
  const prepare = (candidates) => {
    const parts = partition(candidates, pool);
    const committed = [];
    const counts = new Map();
    let shortfall = null;
    for (const entry of spec.entries) {
      if (entry.require_count <= 0) continue;
      const taken = (parts.get(entry.kind) ?? []).slice(0, entry.require_count);
      committed.push(...taken);
      counts.set(entry.kind, taken.length);
      if (taken.length < entry.require_count) {
        shortfall ??= { kind: entry.name, required: entry.require_count, satisfied: taken.length };
      }
    }
    const taken = new Set(committed);
    const residual = candidates.filter((c) => !taken.has(c));
    const spent = committed.reduce((sum, c) => sum + pool.tokens[c], 0);
    return { committed, counts, shortfall, residual, spent };
  };
  const cappedBy = (counts, budget) => (c) => {
    const entry = entryOf.get(pool.kind[c]);
    const count = counts.get(pool.kind[c]) ?? 0;
    if (!entry || count < entry.cap_count || pool.tokens[c] > budget.target) return null;
    return { reason: "CountCapExceeded", cap: entry.cap_count, count };
  };
  return (candidates, budget) => {
    if (!candidates.length || budget.target <= 0) return { chosen: [], capped: cappedBy(new Map(), budget) };
    const first = kept(prepared, candidates, () => prepare(candidates));
    if (spec.scarcity === "throw" && first.shortfall) {
      const { kind, required, satisfied } = first.shortfall;
      throw new Refusal(
        "ScarcityError",
        `${spec.label}: candidate pool for kind '${kind}' has ${satisfied} items but RequireCount is ${required}.`,
      );
    }
    const left = Math.min(Math.max(0, budget.target - first.spent), budget.max);
    const offered = inner(first.residual, { max: budget.max, target: left }).chosen.slice();
    if (spec.resort) offered.sort((a, b) => pool.rank[a] - pool.rank[b]);
    const counts = new Map(first.counts);
    const chosen = first.committed.slice();
    for (const c of offered) {
      const count = counts.get(pool.kind[c]) ?? 0;
      const entry = entryOf.get(pool.kind[c]);
      if (entry && count >= entry.cap_count) continue;
      chosen.push(c);
      counts.set(pool.kind[c], count + 1);
    }
    return { chosen, capped: cappedBy(counts, budget) };
  };
}

const COMPILERS = {
  greedy: compileGreedy,
  best_first: compileGreedy,
  knapsack: compileKnapsack,
  quota: compileQuota,
  count_quota: compileCounts,
};

const compile = (spec, pool) => COMPILERS[spec.type](spec, pool);
