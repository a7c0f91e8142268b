// Draws the page and listens. State changes go through `set`, which redraws once per frame.

const later = globalThis.requestIdleCallback ? (task) => requestIdleCallback(task, { timeout: 250 }) : setTimeout;
const cancelLater = globalThis.cancelIdleCallback ?? clearTimeout;
let unhurried = 0;

function draw() {
  if (engineOf(state.policy) instanceof Recorded) state.budget = answerAt(state.policy, state.budget).budget;
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

// What takes a look at all policies, or at many budgets, waits until the answer itself is on the screen.
function drawOthers() {
  writeLink();
  drawPolicies();
  drawSwings();
  drawTrust();
  drawSweep();
  walkAdmissions();
}

function jump(step) {
  const here = current.answer(state.policy);
  const same = (answer) => answer.refused?.name === here.refused?.name && digest(answer.placed) === digest(here.placed);
  const end = step > 0 ? data.slider.max : data.slider.min;
  const found = nearestBudget(engineOf(state.policy), budgetAt, { from: state.budget, end, step, wanted: (answer) => !same(answer) });
  if (found.budget !== null) return set({ budget: found.budget });
  const way = step > 0 ? "up" : "down";
  return set({ notice: found.sure ? `Nothing changes ${way} to ${number(end)}.` : `Nothing changes ${way} to ${number(found.reached)}; nobody looked further.` });
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
  $("budget").min = String(data.slider.min);
  $("budget").max = String(data.slider.max);
  $("slider").max = String(STEPS);
  drawScale();
  document.querySelector(".command").hidden = data.source === null;
  $("reset-to").textContent = number(data.budget.target);
  on("slider", "input", (event) => set({ budget: budgetOf(Number(event.target.value) / STEPS) }));
  on("slider", "keydown", slideByKey);
  on("budget", "input", (event) => {
    if (event.target.value !== "" && Number.isFinite(Number(event.target.value))) set({ budget: clampBudget(Number(event.target.value)) });
  });
  on("budget", "blur", () => { $("budget").value = String(state.budget); });
  on("previous", "click", () => jump(-1));
  on("next", "click", () => jump(1));
  on("reset", "click", () => {
    state.weights.clear();
    state.pins.clear();
    rework();
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
  for (const part of ["dial", "steps"]) $(part).hidden = data.slider.min === data.slider.max; // a report that cannot be run again
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
// For tests and consoles: the selection under policy `index` at `target` tokens.
globalThis.cupelPage = { at: answerAt, state, verified };
