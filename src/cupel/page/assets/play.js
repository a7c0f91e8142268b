// Weights and pins to try: what the reader changes, and how the command line says it.

function setWeight(at, weight) {
  const own = policies[state.policy].scoring.form.weights;
  const weights = (state.weights.get(state.policy) ?? own).slice();
  weights[at] = weight;
  if (weights.every((one, place) => one === own[place])) state.weights.delete(state.policy);
  else state.weights.set(state.policy, weights);
  rework();
  set({});
}

function setPin(position, pinned) {
  if (pinned === Boolean(items[position].pinned)) state.pins.delete(position);
  else state.pins.set(position, pinned);
  rework();
  set({});
}

// The arguments that give the same selection on the command line.
function changeFlags() {
  const { weights: own = [], places } = policies[state.policy].scoring.form;
  const weights = state.weights.get(state.policy) ?? own;
  const flags = weights.flatMap((weight, at) => (weight === own[at] ? [] : [`--set scorer.scorers.${places[at]}.weight=${weight}`]));
  for (const [position, pinned] of state.pins) flags.push(`${pinned ? "--pin" : "--unpin"} ${position + 1}`);
  return flags;
}

// What an address says about weights and pins, as far as this page can try it.
function readChanges(parts, policy) {
  const own = policies[policy].scoring.form.weights;
  const weights = (parts.get("weights") ?? "").split(",").map(Number);
  state.weights.clear();
  state.pins.clear();
  rework();
  if (own && weights.length === own.length && weights.every(isWeight) && !noWeights(policy)) state.weights.set(policy, weights);
  if (noPins(policy)) return;
  const ruled = new Set(policies[policy].scoring.ruled);
  for (const text of (parts.get("pins") ?? "").split(",")) {
    const wanted = Number(text);
    const position = Math.abs(wanted) - 1;
    if (Number.isInteger(wanted) && items[position]?.tokens >= 0 && !ruled.has(position) && wanted > 0 !== Boolean(items[position].pinned)) state.pins.set(position, wanted > 0);
  }
}

const isWeight = (weight) => Number.isFinite(weight) && weight > 0;

function weightField(part, at) {
  const field = make("input", { type: "number", min: "0", step: "any", "data-weight": at });
  field.addEventListener("input", () => {
    const wanted = Number(field.value);
    field.setCustomValidity(isWeight(wanted) ? "" : "A weight is a number above 0.");
    if (isWeight(wanted)) setWeight(at, wanted);
  });
  return make("label", { class: "weight" }, written("span", { class: "name" }, part.name), field, make("span", { class: "unit share" }));
}

let drawnWeights = null; // the policy whose fields stand there: they are not replaced while somebody types

function drawWeights() {
  const { scoring } = policies[state.policy];
  const why = noWeights(state.policy);
  const pinless = noPins(state.policy);
  const neither = why && why === pinless;
  const weights = state.weights.get(state.policy) ?? scoring.form.weights ?? [];
  if (drawnWeights !== state.policy) {
    $("play").replaceChildren(
      make("b", { text: neither ? "Weights and pins" : "Weights" }),
      ...(why ? [written("p", { class: "note" }, why)] : scoring.form.inner.map(weightField)),
      make("p", { class: "note", id: "play-note" }),
      make("button", { type: "button", class: "quiet", id: "undo", text: "Undo the changes", onclick: undoChanges }),
    );
    drawnWeights = state.policy;
  }
  const shares = sharesOf(weights);
  for (const field of $("play").querySelectorAll("[data-weight]")) {
    const at = Number(field.dataset.weight);
    if (field !== document.activeElement && Number(field.value) !== weights[at]) field.value = String(weights[at]);
    field.parentElement.querySelector(".share").textContent = percent(shares[at], 1);
  }
  const pins = [...state.pins.values()].filter(Boolean).length;
  const unpins = state.pins.size - pins;
  const said = [pins && `${plural(pins, "item")} pinned by you`, unpins && `${plural(unpins, "item")} unpinned by you`, state.weights.has(state.policy) && "weights changed"];
  $("play-note").textContent = said.filter(Boolean).join(", ") || (neither ? "" : pinless ? `Pins: ${pinless}` : "Change a weight, or unfold an item to pin it.");
  $("undo").hidden = !state.pins.size && !state.weights.has(state.policy);
}

function undoChanges() {
  state.weights.delete(state.policy);
  state.pins.clear();
  drawnWeights = null;
  rework();
  set({});
}

// The button that pins an item, or the reason why there is none.
function pinControl(position) {
  if (items[position].tokens < 0) return make("span");
  if (policies[state.policy].scoring.ruled.includes(position)) return make("p", { class: "note", text: "A rule of the policy pins it." });
  if (noPins(state.policy)) return make("span");
  const pinned = state.pins.get(position) ?? Boolean(items[position].pinned);
  return make("button", { type: "button", class: "quiet pin-it", "data-pin": position, text: pinned ? "Unpin it" : "Pin it", onclick: () => setPin(position, !pinned) });
}
