// The state of the view of a selection: the reader's choices, and the answers at the present budget.

const { items, policies, kinds } = data;
const { stops } = data.slider;
const [lowest, highest] = [stops[0], stops.at(-1)];
const SWING_PAGE = 15;
let live = null; // the questions to Python, on a page that is served

// The value under a key, which is made when it is first asked for.
function kept(found, key, make) {
  if (!found.has(key)) found.set(key, make());
  return found.get(key);
}

// The budget for a target.
const budgetAt = (target) => ({ ...data.budget, target, max: data.budget.max_follows ? target : data.budget.max });

const state = {
  policy: data.start,
  budget: data.budget.target,
  weights: new Map(), // by policy, where they are not its own
  pins: new Map(), // by position, where it is not as the item says
  notice: "", // the message of the last step
  query: "",
  hidden: new Set(),
  reason: "",
  show: "both",
  swingsOnly: false,
  forms: false, // whether other forms of selected items are listed among the excluded ones
  limits: { in: PAGE, out: PAGE, prompt: PAGE, swing: SWING_PAGE },
  open: new Set(),
};

let drawn = 0;
function set(changes) {
  Object.assign(state, { notice: "" }, changes);
  cancelAnimationFrame(drawn);
  drawn = requestAnimationFrame(draw);
}

// The largest stop within a budget: what is shown there fits it.
function stopOf(budget) {
  const above = stops.findIndex((stop) => stop > budget);
  return Math.max(0, (above < 0 ? stops.length : above) - 1);
}

// A budget that can be shown: one of the stops, or where Python answers any in their range.
const clampBudget = (value) => (live ? Math.min(Math.max(Math.floor(value), lowest), highest) : stops[stopOf(value)]);

// The budget that is shown for a wanted one, and a notice where they differ.
function shownFor(wanted) {
  const budget = clampBudget(wanted);
  const side = budget < wanted ? "largest budget within" : "smallest budget, above";
  return { budget, notice: budget === wanted ? "" : `Shown at ${number(budget)} tokens, the ${side} ${number(wanted)}.` };
}

const isChanged = () => state.weights.size > 0 || state.pins.size > 0;
const isStop = () => stops[stopOf(state.budget)] === state.budget;

const recorded = new Map();
const answersOf = (index) => kept(recorded, index, () => new Answers(policies[index], items));
const answerAt = (index, target) => answersOf(index).at(stopOf(target));

// A policy as the reader changed it.
const policyAt = (index) => live?.changed(index) ?? policies[index];
const isPinned = (position) => current.pins.has(position);

// The policies' answers at the present budget, each read when it is first asked for.
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
    return kept(this.answers, index, () => live?.answer(index) ?? answerAt(index, state.budget));
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
