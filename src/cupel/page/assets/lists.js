// Policies, the two lists, the items on which policies differ, and the tables at the end.

function buildPolicies() {
  $("policies").replaceChildren(
    ...policies.map((policy, index) => {
      const radio = make("input", { type: "radio", name: "policy", value: index, onchange: () => set({ policy: index }) });
      return make("label", { class: "choice" }, radio, written("b", {}, policy.name), make("small", { class: "counts" }), make("small", { class: "swing" }));
    }),
  );
}

function drawPolicies() {
  const start = current.members(data.start);
  [...$("policies").children].forEach((card, index) => {
    const answer = current.answer(index);
    card.querySelector(".counts").textContent = answer.refused
      ? "no selection"
      : `${plural(answer.placed.length, "item")} · ${number(answer.tokens)}`;
    const swing = card.querySelector(".swing");
    let enter = 0;
    let leave = 0;
    current.members(index).forEach((inside, position) => {
      if (inside && !start[position]) enter += 1;
      if (!inside && start[position]) leave += 1;
    });
    if (index === data.start) swing.replaceChildren("the starting point");
    else if (!enter && !leave) swing.replaceChildren("same items");
    else {
      swing.replaceChildren(
        make("span", { class: "enter", text: `+${number(enter)}` }), " in, ",
        make("span", { class: "leave", text: `−${number(leave)}` }), " out",
      );
    }
  });
}

function drawPolicy() {
  writeText($("policy-about"), policies[state.policy].description ?? "");
  writeText($("document"), policies[state.policy].document);
  [...$("policies").children].forEach((card, index) => { card.querySelector("input").checked = index === state.policy; });
}

const haystacks = new Array(items.length);
function matches(position) {
  const item = items[position];
  if (state.hidden.has(item.kind)) return false;
  if (state.swingsOnly && !current.swings(position)) return false;
  if (!state.query) return true;
  haystacks[position] ??= [item.content, item.source, kinds[item.kind], ...(item.tags ?? [])].join("\n").toLowerCase();
  return haystacks[position].includes(state.query);
}

function swingBadge(position, inside) {
  if (state.policy === data.start) return null;
  const before = current.holds(data.start, position);
  if (before === inside) return null;
  return inside ? make("span", { class: "badge enter", text: "comes in" }) : make("span", { class: "badge leave", text: "drops out" });
}

// The rows of a list as far as it goes, each with what is unfolded below it; a row has an item's position.
function fill(list, rows, columns, drawRow, emptyText) {
  const limit = state.limits[list];
  const drawn = rows.slice(0, limit).flatMap((row) => (state.open.has(row.position) ? [drawRow(row), detailRow(row, columns)] : [drawRow(row)]));
  if (!rows.length) drawn.push(make("tr", { class: "empty" }, make("td", { colspan: columns, text: emptyText })));
  $(`${list}-rows`).replaceChildren(...drawn);
  offerMore($(`${list}-more`), rows.length - limit);
}

const nothing = (answer) => (answer.refused ? "Nothing: there is no selection at this budget." : "Nothing matches.");

function drawIn(answer) {
  const rows = answer.placed.map((position, order) => ({ position, order })).filter(({ position }) => matches(position));
  $("in-note").textContent = rows.length === answer.placed.length
    ? `${plural(rows.length, "item")}, in the order the model reads them`
    : `${number(rows.length)} of ${plural(answer.placed.length, "item")} shown`;
  fill("in", rows, 4, ({ position, order }) => make("tr", {},
    make("td", { class: "num", text: number(order + 1) }),
    make("td", {}, rowButton(position, swingBadge(position, true)), make("span", { class: "why" }, kindLabel(position), relationWords(position))),
    tokensCell(position),
    scoreCell(position),
  ), nothing(answer));
}

function sentence(row) {
  const twin = row.reason === "Deduplicated" && row.by !== null ? `, number ${number(row.by + 1)}` : "";
  return `${capital(say(row, items, data.reasons))}${twin}.`;
}

function drawOut(answer) {
  const found = answer.excluded.filter((row) => matches(row.position) && (!state.reason || row.reason === state.reason));
  // The other forms of what is in are there on demand: nothing is missing for want of them.
  const rows = state.forms || state.reason || state.query ? found : found.filter((row) => row.reason !== "Superseded");
  const forms = rows.length < found.length ? ` and ${plural(found.length - rows.length, "other form")} of what is in` : "";
  $("out-note").textContent = found.length === answer.excluded.length
    ? `${plural(rows.length, "item")}${forms}, best score first`
    : `${number(rows.length)} of ${plural(answer.excluded.length, "item")} shown`;
  fill("out", rows, 3, (row) => {
    const { position } = row;
    const words = written("span", { class: "reason" }, sentence(row));
    const admit = make("span", { class: "admit", "data-position": position, "data-reason": row.reason });
    return make("tr", {},
      make("td", {}, rowButton(position, swingBadge(position, false)), make("span", { class: "why" }, kindLabel(position), " ", words, " ", admit, relationWords(position))),
      tokensCell(position),
      scoreCell(position),
    );
  }, nothing(answer));
}

