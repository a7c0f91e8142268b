// What a policy answers at a budget: worked out here, recorded by the library, refused, or not known; and the proof that
// what is worked out here is what the library says.

class Refusal extends Error {
  // A budget at which the library raises instead of selecting.
  constructor(name, message) {
    super(message);
    this.name = name;
  }
}

// Reasons are worked out when somebody looks: most answers are only counted.
class Answer {
  constructor(placed, tokens, explain) {
    this.refused = null;
    this.placed = placed;
    this.tokens = tokens;
    this.explain = explain;
  }

  get excluded() {
    this.rows ??= this.explain();
    return this.rows;
  }
}

// The library's own answers, for a policy whose slicer or placer only exists in Python.
class Recorded {
  constructor(policy) {
    this.answers = policy.answers;
    this.size = 1;
  }

  edges() {
    return this.answers.map((answer) => answer.budget);
  }

  at(budget) {
    let nearest = this.answers[0];
    for (const answer of this.answers) {
      if (Math.abs(answer.budget - budget.target) < Math.abs(nearest.budget - budget.target)) nearest = answer;
    }
    const refused = nearest.error ? new Refusal(nearest.error.name, nearest.error.message) : null;
    return { ...nearest, refused };
  }
}

// A policy under which what the reader changed cannot be worked out here.
class Unknown {
  constructor(why) {
    this.why = why;
    this.size = 1;
  }

  edges = () => [];

  at = () => ({ refused: new Refusal("Unknown", `With these pins it is not known here. ${this.why}`), placed: [], excluded: [], tokens: 0 });
}

function digest(placed) {
  let sum = 0;
  for (const position of placed) sum = (sum * 31 + position + 1) % 2147483647; // below 2^53 at every step
  return sum;
}

// True when the replay gives the library's answer at every budget the payload recorded one for.
function verify(replay, checks, budgetAt) {
  return checks.every((check) => {
    const answer = replay.at(budgetAt(check.budget));
    if (check.error !== undefined) return answer.refused?.name === check.error;
    return (
      answer.refused === null &&
      answer.placed.length === check.items &&
      answer.tokens === check.tokens &&
      answer.excluded.length === check.excluded &&
      digest(answer.placed) === check.digest &&
      digest(answer.excluded.map((row) => row.position)) === check.left_out
    );
  });
}
