// Draws the page and listens. State changes go through `set`, which redraws once per frame.

const later = globalThis.requestIdleCallback ? (task) => requestIdleCallback(task, { timeout: 250 }) : setTimeout;
const cancelLater = globalThis.cancelIdleCallback ?? clearTimeout;
let unhurried = 0;

function draw() {
  if (live && !live.isReady()) return; // the screen stays as it is until Python has answered
  current.forget();
  const answer = current.answer(state.policy);
  const pinning = document.activeElement?.dataset?.pin; // what is pinned may come to stand in the other list
  const focused = document.activeElement?.dataset?.position;
  const place = document.activeElement?.closest("tbody")?.id;
  drawInstrument(answer);
  drawPolicy();
  drawWeights();
  drawReasons(answer);
  drawIn(answer);
  drawOut(answer);
  drawPrompt(answer);
  drawStages();
  $("forms").checked = state.forms;
  $("in-section").hidden = state.show !== "both" && state.show !== "in";
  $("out-section").hidden = state.show !== "both" && state.show !== "out";
  $("results").classList.toggle("single", state.show !== "both");
  const refocus = () => {
    if (pinning !== undefined) document.querySelector(`#results [data-pin="${pinning}"]`)?.focus();
    else if (focused !== undefined && place) $(place).querySelector(`[data-position="${focused}"]`)?.focus();
  };
  refocus();
  announce(answer);
  cancelLater(unhurried);
  unhurried = later(() => {
    drawOthers();
    refocus();
  });
}

// Parts that read all policies or many budgets wait until the answer itself is on the screen.
function drawOthers() {
  writeLink();
  drawPolicies();
  drawSwings();
  drawTrust();
  drawSweep();
  drawAdmissions();
}

// Goes to the nearest stop in a direction at which the selection is another one.
async function jump(step) {
  const here = current.answer(state.policy);
  const isOther = (stop) => {
    const answer = answerAt(state.policy, stop);
    return answer.refused?.name !== here.refused?.name || answer.placed.join() !== here.placed.join();
  };
  const others = step > 0 ? stops.filter((stop) => stop > state.budget) : stops.filter((stop) => stop < state.budget).reverse();
  const budget = live && isChanged() ? await live.step(step) : others.find(isOther) ?? null;
  if (budget !== null) set({ budget });
  else set({ notice: `Nothing changes ${step > 0 ? `up to ${number(highest)}` : `down to ${number(lowest)}`}.` });
}

// Changes the view and keeps the focus on the button that leads back.
function turnTo(show, button) {
  state.show = show;
  $("show").value = show;
  draw();
  $(button).focus();
}

function buildKinds() {
  $("kinds").replaceChildren(
    ...kinds.map((name, kind) => {
      const box = make("input", { type: "checkbox", checked: true, onchange: (event) => {
        if (event.target.checked) state.hidden.delete(kind);
        else state.hidden.add(kind);
        set({});
      } });
      return make("label", { class: "chip" }, box, dot(kind), written("span", {}, name));
    }),
  );
}

function wireBudget() {
  $("budget").min = String(lowest);
  $("budget").max = String(highest);
  $("slider").max = String(stops.length - 1);
  drawScale();
  document.querySelector(".command").hidden = data.source === null;
  $("reset-to").textContent = number(data.budget.target);
  on("slider", "input", (event) => set({ budget: stops[Number(event.target.value)] }));
  on("budget", "input", (event) => {
    if (event.target.value !== "" && Number.isFinite(Number(event.target.value))) set(shownFor(Number(event.target.value)));
  });
  on("budget", "blur", () => { $("budget").value = String(state.budget); });
  on("previous", "click", () => jump(-1));
  on("next", "click", () => jump(1));
  on("reset", "click", () => {
    state.weights.clear();
    state.pins.clear();
    set({ budget: data.budget.target, policy: data.start });
  });
  on("copy", "click", (event) => copy(event.target, $("command").textContent, $("command")));
}

function wireLists() {
  on("prompt-copy", "click", (event) => copy(event.target, promptText(current.answer(state.policy)), $("prompt")));
  on("search", "input", (event) => set({ query: event.target.value.trim().toLowerCase() }));
  on("reason", "change", (event) => set({ reason: event.target.value }));
  on("show", "change", (event) => set({ show: event.target.value }));
  on("read", "click", () => turnTo("prompt", "back"));
  on("back", "click", () => turnTo("both", "read"));
  $("swings-only-field").hidden = policies.length < 2;
  for (const part of ["dial", "steps"]) $(part).hidden = lowest === highest; // a report that cannot be run again
  on("swings-only", "change", (event) => set({ swingsOnly: event.target.checked }));
  $("forms-field").hidden = !hasForms;
  on("forms", "change", (event) => set({ forms: event.target.checked }));
  for (const list of ["in", "out", "prompt", "swing"]) {
    on(`${list}-more`, "click", () => { state.limits[list] += 5 * PAGE; set({}); });
  }
  addEventListener("keydown", (event) => {
    if (event.key === "/" && !$("selection-view").hidden && !isTyping()) {
      event.preventDefault();
      $("search").focus();
    }
  });
  addEventListener("beforeprint", () => {
    for (const list of ["in", "out", "swing"]) state.limits[list] = Math.max(state.limits[list], 1000);
    draw();
  });
}

buildPolicies();
buildKinds();
wireBudget();
wireLists();
const candidates = `${plural(items.length, "candidate")}, ${number(data.total_tokens)} tokens`;
views.push({ id: "selection", subtitle: `${candidates}, ${number(policies.length)} ${policies.length === 1 ? "policy" : "policies"}`, follow: followLink });
// For tests and consoles: the selection under policy `index` at the largest stop within `target` tokens.
globalThis.cupelPage = { at: answerAt, state };