// Fills in "gets in at" for the rows on the screen, once the reader has stopped moving things.
let walking = 0;
function walkAdmissions() {
  clearTimeout(walking);
  delete $("out-rows").dataset.searched;
  const slots = new Map();
  for (const slot of $("out-rows").querySelectorAll(".admit")) slots.set(Number(slot.dataset.position), slot);
  const engine = engineOf(state.policy);
  const recorded = engine instanceof Recorded; // then only some budgets are known
  const walk = new AdmissionWalk(engine, budgetAt, state.budget, data.slider.max, slots.keys());
  let shown = 0;
  const step = () => {
    walk.advance(8);
    for (const [position, budget] of [...walk.found].slice(shown)) slots.get(position).textContent = recorded ? `Is in at ${number(budget)}.` : `Gets in at ${number(budget)}.`;
    shown = walk.found.size;
    if (!walk.done) {
      walking = setTimeout(step);
      return;
    }
    $("out-rows").dataset.searched = "";
    if (walk.budget !== null) return; // given up before the end of the scale: nothing is known about the rest
    for (const position of walk.missing) {
      const slot = slots.get(position);
      if (!sooner(slot.dataset.reason) && data.slider.min < data.slider.max) slot.textContent = `No ${recorded ? "recorded budget" : "budget"} up to ${number(data.slider.max)} lets it in.`;
    }
  };
  walking = setTimeout(step, 250);
}

function drawSwings() {
  $("swings").hidden = policies.length < 2;
  if (policies.length < 2) return;
  const rows = [...items.keys()].filter((position) => current.swings(position) && matches(position)).map((position) => ({ position }));
  $("swings-note").textContent = `${plural(rows.length, "item")} that some policies take and others leave at ${number(state.budget)} tokens`;
  const css = (index) => (index === state.policy ? "policy current" : "policy");
  const heads = policies.map((policy, index) => written("th", { scope: "col", class: css(index) }, policy.name));
  $("swing-head").replaceChildren(make("tr", {}, make("th", { scope: "col", text: "Item" }), make("th", { scope: "col", class: "num", text: "Tokens" }), ...heads));
  fill("swing", rows, policies.length + 2, ({ position }) => make("tr", {},
    make("td", {}, rowButton(position, null), make("span", { class: "why" }, kindLabel(position))),
    tokensCell(position),
    ...policies.map((_, index) => {
      const inside = current.holds(index, position);
      return make("td", { class: css(index) }, make("span", { class: inside ? "yes" : "no", text: inside ? "● in" : "○ out" }));
    }),
  ), "All policies take the same items at this budget.");
}

function drawStages() {
  const policy = policies[state.policy];
  const most = Math.max(...policy.stages.map((stage) => stage.out), 1);
  $("stages-note").textContent = policy.stages.length
    ? `at ${number(data.budget.target)} tokens`
    : `there is no selection at ${number(data.budget.target)} tokens`;
  $("stages").replaceChildren(
    ...policy.stages.map((stage) => {
      const bar = make("i");
      bar.style.width = `${(100 * stage.out) / most}%`;
      return make("tr", {},
        make("th", { scope: "row", text: stage.name }),
        make("td", { class: "num", text: number(stage.in) }),
        make("td", { class: "num", text: number(stage.out) }),
        make("td", {}, bar),
      );
    }),
  );
}

function drawReasons(answer) {
  const counts = new Map();
  for (const row of answer.excluded) counts.set(row.reason, (counts.get(row.reason) ?? 0) + 1);
  if (state.reason && !counts.has(state.reason)) counts.set(state.reason, 0);
  const options = [...counts].sort(([a], [b]) => (a < b ? -1 : 1)).map(([reason, count]) => make("option", { value: reason, text: `${reasonName(reason, data.reasons)} (${number(count)})` }));
  $("reason").replaceChildren(make("option", { value: "", text: "any reason" }), ...options);
  $("reason").value = state.reason;
}

function drawTrust() {
  const { name, checks, answers } = policies[state.policy];
  const recorded = engineOf(state.policy) instanceof Recorded;
  const trusted = recorded || verified(state.policy);
  const tried = state.weights.has(state.policy) || state.pins.size ? " Your weights and pins go through the same arithmetic, which has reproduced the library's scores of the policy as it is." : "";
  let words = `The library's own answers at ${plural(checks.length, "budget")} agree with what this page computes for “${name}”.${tried}`;
  if (recorded) words = `“${name}” uses a strategy that only runs in Python: the slider stops at the ${plural(answers.length, "budget")} it was run at.`;
  if (!trusted) words = `Warning: this page's replay of “${name}” disagrees with the library. Trust “cupel select” instead.`;
  writeText($("trust"), `Made by ${data.generator}. ${words}`);
  $("trust").classList.toggle("notice", !trusted);
}
