// The view of a conversation: the strategies with their strips, and one turn of one of them.

let story = data.turns; // a watched conversation is replaced as it goes on
const shownTurn = { talk: 0, strategy: story.strategies.length - 1, turn: Infinity, limit: PAGE };
let strips = [];

const talkNow = () => story.conversations[shownTurn.talk];
const turnsNow = () => talkNow().strategies[shownTurn.strategy];
const turnNumber = () => (story.first ?? 0) + shownTurn.turn + 1; // a long watched conversation comes page by page

function setTurn(changes) {
  Object.assign(shownTurn, { limit: PAGE }, changes);
  shownTurn.turn = Math.min(Math.max(shownTurn.turn, 0), turnsNow().length - 1);
  if ("talk" in changes) buildStrategies();
  drawTurn();
}

// ---- the strategies -------------------------------------------------------------------------------------------------

function strategyCard(name, strategy) {
  const turns = talkNow().strategies[strategy];
  const made = strip(turns, story.budget);
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
  strips = story.strategies.map(strategyCard);
  $("strategies").replaceChildren(...strips.map(({ card }) => card));
  $("turn").max = String(turnsNow().length);
  $("misses").replaceChildren(...(talkNow().misses ?? []).map(missRow));
}

// Why the cache of an agent's log was missed, and the turn with most of it.
function missRow({ cause, tokens, requests, turn }) {
  const most = turn < 0 ? [] : [", most in ", make("button", { type: "button", class: "link", text: `turn ${number(turn + 1)}`, onclick: () => setTurn({ strategy: 0, turn }) })];
  return make("li", {}, make("b", { text: cause }), `: ${plural(tokens, "token")} written again in ${plural(requests, "request")}`, ...most);
}

const rounded = (value) => number(Math.round(value));
const shareOf = (part, whole) => `${Math.round((100 * part) / Math.max(whole, 1))}\u00a0%`;

// A price compared with that of the chosen strategy.
function beside(bill, chosen) {
  if (!bill.requests || !chosen.requests) return "";
  const more = Math.round((100 * bill.price) / Math.max(chosen.price, 1e-9) - 100);
  const name = story.strategies[shownTurn.strategy];
  return more === 0 ? `, as much as “${name}”` : `, ${Math.abs(more)}\u00a0% ${more < 0 ? "less" : "more"} than “${name}”`;
}

function drawStrategies() {
  const chosen = billOf(turnsNow());
  strips.forEach(({ card, choose }, strategy) => {
    const bill = billOf(talkNow().strategies[strategy]);
    const current = strategy === shownTurn.strategy;
    card.classList.toggle("current", current);
    card.querySelector("input").checked = current;
    choose(shownTurn.turn);
    writeText(card.querySelector(".price"), bill.requests ? `costs ${rounded(bill.price)}${current ? "" : beside(bill, chosen)}` : "sends nothing");
    const kept = bill.facts ? ` · holds ${shareOf(bill.kept, bill.facts)} of the words used later` : "";
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
  const strategy = story.strategies[shownTurn.strategy];
  drawStrategies();
  $("talk").value = String(shownTurn.talk);
  $("turn").value = String(shownTurn.turn + 1);
  $("turn").setAttribute("aria-valuetext", `turn ${turnNumber()} of ${story.turns ?? turnsNow().length}`);
  $("turn-previous").disabled = shownTurn.turn === 0;
  $("turn-next").disabled = shownTurn.turn === turnsNow().length - 1;
  $("turn-title").textContent = `Turn ${number(turnNumber())} of ${number(story.turns ?? turnsNow().length)}`;
  writeText($("turn-note"), `${strategy}, after ${plural(talkNow().steps[shownTurn.turn], "message")} of ${number(turn.history)} tokens`);
  $("turn-readouts").replaceChildren(...(turn.request ? readouts(turn) : []));
  const words = turn.request ? turnWords(turn) : [`Nothing could be sent: ${turn.failure}`];
  $("turn-reason").replaceChildren(...words.map((one) => written("p", {}, one)));
  $("turn-reason").classList.toggle("refusal", !turn.request);
  drawWindowLink();
  drawChanges(turn, request);
  drawRequest(request);
  const said = turn.request ? `${number(turn.sent)} tokens sent, ${number(turn.read)} from the cache` : "nothing sent";
  $("turn-announce").textContent = `${strategy}, turn ${turnNumber()}: ${said}.`;
  address.write({ ...(story.conversations.length > 1 && { talk: talkNow().name }), strategy, turn: turnNumber() });
}

function readouts(turn) {
  const part = (tokens) => shareOf(tokens, turn.sent);
  return [
    readout("Sent", number(turn.sent), story.budget ? `of ${number(story.budget)} tokens` : "tokens"),
    readout("Read from the cache", number(turn.read), part(turn.read)),
    readout("Written again", number(rewrittenOf(turn)), part(rewrittenOf(turn))),
    readout("New", number(turn.new), part(turn.new)),
    readout("Price", rounded(turn.price), "uncached tokens"),
  ];
}

// A turn in sentences: its tokens, why its request looks as it does, and whether it held the words that the next step used.
function turnWords(turn) {
  if (turn.waiting) return ["The provider is still answering."];
  const again = rewrittenOf(turn);
  const parts = [turn.read && `${number(turn.read)} come from the cache`, again && `${number(again)} are written again although they had been sent before`, turn.new && `${number(turn.new)} are new`].filter(Boolean);
  const list = parts.length > 1 ? `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}` : parts.join("");
  const words = [`Of the ${plural(turn.sent, "token")} in this request, ${list}.`];
  if (turn.reason) words[0] += ` ${capital(turn.reason)}.`;
  if (turn.used) words.push(`The model's next step used ${plural(turn.used.facts, "word")} from the history; this request holds ${turn.used.kept < turn.used.facts ? number(turn.used.kept) : turn.used.facts === 1 ? "it" : "all of them"}.`);
  return [...words, ...(turn.told ?? [])];
}

// A link to the page of one window, where the turns come from a watched conversation.
function drawWindowLink() {
  $("turn-window").replaceChildren(...(story.window ? [make("a", { href: `${story.window}/${turnNumber() - 1}/`, text: "Try other budgets and policies" })] : []));
}

// ---- starting -------------------------------------------------------------------------------------------------------

function followTurn() {
  if (!story.conversations.length) return;
  const parts = address.read();
  const found = { talk: Math.max(0, story.conversations.findIndex(({ name }) => name === parts.get("talk"))) };
  const strategy = story.strategies.indexOf(parts.get("strategy"));
  if (strategy >= 0) found.strategy = strategy;
  const turn = Number(parts.get("turn"));
  if (Number.isInteger(turn) && turn > 0) found.turn = turn - 1;
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
  const talks = story.conversations;
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

// The window and the prices, above the strips.
function drawTerms() {
  const { budget, prices } = story;
  const window = budget ? `in a window of ${number(budget)} tokens` : "everything is sent as the agent wrote it";
  $("strategies-note").textContent = prices ? `${window}; prices in uncached tokens: ${prices.read} for one from the cache, ${prices.write} for any other` : window;
  document.querySelector(".keys .line").parentElement.hidden = !budget;
}

function turnsSubtitle() {
  const talks = story.conversations;
  const turns = talks.reduce((sum, talk) => sum + talk.steps.length, 0);
  return `${plural(talks.length, "conversation")}, ${plural(turns, "turn")}, ${number(story.strategies.length)} ${story.strategies.length === 1 ? "strategy" : "strategies"} to fill the window`;
}

wireTurns();
drawTerms();
views.push({ id: "turns", subtitle: turnsSubtitle(), follow: followTurn });
