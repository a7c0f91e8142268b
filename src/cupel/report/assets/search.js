// Searching budgets: where does an item get in, where does the selection change.

// The smallest budget above `from` and up to `ceiling` at which `wanted(answer)` holds, or null when none was found
// within a bounded amount of work. Greedy selections let the search jump; others are stepped one token at a time.
function firstBudget(replay, budgetAt, from, ceiling, wanted, work = 3_000_000) {
  const steps = Math.max(200, Math.floor(work / Math.max(1, replay.pool?.size ?? 1)));
  let budget = from;
  for (let step = 0; step < steps; step++) {
    budget = nextCandidate(replay, budgetAt, budget, ceiling);
    if (budget === null) return null;
    if (wanted(replay.at(budgetAt(budget)))) return budget;
  }
  return undefined; // not known
}

function nextCandidate(replay, budgetAt, budget, ceiling) {
  if (budget >= ceiling) return null;
  if (replay instanceof Recorded) return replay.answers.map((a) => a.budget).filter((b) => b > budget && b <= ceiling).sort((a, b) => a - b)[0] ?? null;
  const effective = (b) => effectiveBudget(budgetAt(b), replay.pinnedTokens).target;
  const now = effective(budget);
  const goal = nextTarget(replay, now);
  if (goal === null || now === 0) return budget + 1;
  let low = budget + 1;
  let high = ceiling;
  if (effective(high) < goal) return null;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (effective(middle) >= goal) high = middle;
    else low = middle + 1;
  }
  return low;
}

// The next effective target at which this slicer can possibly choose differently; null when only a look can tell.
function nextTarget(replay, target) {
  const { slicer } = replay.policy;
  if (slicer.type === "knapsack") return (Math.floor(target / slicer.bucket_size) + 1) * slicer.bucket_size;
  if (slicer.type !== "greedy" && slicer.type !== "best_first") return null;
  let remaining = target;
  let missing = Infinity;
  for (const c of triedOrder(slicer, replay.pool)) {
    const tokens = replay.pool.tokens[c];
    if (tokens <= remaining) remaining -= tokens;
    else missing = Math.min(missing, tokens - remaining);
  }
  return missing === Infinity ? Infinity : target + missing;
}

// Finds, for many items at once, the smallest larger budget that lets each in: one walk up the budgets, taken in
// pieces so that the page stays quick.
class AdmissionWalk {
  static MOST_WORK = 6_000_000;

  constructor(replay, budgetAt, from, ceiling, positions) {
    Object.assign(this, { replay, budgetAt, ceiling, budget: from });
    this.missing = new Set(positions);
    this.found = new Map();
    this.steps = Math.floor(AdmissionWalk.MOST_WORK / Math.max(1, replay.pool?.size ?? 1));
  }

  get done() {
    return this.budget === null || this.steps <= 0 || this.missing.size === 0;
  }

  advance(milliseconds) {
    const end = performance.now() + milliseconds;
    while (!this.done && performance.now() < end) {
      this.steps -= 1;
      this.budget = nextCandidate(this.replay, this.budgetAt, this.budget, this.ceiling);
      if (this.budget === null) return;
      for (const position of this.replay.at(this.budgetAt(this.budget)).placed) {
        if (this.missing.delete(position)) this.found.set(position, this.budget);
      }
    }
  }
}
