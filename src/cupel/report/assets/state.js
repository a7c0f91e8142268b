// What the view of a selection knows: the reader's choices, and the answers at the present budget.

const { items, policies, kinds } = data;
const SWING_PAGE = 15;

const budgetAt = (target) => budgetFor(data.budget, target);

// The policies as the reader changed them: other weights, other pins.
const changed = new Map();

function policyAt(index) {
  if (!changed.has(index)) changed.set(index, changedPolicy(index));
  return changed.get(index);
}

function changedPolicy(index) {
  const weights = state.weights.get(index) ?? null;
  if (state.pins.size && noPins(index)) return { ...policies[index], unknown: noPins(index) };
  return weights || state.pins.size ? adjusted(policies[index], items, weights, state.pins) : policies[index];
}

const engines = new Map();

function engineOf(index) {
  if (!engines.has(index)) engines.set(index, engineFor(policyAt(index), items));
  return engines.get(index);
}

// What cannot be tried under a policy, and why: it is said in its place. The script proves itself first.
const proofs = new Map();

function unproven(index) {
  if (!proofs.has(index)) proofs.set(index, repeats(policies[index], items));
  return proofs.get(index) ? "" : "This page's own arithmetic does not arrive at the library's scores, so nothing can be tried.";
}

const noWeights = (index) => policies[index].scoring.no_weights || unproven(index);
const noPins = (index) => policies[index].scoring.no_pins || unproven(index);

// Forgets what was worked out with other weights or pins.
function rework() {
  changed.clear();
  engines.clear();
  sweeps.clear();
}

const isPinned = (position) => current.pins.has(position);

const verdicts = new Map();

function verified(index) {
  if (!verdicts.has(index)) verdicts.set(index, verify(engineFor(policies[index], items), policies[index].checks, budgetAt));
  return verdicts.get(index);
}

const state = {
  policy: data.start,
  budget: data.budget.target,
  weights: new Map(), // by policy, where they are not its own
  pins: new Map(), // by position, where it is not as the item says
  notice: "", // what the last step has to say
  query: "",
  hidden: new Set(),
  reason: "",
  show: "both",
  swingsOnly: false,
  forms: false, // whether the other forms of what is in are listed among the left out
  limits: { in: PAGE, out: PAGE, prompt: PAGE, swing: SWING_PAGE },
  open: new Set(),
};

let drawn = 0;
function set(changes) {
  Object.assign(state, { notice: "" }, changes);
  cancelAnimationFrame(drawn);
  drawn = requestAnimationFrame(draw);
}

const clampBudget = (value) => Math.min(Math.max(Math.round(value), data.slider.min), data.slider.max);

const answerAt = (index, target) => engineOf(index).at(budgetAt(target));

// The policies' answers at the present budget, each worked out when it is first asked for.
const current = {
  answers: new Map(),
  sets: new Map(),
  pins: new Set(),

  forget() {
    this.answers.clear();
    this.sets.clear();
    this.pins = new Set(policyAt(state.policy).pinned);
  },

  answer(index) {
    if (!this.answers.has(index)) this.answers.set(index, answerAt(index, state.budget));
    return this.answers.get(index);
  },

  holds(index, position) {
    return this.members(index)[position] === 1;
  },

  members(index) {
    if (!this.sets.has(index)) {
      const set = new Uint8Array(items.length);
      for (const position of this.answer(index).placed) set[position] = 1;
      this.sets.set(index, set);
    }
    return this.sets.get(index);
  },

  swings(position) {
    const first = this.holds(0, position);
    return policies.some((_, index) => this.holds(index, position) !== first);
  },
};
