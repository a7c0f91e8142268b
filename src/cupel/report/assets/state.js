// What the view of a selection knows: the reader's choices, and the answers at the present budget.

const { items, policies, kinds } = data;
const SWING_PAGE = 15;

const budgetAt = (target) => budgetFor(data.budget, target);

const engines = new Map();

function engineOf(index) {
  if (!engines.has(index)) engines.set(index, engineFor(policies[index], items));
  return engines.get(index);
}

const pins = policies.map((policy) => new Set(policy.pinned));
const isPinned = (position) => pins[state.policy].has(position);

const verdicts = new Map();

function verified(index) {
  if (!verdicts.has(index)) verdicts.set(index, verify(engineOf(index), policies[index].checks, budgetAt));
  return verdicts.get(index);
}

const state = {
  policy: data.start,
  budget: data.budget.target,
  notice: "", // what the last step has to say
  query: "",
  hidden: new Set(),
  reason: "",
  show: "both",
  swingsOnly: false,
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

  forget() {
    this.answers.clear();
    this.sets.clear();
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
