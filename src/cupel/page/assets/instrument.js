// The budget: figures, bar, legend, command line, and the curve above the slider.

// The parts of the bar, and the free tokens of the budget.
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
  $("slider").value = String(stopOf(state.budget));
  $("slider").setAttribute("aria-valuetext", `${number(state.budget)} tokens, ${plural(answer.placed.length, "item")} in the window`);
  $("reset").disabled = state.budget === data.budget.target && state.policy === data.start && !state.weights.size && !state.pins.size;
  $("notice").textContent = state.notice;
  if (data.source !== null) writeText($("command"), commandLine("select"));
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
  drawExcess(answer);
}

// A selection that the window cannot hold beside the reserve; the library warns of it (`BudgetWarning`).
function drawExcess(answer) {
  const { max, reserve } = budgetAt(state.budget);
  const left = max - reserve;
  $("excess").hidden = answer.tokens <= left;
  const room = reserve ? `leaves ${number(left)} after the reserve of ${number(reserve)}` : `holds ${number(left)}`;
  $("excess").textContent = answer.tokens > left ? `The provider may refuse this selection: it has ${number(answer.tokens)} tokens, and the window ${room}.` : "";
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

function commandLine(command) {
  const parts = [`cupel ${command} ${data.source} --budget ${state.budget}`];
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

// ---- the scale: one step of the slider is one stop ------------------------------------------------------------------

function drawScale() {
  const last = stops.length - 1;
  const marks = [...new Set([0, 0.25, 0.5, 0.75, 1].map((place) => Math.round(place * last)))];
  $("scale").replaceChildren(
    ...marks.map((at) => {
      const tick = make("span", { text: number(stops[at]) });
      const place = last ? (100 * at) / last : 0;
      tick.style.left = `${place}%`;
      tick.style.transform = `translateX(${-place}%)`;
      return tick;
    }),
  );
}

// The number of items in the window at each stop; with other weights or pins it is not known.
function drawSweep() {
  $("sweep").style.visibility = state.weights.has(state.policy) || state.pins.size ? "hidden" : "";
  const last = Math.max(1, stops.length - 1);
  const counts = stops.map((stop) => answerAt(state.policy, stop).placed.length);
  const height = (count) => (100 - (96 * count) / Math.max(1, items.length)).toFixed(1);
  const line = counts.map((count, at) => `${at ? "L" : "M"}${((1000 * at) / last).toFixed(1)} ${height(count)}`).join(" ");
  $("sweep-line").setAttribute("d", line);
  $("sweep-area").setAttribute("d", `${line} L1000 100 L0 100 Z`);
}
