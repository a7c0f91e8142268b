// The budget: figures, bar, legend, command line, and the curve behind the slider.

// What the bar is made of, and how many tokens of the budget are free.
function segments(answer) {
  const budget = budgetAt(state.budget);
  const filled = [
    { css: "pinned", name: "Pinned", fill: "var(--accent)", tokens: 0, count: 0 },
    ...kinds.map((name, kind) => ({ css: "kind", name, fill: colour(kind), tokens: 0, count: 0 })),
  ];
  for (const position of answer.placed) {
    const part = filled[isPinned(position) ? 0 : items[position].kind + 1];
    part.tokens += items[position].tokens;
    part.count += 1;
  }
  const parts = filled.filter((part) => part.count);
  const ceiling = budget.max - budget.reserve;
  const room = Math.min(budget.target, ceiling);
  const free = room - answer.tokens;
  if (free > 0) parts.push({ css: "free", name: "Free", tokens: free });
  const beyond = ceiling - Math.max(room, answer.tokens);
  if (beyond > 0) parts.push({ css: "beyond", name: "Above the budget", tokens: beyond });
  if (budget.reserve) parts.push({ css: "reserve", name: "Reserved for the answer", tokens: budget.reserve });
  return { parts, free };
}

function drawInstrument(answer) {
  const { parts, free } = segments(answer);
  drawReadouts(answer, free);
  drawBar(answer, parts);
  if (document.activeElement !== $("budget")) $("budget").value = String(state.budget);
  $("slider").value = String(Math.round(STEPS * placeOf(state.budget)));
  $("slider").setAttribute("aria-valuetext", `${number(state.budget)} tokens, ${plural(answer.placed.length, "item")} in the window`);
  $("reset").disabled = state.budget === data.budget.target && state.policy === data.start && !state.weights.size && !state.pins.size;
  $("notice").textContent = state.notice;
  if (data.source !== null) writeText($("command"), commandLine());
}

function drawReadouts(answer, free) {
  $("n-in").textContent = number(answer.placed.length);
  $("n-all").textContent = `of ${plural(items.length, "item")}`;
  $("n-used").textContent = number(answer.tokens);
  $("share").textContent = state.budget ? percent(answer.tokens, state.budget) : "";
  $("free-name").textContent = free < 0 ? "Over budget" : "Free";
  $("n-free").textContent = number(Math.abs(free));
  $("n-free").parentElement.classList.toggle("over", free < 0);
  $("n-out").textContent = number(items.length - answer.placed.length);
  $("out-tokens").textContent = `${number(data.total_tokens - answer.tokens)} tokens`;
  $("refusal").hidden = !answer.refused;
  $("refusal").textContent = answer.refused ? `No selection at this budget. ${answer.refused.message}` : "";
}

function drawBar(answer, parts) {
  const { max, reserve } = budgetAt(state.budget);
  const whole = Math.max(max, answer.tokens + reserve, 1);
  $("bar").setAttribute("aria-label", parts.map((part) => `${part.name} ${number(part.tokens)} tokens`).join(", ") || "empty");
  $("bar").replaceChildren(
    ...parts.map((part) => {
      const piece = make("span", { class: part.css, title: `${part.name}: ${number(part.tokens)} tokens` });
      if (part.fill) piece.style.backgroundColor = part.fill;
      piece.style.width = `${(100 * part.tokens) / whole}%`;
      return piece;
    }),
  );
  $("legend").replaceChildren(
    ...parts.map((part) => {
      const mark = make("span", { class: `dot ${part.css}`, "aria-hidden": "true" });
      if (part.fill) mark.style.background = part.fill;
      const count = part.count ? ` in ${plural(part.count, "item")}` : "";
      return make("li", {}, mark, written("span", {}, part.name), " ", make("b", { text: number(part.tokens) }), count);
    }),
  );
}

