// The questions that Python answers on a page that is served: other budgets, weights and pins, and the
// smallest budget that lets an item in.

live = {
  key: "", // the question that was answered last
  policies: [],
  waiting: false,

  question: () => ({
    budget: state.budget,
    policy: state.policy,
    weights: Object.fromEntries(state.weights),
    pins: Object.fromEntries(state.pins),
  }),

  // Whether the present choices can be drawn; if not, they are asked for, and drawn once they are answered.
  isReady() {
    if (isStop() && !isChanged()) {
      this.key = "";
      this.policies = [];
      return true;
    }
    if (JSON.stringify(this.question()) === this.key) return true;
    this.ask();
    return false;
  },

  async ask() {
    if (this.waiting) return;
    this.waiting = true;
    const question = this.question();
    const answer = await this.send(question);
    this.waiting = false;
    if (answer) {
      this.policies = answer.policies;
      this.key = JSON.stringify(question);
      this.read = this.policies.map((policy) => new Answers({ ...policy, answers: [policy.answer] }, items));
      draw(); // asks again if the reader went on
    }
  },

  async send(question) {
    try {
      const response = await fetch("ask", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(question) });
      if (response.ok) return await response.json();
      $("notice").textContent = (await response.json()).error;
    } catch {
      $("notice").textContent = "Python does not answer: is the command that opened this page still running?";
    }
    return null;
  },

  answer(index) {
    return this.policies.length ? this.read[index].at(0) : null;
  },

  changed(index) {
    return this.policies.length ? { ...policies[index], ...this.policies[index] } : null;
  },

  // The nearest stop in a direction at which the selection is another one.
  async step(step) {
    const answer = await this.send({ ...this.question(), step });
    return answer?.budget ?? null;
  },

  // The smallest larger budget for each of some excluded items; null if no budget lets it in.
  async admissions(positions) {
    const answer = await this.send({ ...this.question(), admit: positions });
    return answer && new Map(answer.admitted);
  },
};
