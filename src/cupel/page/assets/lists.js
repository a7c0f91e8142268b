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

// The first rows of a list, each with the part that is unfolded below it.
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
  // Other forms of selected items are listed on demand only.
  const rows = state.forms || state.reason || state.query ? found : found.filter((row) => row.reason !== "Superseded");
  const forms = rows.length < found.length ? ` and ${plural(found.length - rows.length, "other form")} of selected items` : "";
  $("out-note").textContent = found.length === answer.excluded.length
    ? `${plural(rows.length, "item")}${forms}, best score first`
    : `${number(rows.length)} of ${plural(answer.excluded.length, "item")} shown`;
  fill("out", rows, 3, (row) => {
    const { position } = row;
    const words = written("span", { class: "reason" }, sentence(row));
    const admit = make("span", { class: "admit", "data-admit": position, "data-reason": row.reason });
    return make("tr", {},
      make("td", {}, rowButton(position, swingBadge(position, false)), make("span", { class: "why" }, kindLabel(position), " ", words, " ", admit, relationWords(position))),
      tokensCell(position),
      scoreCell(position),
    );
  }, answer.refused || answer.excluded.length ? nothing(answer) : "Nothing is left out.");
}

// ---- the budget that lets an item in --------------------------------------------------------------------------------

const isEarly = (reason) => reason === "Deduplicated" || reason === "NegativeTokens"; // excluded before any budget counts

// The first larger stop at which each of some items is in; null if there is none.
function admissionsByStops(positions) {
  const found = new Map(positions.map((position) => [position, null]));
  for (const stop of stops.filter((one) => one > state.budget)) {
    for (const position of answerAt(state.policy, stop).placed) if (found.get(position) === null) found.set(position, { budget: stop });
  }
  return found;
}

// Waits until the reader has stopped moving things, if Python is to answer.
let admitting = 0;
function drawAdmissions() {
  clearTimeout(admitting);
  delete $("out-rows").dataset.searched;
  admitting = setTimeout(fillAdmissions, live ? 250 : 0);
}

async function fillAdmissions() {
  const slots = [...$("out-rows").querySelectorAll("[data-admit]")];
  const positions = [...new Set(slots.filter(({ dataset }) => !isEarly(dataset.reason)).map(({ dataset }) => Number(dataset.admit)))];
  const asked = admitting;
  const found = live ? await live.admissions(positions) : admissionsByStops(positions);
  if (asked !== admitting || !found) return;
  for (const slot of slots) drawAdmission(slot, found.get(Number(slot.dataset.admit)));
  $("out-rows").dataset.searched = "";
}

function drawAdmission(slot, found) {
  const short = slot.className === "admit";
  if (isEarly(slot.dataset.reason)) slot.textContent = short ? "" : "No budget lets it in: it was dropped before any budget counts.";
  else if (lowest === highest || found === undefined) slot.hidden = true;
  else if (found === null) slot.textContent = live ? "No larger budget lets it in." : `No stop up to ${number(highest)} lets it in.`;
  else if (short) slot.textContent = `Included at ${number(found.budget)}.`;
  else {
    slot.textContent = `A budget of ${number(found.budget)} lets it in, ${number(found.budget - state.budget)} more than now${found.exact === false ? "; less may do" : ""}.`;
    if (found.budget <= highest) slot.append(make("button", { type: "button", class: "quiet", text: `Set ${number(found.budget)}`, onclick: () => set({ budget: found.budget }) }));
  }
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
  const policy = policyAt(state.policy);
  const shown = policy.stages_at ?? data.budget.target;
  const most = Math.max(...policy.stages.map((stage) => stage.out), 1);
  $("stages-note").textContent = policy.stages.length
    ? `at ${number(shown)} tokens`
    : `there is no selection at ${number(shown)} tokens`;
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
  const words = live
    ? "Python answers every budget, weight and pin while the command runs."
    : `Every selection is the library's own, at ${plural(stops.length, "budget")} from ${number(lowest)} to ${number(highest)}.`;
  $("trust").textContent = `Made by ${data.generator}. ${words}`;
}
