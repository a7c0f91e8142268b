// The address says what the page shows, so that a link leads to the same budget, policy, view and item.

const SHOWS = ["both", "in", "out", "prompt"];

function writeLink() {
  const opened = [...state.open];
  address.write({
    budget: state.budget,
    policy: policies[state.policy].name,
    weights: state.weights.get(state.policy)?.join(",") ?? null,
    pins: state.pins.size ? [...state.pins].map(([position, pinned]) => (pinned ? position + 1 : -position - 1)).join(",") : null,
    show: state.show === "both" ? null : state.show,
    item: opened.length ? opened.at(-1) + 1 : null,
  });
}

// The parts of an address that this page can show.
function readLink() {
  const parts = address.read();
  const found = {};
  const budget = Number(parts.get("budget"));
  if (parts.has("budget") && Number.isFinite(budget)) Object.assign(found, shownFor(budget));
  const policy = policies.findIndex(({ name }) => name === parts.get("policy"));
  if (policy >= 0) found.policy = policy;
  readChanges(parts, found.policy ?? state.policy);
  if (SHOWS.includes(parts.get("show"))) found.show = parts.get("show");
  const item = Number(parts.get("item")) - 1;
  if (Number.isInteger(item) && item >= 0 && item < items.length) found.open = new Set([item]);
  return found;
}

// Lets the lists go on until an item is on the screen, even if it is far down.
function showAsFarAs(position, answer) {
  for (const [list, positions] of [["in", answer.placed], ["out", answer.excluded.map((row) => row.position)]]) {
    const at = positions.indexOf(position);
    if (at >= state.limits[list]) state.limits[list] = at + PAGE;
  }
}

// Shows the item that a link names.
function followLink() {
  const found = readLink();
  Object.assign(state, { notice: "" }, found);
  $("show").value = state.show;
  if (found.open) {
    state.forms = true;
    showAsFarAs([...found.open][0], answerAt(state.policy, state.budget));
  }
  draw();
  if (found.open) document.querySelector(`#results [data-position="${[...found.open][0]}"]`)?.scrollIntoView({ block: "center" });
}
