// Replays the Slice and Place stages of one policy at any budget.
//
// Python has already classified, scored, deduplicated and sorted (or `adjusted` has, where the reader changed weights or
// pins); from there on ranks and integers decide, and nothing here compares two scores. What is left is integer
// arithmetic and the few double operations the library also does (floor of a product), and doubles are the same in both
// languages. The payload carries the library's own answers at some budgets; `verify` compares them with the replay
// before the page trusts it.

function effectiveBudget(budget, pinnedTokens) {
  let max = Math.max(0, budget.max - budget.reserve - pinnedTokens - budget.slots);
  let target = Math.min(Math.max(0, budget.target - pinnedTokens - budget.slots), max);
  if (budget.margin > 0) {
    const multiplier = 1.0 - budget.margin / 100.0;
    max = Math.floor(max * multiplier);
    target = Math.min(Math.floor(target * multiplier), max);
  }
  return { max, target };
}

// The budget behind a place on the slider.
const budgetFor = (settings, target) => ({ ...settings, target, max: settings.max_follows ? target : settings.max });

function engineFor(policy, items) {
  if (policy.unknown) return new Unknown(policy.unknown);
  return policy.slicer ? new Replay(policy, items) : new Recorded(policy);
}

// ---- placers: positions of the merged list, each an item's position ------------------------------------------------

const UNDATED = Number.MAX_SAFE_INTEGER;

const PLACERS = {
  chronological: (merged, policy, items) => merged.slice().sort((a, b) => (items[a].when ?? UNDATED) - (items[b].when ?? UNDATED)),
  u_shaped: (merged, policy) => {
    const ranked = merged.slice().sort((a, b) => policy.score_rank[a] - policy.score_rank[b]);
    const left = ranked.filter((_, i) => i % 2 === 0);
    const right = ranked.filter((_, i) => i % 2 === 1);
    return left.concat(right.reverse());
  },
  system_first: (merged, policy, items, placer) => {
    const first = merged.filter((position) => items[position].kind === placer.kind);
    const rest = merged.filter((position) => items[position].kind !== placer.kind);
    return first.concat(arrange(rest, policy, items, placer.inner));
  },
};

const arrange = (merged, policy, items, placer) => PLACERS[placer.type](merged, policy, items, placer);

// ---- one policy at one budget --------------------------------------------------------------------------------------

class Replay {
  constructor(policy, items) {
    this.policy = policy;
    this.items = items;
    const { sorted } = policy;
    this.everyone = [...sorted.keys()];
    this.pool = {
      size: sorted.length,
      tokens: sorted.map((position) => items[position].tokens),
      kind: sorted.map((position) => items[position].kind),
      rank: sorted.map((position) => policy.score_rank[position]),
      density: policy.density,
      values: policy.values,
    };
    this.slice = compile(policy.slicer, this.pool);
    this.pinnedTokens = policy.pinned.reduce((sum, position) => sum + items[position].tokens, 0);
    this.pins = new Set(policy.pinned);
    this.displacer = policy.pinned.find((position) => items[position].tokens > 0) ?? null;
  }

  get size() {
    return Math.max(1, this.pool.size);
  }

  at(budget) {
    try {
      return this.select(budget);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      return { refused: error, placed: [], excluded: [], tokens: 0 };
    }
  }

  // The nearest budgets in a direction at which something can change: the pinned items fit, or the slicer's span ends.
  edges(budget, budgetAt, step, end) {
    const target = (other) => effectiveBudget(budgetAt(other), this.pinnedTokens).target;
    const now = target(budget);
    const span = now > 0 ? this.span(now) : [0, 1];
    if (span === null) return [budget + step];
    const [start, stop] = span;
    const { max_follows: follows, reserve } = budgetAt(budget);
    const pins = follows ? [this.pinnedTokens + reserve, this.pinnedTokens] : [this.pinnedTokens];
    if (step > 0) {
      const next = leastBudget(budget + 1, end, (other) => target(other) >= stop);
      return next === null ? pins : [...pins, next];
    }
    const first = leastBudget(end, budget, (other) => target(other) >= start);
    return [...pins, first].map((edge) => edge - 1);
  }

