// One turn's request: its changes since the last one, and its text.

// ---- changes --------------------------------------------------------------------------------------------------------

const KINDS_OF_CHANGE = [
  ["entered", "New", ""],
  ["returned", "Came back", ""],
  ["shortened", "Shortened", ""],
  ["restored", "Longer again", ""],
  ["left", "Left", "leave"],
];

function drawChanges(turn, request) {
  const reasons = new Map();
  for (const note of turn.notes ?? []) for (const place of note.at) reasons.set(place, note.words);
  const shown = request.now === null ? [] : KINDS_OF_CHANGE.filter(([name]) => request[name].length);
  $("changes").replaceChildren(...shown.map(([name, title, tone]) => changeList(title, tone, request[name], reasons)));
  const first = lastSent(turnsNow(), shownTurn.turn) < 0;
  $("changes-note").textContent = first ? "the first request: everything in it is new" : shown.length ? "since the last request" : "nothing since the last request";
}

function changeList(title, tone, texts, reasons) {
  const talk = talkNow();
  const list = listed({}, texts, (text) => [textFold(text, reasons.get(placeOfText(talk, text)))]);
  const count = `${plural(texts.length, "message")}, ${plural(tokensOf(talk, texts), "token")}`;
  return make("section", { class: "card change" }, make("h3", { class: tone }, title, " ", make("small", { text: count })), list);
}

// One message in a line, which unfolds to its text.
function textFold(text, why) {
  const row = talkNow().texts[text];
  const summary = make("summary", {}, textLabel(text), " ", written("span", { class: "text", dir: "auto" }, preview({ content: row.text })));
  if (why) summary.append(written("span", { class: "why" }, capital(why)));
  return fold("fold", summary, () => textBody(row));
}

// A text that was only given a note on omitted steps is longer than the message it replaces.
function isShorter(text) {
  const place = placeOfText(talkNow(), text);
  return place !== null && talkNow().texts[text].tokens < talkNow().texts[place].tokens;
}

function textLabel(text) {
  const row = talkNow().texts[text];
  const place = placeOfText(talkNow(), text);
  const label = make("span", { class: "label" }, make("span", { class: `role ${ROLES.includes(row.role) ? row.role : ""}` }), place === null ? "" : `[${place}] `);
  const whole = isShorter(text) ? ` of ${number(talkNow().texts[place].tokens)}` : "";
  label.append(written("span", {}, row.role), ` · ${number(row.tokens)}${whole} ${row.tokens === 1 && !whole ? "token" : "tokens"}`);
  return label;
}

const ROLES = ["system", "user", "assistant", "tool"];

const textBody = (row) => textBlock(row.text || "(empty)", row.clipped);

// ---- the request as text --------------------------------------------------------------------------------------------

function requestBlock(row, label, badges) {
  const line = make("p", { class: "label" }, label);
  for (const [text, css] of badges) line.append(" ", make("span", { class: `badge ${css}`, text }));
  return make("div", { class: "block" }, line, textBody(row));
}

function badgesOf(text, request, sets) {
  const badges = [];
  if (sets.entered.has(text)) badges.push(["new", "fresh"]);
  if (sets.returned.has(text)) badges.push(["came back", "enter"]);
  if (isShorter(text)) badges.push([sets.shortened.has(text) ? "shortened now" : "shortened", ""]);
  else if (text >= talkNow().messages && placeOfText(talkNow(), text) !== null) badges.push(["with a note", ""]);
  return badges;
}

// The texts in order, with a mark where messages of the history are missing, and one where the cache ends.
function requestPieces(request) {
  const talk = talkNow();
  const sets = Object.fromEntries(["entered", "returned", "shortened"].map((name) => [name, new Set(request[name])]));
  const pieces = talk.opening.map((row) => () => requestBlock(row, `${row.role} · ${plural(row.tokens, "token")}`, []));
  let place = 0;
  const gap = (end) => {
    const missing = [];
    for (; place < end; place++) missing.push(place);
    if (missing.length) pieces.push(() => missingMark(missing));
  };
  request.now.forEach((text, at) => {
    const own = placeOfText(talk, text);
    if (own !== null && own >= place) gap(own);
    if (at === request.same && request.before.length) pieces.push(() => cacheMark(at, request.now.length));
    pieces.push(() => requestBlock(talk.texts[text], textLabel(text), badgesOf(text, request, sets)));
    if (own !== null && own >= place) place = own + 1;
  });
  gap(talk.steps[shownTurn.turn]);
  return pieces;
}

const cacheMark = (at, all) => make("p", { class: "boundary", text: at ? `The cache ends here: the first ${number(at)} of ${plural(all, "message")} are the same as in the last request.` : "No message is the same as in the last request." });

function missingMark(places) {
  const tokens = tokensOf(talkNow(), places);
  const summary = make("summary", { text: `${plural(places.length, "message")} left out here, ${plural(tokens, "token")}` });
  return fold("gap", summary, () => listed({}, places, (place) => [textFold(place, null)]));
}

function drawRequest(request) {
  const pieces = request.now === null ? [] : requestPieces(request);
  $("request-note").textContent = request.now === null ? "nothing was sent" : `${plural(request.now.length + talkNow().opening.length, "message")}, in the order the model reads them`;
  $("request").replaceChildren(...pieces.slice(0, shownTurn.limit).map((piece) => piece()));
  offerMore($("request-more"), pieces.length - shownTurn.limit);
}

const requestText = () => {
  const { now } = requestAt(talkNow(), shownTurn.strategy, shownTurn.turn);
  const rows = [...talkNow().opening, ...(now ?? []).map((text) => talkNow().texts[text])];
  return rows.map((row) => `${row.role}: ${row.text}`).join("\n\n");
};
