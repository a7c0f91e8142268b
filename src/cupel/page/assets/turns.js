// The view of a recorded conversation: the strategies with their strips, and one turn of one of them.

const talks = data.turns.conversations;
const shownTurn = { talk: 0, strategy: data.turns.strategies.length - 1, turn: 0, limit: PAGE };
let strips = [];

const talkNow = () => talks[shownTurn.talk];
const turnsNow = () => talkNow().strategies[shownTurn.strategy];

function setTurn(changes) {
  Object.assign(shownTurn, { limit: PAGE }, changes);
  shownTurn.turn = Math.min(Math.max(shownTurn.turn, 0), turnsNow().length - 1);
  if ("talk" in changes) buildStrategies();
  drawTurn();
}

// ---- the strategies -------------------------------------------------------------------------------------------------------

function strategyCard(name, strategy) {
  const turns = talkNow().strategies[strategy];
  const made = strip(turns, data.turns.budget);
  const radio = make("input", { type: "radio", name: "strategy", value: strategy, onchange: () => setTurn({ strategy }) });
  const bars = make("div", { class: "strip", title: "Choose a turn", onclick: (event) => {
    const box = made.shape.getBoundingClientRect();
    setTurn({ strategy, turn: Math.floor(((event.clientX - box.left) / box.width) * turns.length) });
  } }, made.shape);
  if (made.cut !== null) bars.append(make("small", { text: `bars are cut off at ${number(made.cut)} tokens` }));
  const words = make("label", { class: "words" }, radio, written("b", {}, name), make("span", { class: "price" }), make("small", { class: "shares" }), make("small", { class: "leave faults" }));
  return { card: make("div", { class: "strategy" }, words, bars), choose: made.choose };
}

function buildStrategies() {
  strips = data.turns.strategies.map(strategyCard);
  $("strategies").replaceChildren(...strips.map(({ card }) => card));
  $("turn").max = String(turnsNow().length);
}

const rounded = (value) => number(Math.round(value));
const shareOf = (part, whole) => `${Math.round((100 * part) / Math.max(whole, 1))}\u00a0%`;

function drawStrategies() {
  const chosen = billOf(turnsNow());
  strips.forEach(({ card, choose }, strategy) => {
    const bill = billOf(talkNow().strategies[strategy]);
    card.classList.toggle("current", strategy === shownTurn.strategy);
    card.querySelector("input").checked = strategy === shownTurn.strategy;
    choose(shownTurn.turn);
    const more = Math.round((100 * bill.price) / Math.max(chosen.price, 1e-9) - 100);
    const beside = strategy === shownTurn.strategy || !bill.requests || !chosen.requests ? "" : more === 0 ? `, as much as ${data.turns.strategies[shownTurn.strategy]}` : `, ${Math.abs(more)}\u00a0% ${more < 0 ? "less" : "more"} than ${data.turns.strategies[shownTurn.strategy]}`;
    writeText(card.querySelector(".price"), bill.requests ? `costs ${rounded(bill.price)}${beside}` : "sends nothing");
    const kept = bill.facts ? ` · holds ${shareOf(bill.kept, bill.facts)} of what was used` : "";
    card.querySelector(".shares").textContent =
      `${plural(bill.requests, "request")}, ${rounded(bill.sent)} tokens · ${shareOf(bill.read, bill.sent)} cached, ` +
      `${shareOf(bill.rewritten, bill.sent)} written again, ${shareOf(bill.new, bill.sent)} new${kept}`;
    const faults = [];
    if (bill.over) faults.push(`${plural(bill.over, "request")} over the budget`);
    if (bill.failed) faults.push(`nothing to send on ${plural(bill.failed, "turn")}`);
    card.querySelector(".faults").textContent = faults.join(", ");
  });
}

// ---- one turn -------------------------------------------------------------------------------------------------------

function readout(name, value, unit) {
  return make("div", { class: "readout" }, make("span", { class: "name", text: name }), make("span", { class: "value" }, make("output", { text: value }), " ", make("span", { class: "unit", text: unit })));
}