  // Targets around this one that are sure to choose the same, from the first to before the second; null if unknown.
  span(target) {
    const { slicer } = this.policy;
    if (slicer.type === "knapsack") {
      const capacity = Math.floor(target / slicer.bucket_size);
      return [Math.max(1, capacity * slicer.bucket_size), (capacity + 1) * slicer.bucket_size];
    }
    if (slicer.type !== "greedy" && slicer.type !== "best_first") return null;
    let remaining = target;
    let missing = Infinity;
    for (const c of triedOrder(slicer, this.pool)) {
      const tokens = this.pool.tokens[c];
      if (tokens <= remaining) remaining -= tokens;
      else missing = Math.min(missing, tokens - remaining);
    }
    return [Math.max(1, target - remaining), target + missing];
  }

  select(budget) {
    const available = budget.max - budget.reserve;
    if (this.pinnedTokens > available) {
      throw new Refusal(
        "PinnedExceedsBudgetError",
        `Pinned items require ${number(this.pinnedTokens)} tokens, but only ${number(available)} are available.`,
      );
    }
    const effective = effectiveBudget(budget, this.pinnedTokens);
    const { chosen, capped } = this.slice(this.everyone, effective);
    const selected = new Uint8Array(this.pool.size);
    for (const c of chosen) selected[c] = 1;
    let cut = [];
    let merged = this.policy.pinned.concat(this.everyone.filter((c) => selected[c]).map((c) => this.policy.sorted[c]));
    const over = Math.max(0, this.count(merged) - budget.target);
    if (over && this.policy.overflow === "throw") {
      throw new Refusal(
        "BudgetOverflowError",
        `Selected items require ${number(over + budget.target)} tokens, exceeding target budget of ${number(budget.target)}.`,
      );
    }
    if (over && this.policy.overflow === "truncate") [merged, cut] = this.truncate(merged, budget.target);
    const placed = arrange(merged, this.policy, this.items, this.policy.placer);
    const explain = () => this.explain(selected, chosen, capped, effective, budget, cut);
    return new Answer(placed, this.count(merged), explain);
  }

  explain(selected, chosen, capped, effective, budget, cut) {
    const rank = this.policy.score_rank;
    const rows = [...this.policy.dropped, ...this.leftOver(selected, chosen, capped, effective, budget), ...cut];
    return rows.sort((a, b) => rank[a.position] - rank[b.position]); // stable: ties keep the order of exclusion
  }

  count(positions) {
    return positions.reduce((sum, position) => sum + this.items[position].tokens, 0);
  }

  leftOver(selected, chosen, capped, effective, budget) {
    const available = effective.target - chosen.reduce((sum, c) => sum + this.pool.tokens[c], 0);
    const withoutPins = effectiveBudget(budget, 0).target;
    const rows = [];
    for (let c = 0; c < this.pool.size; c++) {
      if (selected[c]) continue;
      const tokens = this.pool.tokens[c];
      const displaced = effective.target < tokens && tokens <= withoutPins;
      rows.push({ position: this.policy.sorted[c], ...(capped?.(c) ?? this.noRoom(displaced, tokens, available)) });
    }
    return rows;
  }

  // No room: taken by what is pinned, if it would fit without that.
  noRoom(displaced, tokens, available) {
    if (displaced && this.pinnedTokens > 0) return { reason: "PinnedOverride", by: this.displacer };
    return { reason: "BudgetExceeded", item_tokens: tokens, available_tokens: available };
  }

  truncate(merged, target) {
    const kept = [];
    const removed = [];
    let tokens = 0;
    let unpinned = 0;
    for (const position of merged) {
      const item = this.items[position];
      const pinned = this.pins.has(position);
      if (pinned || tokens + item.tokens <= target) {
        kept.push(position);
        tokens += item.tokens;
        if (!pinned) unpinned += item.tokens;
      } else {
        removed.push({ position, displaced: unpinned + item.tokens <= target });
      }
    }
    const cut = removed.map(({ position, displaced }) => ({ position, ...this.noRoom(displaced, this.items[position].tokens, target - tokens) }));
    return [kept, cut];
  }
}
