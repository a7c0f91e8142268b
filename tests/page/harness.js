// Asks the page's scripts under node: one JSON question a line in, one JSON answer a line out.
// The scripts that draw are not here; what they draw is read by those that are.

const told = (answer, items) =>
  answer.refused
    ? { refused: answer.refused }
    : { placed: answer.placed, tokens: answer.tokens, excluded: answer.excluded.map((row) => fieldsOf(row, items)) };

const QUESTIONS = {
  answers({ policy, items }) {
    const answers = new Answers(policy, items);
    return policy.answers.map((_, stop) => told(answers.at(stop), items));
  },

  requests: ({ talk, strategy }) => talk.steps.map((_, turn) => requestAt(talk, strategy, turn)),
  bill: ({ turns }) => billOf(turns),

  words: ({ rows, items, reasons }) => rows.map((row) => [reasonName(row.reason, reasons), say(row, items, reasons)]),
  parted: ({ before, pairs }) => parted(before, pairs),
  percent: ({ part, whole }) => percent(part, whole),
  unseen: ({ texts }) => texts.map((text) => text.replace(UNSEEN, (found) => `<U+${found.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}>`)),
};

require("node:readline")
  .createInterface({ input: process.stdin })
  .on("line", (line) => {
    const { ask, ...question } = JSON.parse(line);
    console.log(JSON.stringify(QUESTIONS[ask](question) ?? null));
  });
