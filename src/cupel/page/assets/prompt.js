// The window as text, as the model reads it, with marks where items were left out.

// For each item in the window the excluded ones that followed it in the input; those before all of it come under null.
function gaps(answer) {
  const inside = new Set(answer.placed);
  const rows = new Map(answer.excluded.map((row) => [row.position, row]));
  const found = new Map();
  let anchor = null;
  for (let position = 0; position < items.length; position++) {
    if (inside.has(position)) anchor = position;
    else if (rows.has(position) && rows.get(position).reason !== "Superseded") found.set(anchor, [...(found.get(anchor) ?? []), rows.get(position)]);
  }
  return found;
}

function gapMark(rows) {
  if (!rows) return [];
  const tokens = rows.reduce((sum, row) => sum + Math.max(0, items[row.position].tokens), 0);
  const summary = make("summary", { text: `${plural(rows.length, "item")} left out here, ${plural(tokens, "token")}` });
  const drawRow = (row) => [written("span", { class: "text", dir: "auto" }, preview(items[row.position])), written("span", { class: "why" }, sentence(row))];
  return [fold("gap", summary, () => listed({}, rows, drawRow))];
}

function promptBlock(position) {
  const item = items[position];
  const label = make("p", { class: "label" }, kindLabel(position), ` ${plural(item.tokens, "token")}`);
  if (isPinned(position)) label.append(" ", make("span", { class: "badge pin", text: "pinned" }));
  if (formsOf(position).length > 1) label.append(" ", make("span", { class: "badge", text: item.tokens < longest(position) ? `shortened from ${plural(longest(position), "token")}` : `one of ${formsOf(position).length} forms` }));
  return make("div", { class: "block" }, label, textBlock(item.content, item.clipped));
}

function drawPrompt(answer) {
  $("prompt-section").hidden = state.show !== "prompt";
  if (state.show !== "prompt") return;
  const left = gaps(answer);
  const shown = answer.placed.slice(0, state.limits.prompt);
  $("prompt-note").textContent = `${plural(answer.placed.length, "item")}, ${plural(answer.tokens, "token")}, in the order the model reads them`;
  $("prompt").replaceChildren(...gapMark(left.get(null)), ...shown.flatMap((position) => [promptBlock(position), ...gapMark(left.get(position))]));
  if (!answer.placed.length) $("prompt").prepend(make("p", { class: "label", text: "Nothing is in the window at this budget." }));
  offerMore($("prompt-more"), answer.placed.length - shown.length);
}

const promptText = (answer) => answer.placed.map((position) => items[position].content).join("\n\n");