function drawTurn() {
  const turn = turnsNow()[shownTurn.turn];
  const request = requestAt(talkNow(), shownTurn.strategy, shownTurn.turn);
  const strategy = data.turns.strategies[shownTurn.strategy];
  drawStrategies();
  $("talk").value = String(shownTurn.talk);
  $("turn").value = String(shownTurn.turn + 1);
  $("turn").setAttribute("aria-valuetext", `turn ${shownTurn.turn + 1} of ${turnsNow().length}`);
  $("turn-previous").disabled = shownTurn.turn === 0;
  $("turn-next").disabled = shownTurn.turn === turnsNow().length - 1;
  $("turn-title").textContent = `Turn ${number(shownTurn.turn + 1)} of ${number(turnsNow().length)}`;
  writeText($("turn-note"), `${strategy}, after ${plural(talkNow().steps[shownTurn.turn], "message")} of ${number(turn.history)} tokens`);
  $("turn-readouts").replaceChildren(...(turn.request ? readouts(turn) : []));
  const used = turn.used ? ` The step that followed used ${plural(turn.used.facts, "word")} that stood in the history; the request holds ${number(turn.used.kept)}.` : "";
  writeText($("turn-reason"), turn.request ? `${turn.reason ? `By its own count: ${turn.reason}.` : ""}${used}` : `Nothing could be sent: ${turn.failure}`);
  $("turn-reason").classList.toggle("refusal", !turn.request);
  drawChanges(turn, request);
  drawRequest(request);
  const said = turn.request ? `${number(turn.sent)} tokens sent, ${number(turn.read)} from the cache` : "nothing sent";
  $("turn-announce").textContent = `${strategy}, turn ${shownTurn.turn + 1}: ${said}.`;
  address.write({ talk: talks.length > 1 ? talkNow().name : null, strategy, turn: shownTurn.turn + 1 });
}

function readouts(turn) {
  const part = (tokens) => shareOf(tokens, turn.sent);
  return [
    readout("Sent", number(turn.sent), `of ${number(data.turns.budget)} tokens`),
    readout("Read from the cache", number(turn.read), part(turn.read)),
    readout("Written again", number(rewrittenOf(turn)), part(rewrittenOf(turn))),
    readout("New", number(turn.new), part(turn.new)),
    readout("Price", rounded(turn.price), "uncached tokens"),
  ];
}

// ---- starting -------------------------------------------------------------------------------------------------------

function followTurn() {
  const parts = address.read();
  const found = { talk: Math.max(0, talks.findIndex(({ name }) => name === parts.get("talk"))) };
  const strategy = data.turns.strategies.indexOf(parts.get("strategy"));
  if (strategy >= 0) found.strategy = strategy;
  const turn = Number(parts.get("turn"));
  found.turn = Number.isInteger(turn) && turn > 0 ? turn - 1 : shownTurn.turn;
  setTurn(found);
}

// Arrows go from turn to turn, wherever they mean nothing else.
function turnByKey(event) {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!step || isTyping() || event.altKey || event.ctrlKey || event.metaKey || $("turns-view").hidden) return;
  event.preventDefault();
  setTurn({ turn: shownTurn.turn + step });
}

function wireTurns() {
  const { budget, prices } = data.turns;
  shownTurn.turn = talks[0].steps.length - 1;
  $("strategies-note").textContent = `in a window of ${number(budget)} tokens; prices in uncached tokens: ${prices.read} for one from the cache, ${prices.write} for any other`;
  $("talk-field").hidden = talks.length < 2;
  $("talk").replaceChildren(...talks.map((talk, at) => written("option", { value: at }, talk.name)));
  on("talk", "change", (event) => setTurn({ talk: Number(event.target.value), turn: Infinity }));
  on("turn", "input", (event) => setTurn({ turn: Number(event.target.value) - 1 }));
  on("turn-previous", "click", () => setTurn({ turn: shownTurn.turn - 1 }));
  on("turn-next", "click", () => setTurn({ turn: shownTurn.turn + 1 }));
  on("request-more", "click", () => setTurn({ limit: shownTurn.limit + 5 * PAGE }));
  on("request-copy", "click", (event) => copy(event.target, requestText(), $("request")));
  addEventListener("keydown", turnByKey);
}

wireTurns();
views.push({ id: "turns", subtitle: `${plural(talks.length, "conversation")}, ${plural(talks.reduce((sum, talk) => sum + talk.steps.length, 0), "turn")}, ${number(data.turns.strategies.length)} ${data.turns.strategies.length === 1 ? "strategy" : "strategies"} to fill the window`, follow: followTurn });
