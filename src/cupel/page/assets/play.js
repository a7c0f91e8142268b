// Weights and pins to try: Python answers them, on a page that is served.

const weightsOf = (index) => state.weights.get(index) ?? policies[index].weights.map(({ weight }) => weight);

function setWeight(at, weight) {
  const weights = weightsOf(state.policy).slice();
  weights[at] = weight;
  if (weights.every((one, place) => one === policies[state.policy].weights[place].weight)) state.weights.delete(state.policy);
  else state.weights.set(state.policy, weights);
  set({});
}

function setPin(position, pinned) {
  if (pinned === Boolean(items[position].pinned)) state.pins.delete(position);
  else state.pins.set(position, pinned);
  set({});
}

// The arguments that give the same selection on the command line.
function changeFlags() {
  const weights = weightsOf(state.policy);
  const flags = policies[state.policy].weights.flatMap(({ place, weight }, at) => (weights[at] === weight ? [] : [`--set scorer.scorers.${place}.weight=${weights[at]}`]));
  for (const [position, pinned] of state.pins) flags.push(`${pinned ? "--pin" : "--unpin"} ${position + 1}`);
  return flags;
}

const isWeight = (weight) => Number.isFinite(weight) && weight > 0;
const isRuled = (position) => policies[state.policy].pinned.includes(position) && !items[position].pinned;
const mayPin = (position) => items[position]?.tokens >= 0 && !isRuled(position);

// The weights and pins in an address.
function readChanges(parts, policy) {
  const own = policies[policy].weights;
  const weights = (parts.get("weights") ?? "").split(",").map(Number);
  state.weights.clear();
  state.pins.clear();
  if (!live) return;
  if (own.length && weights.length === own.length && weights.every(isWeight)) state.weights.set(policy, weights);
  for (const text of (parts.get("pins") ?? "").split(",")) {
    const wanted = Number(text);
    const position = Math.abs(wanted) - 1;
    if (Number.isInteger(wanted) && mayPin(position) && wanted > 0 !== Boolean(items[position].pinned)) state.pins.set(position, wanted > 0);
  }
}

function weightField(part, at) {
  const field = make("input", { type: "number", min: "0", step: "any", "data-weight": at });
  field.addEventListener("input", () => {
    const wanted = Number(field.value);
    field.setCustomValidity(isWeight(wanted) ? "" : "A weight is a number above 0.");
    if (isWeight(wanted)) setWeight(at, wanted);
  });
  return make("label", { class: "weight" }, written("span", { class: "name" }, part.name), field, make("span", { class: "unit share" }));
}

let drawnWeights = null; // the policy whose fields are drawn: they are not replaced while somebody types

function drawWeights() {
  $("play").hidden = !live && !data.source;
  if (!live) {
    const command = written("code", {}, `${commandLine("inspect")} --serve`);
    $("play").replaceChildren(make("p", { class: "note" }, "To try weights, pins and any other budget, let Python answer: ", command));
    return;
  }
  const own = policies[state.policy].weights;
  const weights = weightsOf(state.policy);
  if (drawnWeights !== state.policy) {
    $("play").replaceChildren(
      make("b", { text: "Weights" }),
      ...(own.length > 1 ? own.map(weightField) : [make("p", { class: "note", text: "There is one scorer, so there are no weights." })]),
      make("p", { class: "note", id: "play-note" }),
      make("button", { type: "button", class: "quiet", id: "undo", text: "Undo the changes", onclick: undoChanges }),
    );
    drawnWeights = state.policy;
  }
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  for (const field of $("play").querySelectorAll("[data-weight]")) {
    const at = Number(field.dataset.weight);
    if (field !== document.activeElement && Number(field.value) !== weights[at]) field.value = String(weights[at]);
    field.parentElement.querySelector(".share").textContent = percent(weights[at] / total, 1);
  }
  const pins = [...state.pins.values()].filter(Boolean).length;
  const unpins = state.pins.size - pins;
  const said = [pins && `${plural(pins, "item")} pinned by you`, unpins && `${plural(unpins, "item")} unpinned by you`, state.weights.has(state.policy) && "weights changed"];
  $("play-note").textContent = said.filter(Boolean).join(", ") || "Change a weight, or unfold an item to pin it.";
  $("undo").hidden = !state.pins.size && !state.weights.has(state.policy);
}

function undoChanges() {
  state.weights.delete(state.policy);
  state.pins.clear();
  drawnWeights = null;
  set({});
}

// The button that pins an item, where that can be tried.
function pinControl(position) {
  if (!live || items[position].tokens < 0) return make("span");
  if (!mayPin(position)) return make("p", { class: "note", text: "A rule of the policy pins it." });
  const pinned = state.pins.get(position) ?? Boolean(items[position].pinned);
  return make("button", { type: "button", class: "quiet pin-it", "data-pin": position, text: pinned ? "Unpin it" : "Pin it", onclick: () => setPin(position, !pinned) });
}
