// One item on the page: its row, and what unfolds below it.

const colour = (kind) => `var(--k${kind % 8})`;

function dot(kind) {
  const mark = make("span", { class: "dot", "aria-hidden": "true" });
  mark.style.background = colour(kind);
  return mark;
}

function rowButton(position, extra) {
  const open = String(state.open.has(position));
  const button = make(
    "button",
    { type: "button", class: "row", "aria-expanded": open, "data-position": position, onclick: () => toggle(position) },
    written("span", { class: "text", dir: "auto" }, preview(items[position])),
  );
  if (isPinned(position)) button.append(make("span", { class: "badge pin", text: "pinned" }));
  if (extra) button.append(extra);
  return button;
}

function toggle(position) {
  if (!state.open.delete(position)) state.open.add(position);
  set({});
}

const tokensCell = (position) => make("td", { class: "num", text: number(items[position].tokens) });

const kindLabel = (position) => make("span", { class: "kind" }, dot(items[position].kind), written("span", { class: "name" }, kinds[items[position].kind]));

// The score, and how it compares with the best one under this policy.
function scoreCell(position) {
  const policy = policyAt(state.policy);
  policy.best ??= policy.scores.reduce((best, score) => (typeof score === "number" && score > best ? score : best), 0);
  const score = policy.scores[position];
  const bar = make("i", { class: "score", "aria-hidden": "true" });
  const share = typeof score === "number" && policy.best > 0 ? Math.max(0, score / policy.best) : 0;
  bar.style.width = `${Math.round(100 * share)}%`;
  return make("td", { class: "num" }, scoreText(score), bar);
}

// What each scorer said of an item, and how far it counted: in words, with a bar for those who compare.
function scoreParts(position) {
  const policy = policyAt(state.policy);
  const { tokens } = items[position];
  if (isPinned(position) || tokens < 0 || policy.unknown) return [];
  const { members, tree } = kept(trees, policy, () => {
    const members = membersOf(items, policy.pinned);
    return { members, tree: scored(policy.scoring.form, members, items) };
  });
  const list = make("dl", { class: "parts" });
  addParts(list, tree, members.indexOf(position), 0);
  const score = numeric(policy.scores[position]);
  const sum = tokens ? `${scoreText(score)} over ${plural(tokens, "token")} = ${(score / tokens).toPrecision(4)} a token` : `${scoreText(score)}, and it costs nothing`;
  list.append(make("dt", { text: "Score" }), make("dd", {}, make("span", { text: sum })));
  return [list];
}

const trees = new WeakMap(); // the scorers' scores for the whole pool under a policy

function addParts(list, part, member, depth) {
  const shares = part.form.weights ? sharesOf(part.form.weights) : part.inner.map(() => null);
  const most = Math.max(...part.inner.map((one, at) => Math.abs(one.scores[member]) * (shares[at] ?? 1)), 1e-9);
  part.inner.forEach((one, at) => {
    const share = shares[at];
    const score = one.scores[member];
    const name = written("dt", { class: `depth${Math.min(depth, 3)}` }, one.form.name);
    const bar = make("i", { class: "score", "aria-hidden": "true" });
    bar.style.width = `${Number.isFinite(score) ? (100 * Math.abs(score) * (share ?? 1)) / most : 0}%`;
    const counted = share === null ? "" : ` × ${percent(share, 1)} = ${scoreText(score * share)}`;
    list.append(name, make("dd", {}, make("span", { text: `${scoreText(score)}${counted}` }), make("span", { class: "track" }, bar)));
    addParts(list, one, member, depth + 1);
  });
}

function fact(list, name, value) {
  if (value === null || value === undefined || value === "") return;
  list.append(make("dt", { text: name }), written("dd", {}, String(value)));
}

// What unfolds below a row: of an item that is left out, with what would let it in.
function detailRow(row, columns) {
  const { position } = row;
  const item = items[position];
  const content = written("pre", { tabindex: "0", dir: "auto", "aria-label": "Content" }, item.content);
  const facts = make("dl");
  fact(facts, "Input position", number(position + 1));
  fact(facts, "Kind", `${kinds[item.kind]} from ${item.source}`);
  fact(facts, "Time", item.time);
  fact(facts, "Priority", item.priority);
  fact(facts, "Tags", (item.tags ?? []).join(", "));
  fact(facts, "Future relevance", item.hint);
  fact(facts, "A form of", item.entity);
  fact(facts, "Worth of this form", item.worth === undefined ? null : percent(item.worth, 1));
  fact(facts, "Metadata", item.metadata);
  if (item.clipped) fact(facts, "Shown", `the first ${number(item.content.length)} of ${number(item.clipped)} characters`);
  if (policies.length > 1) {
    const verdicts = policies.map((policy, index) => {
      const inside = current.holds(index, position) ? "in" : "out";
      return `${policy.name} ${scoreText(policyAt(index).scores[position])} (${inside})`;
    });
    fact(facts, "By policy", verdicts.join(" · "));
  }
  const admitted = row.reason ? [admission(row)] : [];
  const cell = make("td", { colspan: columns }, ...admitted, pinControl(position), content, ...scoreParts(position), ...relationLists(position), facts);
  return make("tr", { class: "detail" }, cell);
}

const sooner = (reason) => reason === "Deduplicated" || reason === "NegativeTokens"; // gone before any budget counts

function admission(row) {
  const box = make("p", { class: "remedy" });
  if (sooner(row.reason)) {
    box.textContent = "No budget lets it in: it was dropped before any budget counts.";
    return box;
  }
  const wanted = (answer) => answer.placed.includes(row.position);
  const end = data.slider.max;
  const { budget, sure, reached } = nearestBudget(engineOf(state.policy), budgetAt, { from: state.budget, end, step: 1, wanted });
  if (budget !== null) {
    box.textContent = `What would let it in: a budget of ${number(budget)}, ${number(budget - state.budget)} more than now.`;
    box.append(make("button", { type: "button", class: "quiet", text: `Set ${number(budget)}`, onclick: () => set({ budget }) }));
  } else if (sure && data.slider.min < data.slider.max) box.textContent = `No ${engineOf(state.policy) instanceof Recorded ? "recorded budget" : "budget"} up to ${number(end)} lets it in under this policy.`;
  else box.textContent = `No budget up to ${number(reached)} lets it in; a larger one may.`;
  return box;
}
