// What the view of a selection knows: the reader's choices, and the answers at the present budget.

const { items, policies, kinds } = data;
const SWING_PAGE = 15;

const budgetAt = (target) => budgetFor(data.budget, target);

// The policies as the reader changed them: other weights, other pins.
const changed = new Map();
const policyAt = (index) => kept(changed, index, () => changedPolicy(index));

function changedPolicy(index) {
  const weights = state.weights.get(index) ?? null;
  if (state.pins.size && noPins(index)) return { ...policies[index], unknown: noPins(index) };
  return weights || state.pins.size ? adjusted(policies[index], items, weights, state.pins) : policies[index];
}

const engines = new Map();
const engineOf = (index) => kept(engines, index, () => engineFor(policyAt(index), items));

// What cannot be tried under a policy, and why: it is said in its place. The script proves itself first.
const proofs = new Map();
const UNPROVEN = "This page's own arithmetic does not arrive at the library's scores, so nothing can be tried.";
const unproven = (index) => (kept(proofs, index, () => repeats(policies[index], items)) ? "" : UNPROVEN);
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
const verified = (index) => kept(verdicts, index, () => verify(engineFor(policies[index], items), policies[index].checks, budgetAt));

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
    return kept(this.answers, index, () => answerAt(index, state.budget));
  },

  holds(index, position) {
    return this.members(index)[position] === 1;
  },

  members(index) {
    return kept(this.sets, index, () => {
      const set = new Uint8Array(items.length);
      for (const position of this.answer(index).placed) set[position] = 1;
      return set;
    });
  },

  swings(position) {
    const first = this.holds(0, position);
    return policies.some((_, index) => this.holds(index, position) !== first);
  },
};
