// Watched conversations: the list, and the chosen one as it goes on. The server tells of every change, and is then asked.

const watching = { rows: [], shown: null, wanted: null, busy: false, stale: false };

history.replaceState(null, "", location.pathname + location.hash); // without the token: a cookie has it now

const isGoverned = data.turns.budget !== null; // otherwise nothing is dropped

async function fetched(path) {
  const response = await fetch(path);
  if (!response.ok) throw new Error(String(response.status));
  return response.json();
}

// Reads the list and the chosen conversation again; changes in the meantime are read afterwards, not beside.
async function refresh() {
  watching.stale = true;
  if (watching.busy) return;
  watching.busy = true;
  try {
    while (watching.stale) {
      watching.stale = false;
      watching.rows = await fetched("conversations");
      await readStory();
      drawWatched();
      await new Promise((done) => setTimeout(done, 300));
    }
    $("watch-note").textContent = watching.rows.length ? "live, the newest activity first; prices in uncached input tokens" : "none yet: they appear here as soon as an agent sends a request through the watcher";
  } catch {
    $("watch-note").textContent = "The watcher does not answer: is cupel watch still running?";
  }
  watching.busy = false;
}

async function readStory() {
  const chosen = watching.rows.find((row) => row.session === address.read().get("talk")) ?? watching.rows[0];
  $("turns-view").hidden = !chosen;
  if (!chosen) return;
  const isNew = chosen.session !== watching.shown;
  const atEnd = !isNew && turnNumber() >= story.turns;
  const wanted = watching.wanted ?? (isNew ? Number(address.read().get("turn")) : atEnd ? 0 : turnNumber());
  watching.wanted = null;
  story = await fetched(`turns?${new URLSearchParams({ session: chosen.session, ...(wanted && { turn: wanted }) })}`);
  watching.shown = chosen.session;
  drawTerms();
  if (story.verdict) $("strategies-note").textContent += `; ${story.verdict}`;
  if (isNew) shownTurn.strategy = story.strategies.length - 1;
  const after = story.first + story.conversations[0].steps.length;
  for (const [id, turn, isThere] of [["turns-earlier", story.first, story.first > 0], ["turns-later", after + 1, after < story.turns]]) {
    $(id).hidden = !isThere;
    $(id).onclick = () => { watching.wanted = turn; refresh(); };
  }
  setTurn({ talk: 0, turn: wanted ? wanted - 1 - story.first : Infinity, limit: shownTurn.limit });
}

function choose(row) {
  address.write({ talk: row.session, turn: null, strategy: null });
  refresh();
}

function drawWatched() {
  document.querySelector(".watched").hidden = !watching.rows.length;
  $("watch-everything").hidden = !isGoverned;
  $("watch-rows").replaceChildren(
    ...watching.rows.map((row) => {
      const title = `${row.title || "(no words)"}${row.parent === null ? "" : ` · branch after ${plural(row.forked, "message")}`}`;
      const open = written("button", { type: "button", class: "row link", "aria-current": row.session === watching.shown ? "true" : null, onclick: () => choose(row) }, title);
      const cells = [number(row.turns), number(row.sent), shareOf(row.read, row.sent), `${row.estimated ? "about " : ""}${rounded(row.price)}`, ...(isGoverned ? [rounded(row.appended)] : [])];
      return make("tr", { class: row.session === watching.shown ? "current" : "" },
        make("td", {}, open, ...(row.waiting ? [make("span", { class: "badge", text: "answering" })] : []), ...(isGoverned && row.price > 1.005 * row.appended ? [make("span", { class: "badge", text: "cost more than sending everything" })] : [])),
        written("td", {}, row.model),
        ...cells.map((text) => make("td", { class: "num", text })),
      );
    }),
  );
  const turns = watching.rows.reduce((sum, row) => sum + row.turns, 0);
  const talks = new Set(watching.rows.map(({ session }) => session.replace(/\.\d+$/, ""))).size;
  const branches = watching.rows.length > talks ? ` in ${plural(watching.rows.length, "branch", "branches")}` : "";
  $("subtitle").textContent = `${data.watch.upstream}${data.watch.upstream && ": "}${plural(talks, "conversation")}${branches}, ${plural(turns, "turn")}`;
}

const changesOf = new EventSource("events");
changesOf.addEventListener("message", refresh);
changesOf.addEventListener("open", refresh);
changesOf.addEventListener("error", () => { $("watch-note").textContent = "The watcher does not answer: is cupel watch still running?"; });
