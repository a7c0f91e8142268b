// One item on the page: its row, and the part that unfolds below it.

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

// The score of each scorer for an item, its share, and a bar for those who compare.
function scoreParts(position) {
  const { scorers, parts, scores } = policyAt(state.policy);
  const { tokens } = items[position];
  if (!parts[position]) return [];
  const list = make("dl", { class: "parts" });
  const counted = parts[position].map((score, at) => numeric(score) * (scorers[at].share ?? 1));
  const most = Math.max(...counted.map(Math.abs).filter(Number.isFinite), 1e-9);
  scorers.forEach(({ name, depth, share }, at) => {
    const bar = make("i", { class: "score", "aria-hidden": "true" });
    bar.style.width = `${Number.isFinite(counted[at]) ? (100 * Math.abs(counted[at])) / most : 0}%`;
    const times = share === null ? "" : ` × ${percent(share, 1)} = ${scoreText(counted[at])}`;
    const words = make("span", { text: `${scoreText(numeric(parts[position][at]))}${times}` });
    list.append(written("dt", { class: `depth${Math.min(depth, 3)}` }, name), make("dd", {}, words, make("span", { class: "track" }, bar)));
  });
  const score = numeric(scores[position]);
  const sum = tokens ? `${scoreText(score)} over ${plural(tokens, "token")} = ${(score / tokens).toPrecision(4)} a token` : `${scoreText(score)}, and it costs nothing`;
  list.append(make("dt", { text: "Score" }), make("dd", {}, make("span", { text: sum })));
  return [list];
}

function fact(list, name, value) {
  if (value === null || value === undefined || value === "") return;
  list.append(make("dt", { text: name }), written("dd", {}, String(value)));
}

// The part that unfolds below a row; for an excluded item it says which budget would let it in.
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
  const remedy = row.reason ? [make("p", { class: "remedy", "data-admit": position, "data-reason": row.reason, text: "…" })] : [];
  const cell = make("td", { colspan: columns }, ...remedy, pinControl(position), content, ...scoreParts(position), ...relationLists(position), facts);
  return make("tr", { class: "detail" }, cell);
}