function commandLine() {
  const parts = [`cupel select ${data.source} --budget ${state.budget}`];
  if (!data.budget.max_follows) parts.push(`--max ${data.budget.max}`);
  if (data.budget.reserve) parts.push(`--reserve ${data.budget.reserve}`);
  if (data.budget.margin) parts.push(`--margin ${data.budget.margin}`);
  parts.push(policies[state.policy].flags, ...changeFlags());
  return parts.join(" ");
}

let announcing = 0;
function announce(answer) {
  clearTimeout(announcing);
  announcing = setTimeout(() => {
    $("announce").textContent = answer.refused
      ? `Budget ${number(state.budget)}: ${answer.refused.message}`
      : `Budget ${number(state.budget)}, policy ${policies[state.policy].name}: ${plural(answer.placed.length, "item")} in the window, ` +
        `${number(answer.tokens)} tokens used, ${plural(items.length - answer.placed.length, "item")} left out.`;
  }, 350);
}

// ---- the scale: linear where that is fine enough, else by ratios, so that 200 tokens and 4,000,000 both have room ---

const STEPS = 1000;
const FINE = 4000; // tokens that a linear scale still tells apart
const range = data.slider.max - data.slider.min;
const bend = range > FINE ? range / 1000 : 0; // below about a thousand tokens it stays nearly linear

function placeOf(budget) {
  const part = range ? (budget - data.slider.min) / range : 0;
  return bend ? Math.log1p(bend * part) / Math.log1p(bend) : part;
}

function budgetOf(place) {
  const part = bend ? Math.expm1(place * Math.log1p(bend)) / bend : place;
  return clampBudget(data.slider.min + part * range);
}

// From the keyboard every token can be reached: arrows move by one, with shift by a hundred, pages by a twentieth.
function slideByKey(event) {
  const one = event.shiftKey ? 100 : 1;
  const moves = { ArrowRight: one, ArrowUp: one, ArrowLeft: -one, ArrowDown: -one };
  const pages = { PageUp: 1, PageDown: -1 };
  let budget = null;
  if (event.key in moves) budget = state.budget + moves[event.key];
  else if (event.key in pages) budget = budgetOf(Math.min(1, Math.max(0, placeOf(state.budget) + pages[event.key] / 20)));
  else if (event.key === "Home") budget = data.slider.min;
  else if (event.key === "End") budget = data.slider.max;
  if (budget === null) return;
  event.preventDefault();
  set({ budget: clampBudget(budget) });
}

function drawScale() {
  const { min, max } = data.slider;
  const ticks = [min];
  for (const step of [0.25, 0.5, 0.75]) {
    const budget = budgetOf(step);
    const unit = 10 ** Math.max(0, String(budget).length - 1);
    ticks.push(Math.round(budget / unit) * unit);
  }
  $("scale").replaceChildren(
    ...[...new Set([...ticks, max])].map((budget) => {
      const tick = make("span", { text: number(budget) });
      const place = placeOf(budget);
      tick.style.left = `${100 * place}%`;
      tick.style.transform = `translateX(${-100 * place}%)`;
      return tick;
    }),
  );
}

const sweeps = new Map();
function drawSweep() {
  const index = state.policy;
  if (!sweeps.has(index)) {
    sweeps.set(index, null);
    setTimeout(() => {
      const points = Math.min(items.length > 1500 ? 60 : 240, range + 1);
      const places = Array.from({ length: points }, (_, i) => i / Math.max(1, points - 1));
      sweeps.set(index, places.map((place) => [place, answerAt(index, budgetOf(place)).placed.length]));
      if (state.policy === index) drawSweep();
    }, 30);
  }
  const points = sweeps.get(index);
  if (!points) return;
  const top = Math.max(1, items.length);
  const line = points.map(([place, count], i) => `${i ? "L" : "M"}${(1000 * place).toFixed(1)} ${(100 - (96 * count) / top).toFixed(1)}`).join(" ");
  $("sweep-line").setAttribute("d", line);
  $("sweep-area").setAttribute("d", `${line} L1000 100 L0 100 Z`);
}
