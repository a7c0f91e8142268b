// The address says what the page shows, so that a link leads to the same budget, policy, view and item.

const SHOWS = ["both", "in", "out", "prompt"];

function writeLink() {
  const parts = new URLSearchParams({ budget: state.budget, policy: policies[state.policy].name });
  if (state.show !== "both") parts.set("show", state.show);
  const opened = [...state.open];
  if (opened.length) parts.set("item", opened.at(-1) + 1);
  const link = `#${parts}`;
  if (link !== location.hash) history.replaceState(null, "", link);
}

// What an address asks for, as far as this page has it.
function readLink() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const found = {};
  const budget = Number(parts.get("budget"));
  if (parts.has("budget") && Number.isFinite(budget)) found.budget = clampBudget(budget);
  const policy = policies.findIndex(({ name }) => name === parts.get("policy"));
  if (policy >= 0) found.policy = policy;
  if (SHOWS.includes(parts.get("show"))) found.show = parts.get("show");
  const item = Number(parts.get("item")) - 1;
  if (Number.isInteger(item) && item >= 0 && item < items.length) found.open = new Set([item]);
  return found;
}

// Brings an item that a link names onto the screen: the lists show it even if it is far down.
function followLink() {
  const found = readLink();
  Object.assign(state, { notice: "" }, found);
  $("show").value = state.show;
  if (found.open) {
    const [position] = found.open;
    const answer = answerAt(state.policy, state.budget);
    for (const [list, positions] of [["in", answer.placed], ["out", answer.excluded.map((row) => row.position)]]) {
      const at = positions.indexOf(position);
      if (at >= state.limits[list]) state.limits[list] = at + PAGE;
    }
  }
  draw();
  if (found.open) document.querySelector(`#results [data-position="${[...found.open][0]}"]`)?.scrollIntoView({ block: "center" });
}
