// The requests of a recorded conversation: the texts of each, and how it differs from the one before.
//
// A text's number below `messages` is its place in the recording; the others are shorter forms of a message, with its
// place as `of`, or texts that the strategy added, with null.

function expand(runs) {
  const numbers = [];
  for (let at = 0; at < runs.length; at += 2) for (let step = 0; step < runs[at + 1]; step++) numbers.push(runs[at] + step);
  return numbers;
}

const placeOfText = (talk, text) => (text < talk.messages ? text : talk.texts[text].of);

const tokensOf = (talk, texts) => texts.reduce((sum, text) => sum + talk.texts[text].tokens, 0);

// The last turn before this one on which something was sent; -1 if there is none.
function lastSent(turns, turn) {
  let last = turn - 1;
  while (last >= 0 && !turns[last].request) last -= 1;
  return last;
}

// The texts of a turn's request, and those that entered, came back, left or changed since the last one.
function requestAt(talk, strategy, turn) {
  const turns = talk.strategies[strategy];
  const last = lastSent(turns, turn);
  const before = last < 0 ? [] : expand(turns[last].request);
  const now = turns[turn].request ? expand(turns[turn].request) : null;
  if (now === null) return { now, before };
  const start = last < 0 ? 0 : talk.steps[last];
  const place = (text) => placeOfText(talk, text) ?? -1 - text; // an added text is known by its own number
  const was = new Map(before.map((text) => [place(text), text]));
  const is = new Set(now.map(place));
  const isNew = (text) => (place(text) < 0 ? !was.has(place(text)) : place(text) >= start);
  const changed = now.filter((text) => was.has(place(text)) && was.get(place(text)) !== text);
  const shorter = (text) => text >= talk.messages && talk.texts[text].tokens < talk.texts[was.get(place(text))].tokens;
  let same = 0;
  while (same < before.length && same < now.length && before[same] === now[same]) same += 1;
  return {
    now,
    before,
    same, // the length of the prefix that it has in common with the last one
    entered: now.filter(isNew),
    returned: now.filter((text) => !isNew(text) && !was.has(place(text))),
    left: before.filter((text) => !is.has(place(text))),
    shortened: changed.filter(shorter),
    restored: changed.filter((text) => !shorter(text)),
  };
}

// The tokens of a strategy over a conversation, and their price.
function billOf(turns) {
  const bill = { requests: 0, sent: 0, read: 0, rewritten: 0, new: 0, price: 0, over: 0, failed: 0, facts: 0, kept: 0 };
  for (const turn of turns) {
    if (!turn.request) {
      bill.failed += 1;
      continue;
    }
    bill.requests += 1;
    for (const name of ["sent", "read", "new", "price"]) bill[name] += turn[name];
    bill.rewritten += rewrittenOf(turn);
    bill.over += turn.over ? 1 : 0;
    bill.facts += turn.used?.facts ?? 0;
    bill.kept += turn.used?.kept ?? 0;
  }
  return bill;
}

const rewrittenOf = (turn) => turn.sent - turn.read - turn.new;
