// Asks the page's scripts under node: one JSON question a line in, one JSON answer a line out.
// The scripts that draw are not here; what they draw is computed by those that are.

const told = (answer) =>
  answer.refused
    ? { refused: answer.refused.name, message: answer.refused.message }
    : { placed: answer.placed, tokens: answer.tokens, excluded: answer.excluded };

const QUESTIONS = {
  answers({ payload, policy, budgets }) {
    const engine = engineFor(payload.policies[policy], payload.items);
    return budgets.map((budget) => told(engine.at(budget)));
  },

  adjusted({ payload, policy, weights, pins, budgets }) {
    const changed = adjusted(payload.policies[policy], payload.items, weights, new Map(pins));
    const engine = engineFor(changed, payload.items);
    return { scores: changed.scores, answers: budgets.map((budget) => told(engine.at(budget))) };
  },

  repeats: ({ payload }) => payload.policies.map((policy) => repeats(policy, payload.items)),

  verified: ({ payload }) =>
    payload.policies.map((policy) => verify(engineFor(policy, payload.items), policy.checks, (target) => budgetFor(payload.budget, target))),

  nearest({ payload, policy, from, step, position, work }) {
    const engine = engineFor(payload.policies[policy], payload.items);
    const budgetAt = (target) => budgetFor(payload.budget, target);
    const here = JSON.stringify(engine.at(budgetAt(from)).placed);
    const wanted = position === undefined ? (answer) => JSON.stringify(answer.placed) !== here : (answer) => answer.placed.includes(position);
    return nearestBudget(engine, budgetAt, { from, end: step > 0 ? payload.slider.max : payload.slider.min, step, wanted, work });
  },

  admissions({ payload, policy, from, positions }) {
    const budgetAt = (target) => budgetFor(payload.budget, target);
    const walk = new AdmissionWalk(engineFor(payload.policies[policy], payload.items), budgetAt, from, payload.slider.max, positions);
    while (!walk.done) walk.advance(1000);
    return { found: [...walk.found], complete: walk.budget === null || walk.missing.size === 0 };
  },

  requests: ({ talk, way }) => talk.steps.map((_, turn) => requestAt(talk, way, turn)),
  bill: ({ turns }) => billOf(turns),

  words: ({ rows, items, reasons }) => rows.map((row) => [reasonName(row.reason, reasons), say(row, items, reasons)]),
  digest: ({ positions }) => digest(positions),
  percent: ({ part, whole }) => percent(part, whole),
  unseen: ({ texts }) => texts.map((text) => text.replace(UNSEEN, (found) => `<U+${found.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}>`)),
};

require("node:readline")
  .createInterface({ input: process.stdin })
  .on("line", (line) => {
    const { ask, ...question } = JSON.parse(line);
    console.log(JSON.stringify(QUESTIONS[ask](question) ?? null));
  });
