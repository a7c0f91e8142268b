// Searching budgets: where does an item get in, where does the selection change.

// The nearest budget above `from` (step 1) or below it (step -1), not beyond `end`, whose answer is `wanted`.
// `budget` is null where there is none; `sure` is false where the search gave up at `reached`.
function nearestBudget(engine, budgetAt, { from, end, step, wanted, work = 3_000_000 }) {
  let reached = from;
  for (let left = Math.max(200, Math.floor(work / engine.size)); left > 0; left--) {
    const budget = neighbour(engine, budgetAt, reached, end, step);
    if (budget === null) return { budget, sure: true, reached: end };
    if (wanted(engine.at(budgetAt(budget)))) return { budget, sure: true, reached: budget };
    reached = budget;
  }
  return { budget: null, sure: false, reached };
}

// The next budget in a direction at which the answer can be another one; null beyond the end.
function neighbour(engine, budgetAt, budget, end, step) {
  const beyond = step > 0 ? (other) => other > end : (other) => other < end;
  const edges = engine.edges(budget, budgetAt, step, end).filter((edge) => (edge - budget) * step > 0 && !beyond(edge));
  if (!edges.length) return null;
  return step > 0 ? Math.min(...edges) : Math.max(...edges);
}

// The least budget from `low` to `high` that holds, where all larger ones hold too; null if none does.
function leastBudget(low, high, holds) {
  if (low > high || !holds(high)) return null;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

// Finds, for many items at once, the smallest larger budget that lets each in: one walk up the budgets, taken in
// pieces so that the page stays quick.
class AdmissionWalk {
  static MOST_WORK = 6_000_000;

  constructor(engine, budgetAt, from, end, positions) {
    Object.assign(this, { engine, budgetAt, end, budget: from });
    this.missing = new Set(positions);
    this.found = new Map();
    this.steps = Math.floor(AdmissionWalk.MOST_WORK / engine.size);
  }

  get done() {
    return this.budget === null || this.steps <= 0 || this.missing.size === 0;
  }

  advance(milliseconds) {
    const until = performance.now() + milliseconds;
    while (!this.done && performance.now() < until) {
      this.steps -= 1;
      this.budget = neighbour(this.engine, this.budgetAt, this.budget, this.end, 1);
      if (this.budget === null) return;
      for (const position of this.engine.at(this.budgetAt(this.budget)).placed) {
        if (this.missing.delete(position)) this.found.set(position, this.budget);
      }
    }
  }
}
