// How the page says things: numbers, items as text, reasons in plain words.

const grouped = new Intl.NumberFormat("en-US");
const number = (value) => grouped.format(value);
const plural = (count, word) => `${number(count)} ${word}${count === 1 ? "" : "s"}`;

// Characters that would act on the text around them instead of being seen: controls, line and paragraph separators,
// bidirectional overrides, invisible marks. (Joiners stay: emoji and Indic scripts need them.)
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g;

// Item text goes into the document through here and nowhere else: as text nodes, never as markup.
function writeText(element, text) {
  element.replaceChildren();
  let end = 0;
  for (const match of text.matchAll(UNSEEN)) {
    element.append(text.slice(end, match.index));
    const mark = document.createElement("span");
    mark.className = "ctl";
    mark.textContent = `U+${match[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
    element.append(mark);
    end = match.index + 1;
  }
  element.append(text.slice(end));
}

const PREVIEW = 180;

function preview(item) {
  const text = item.content.slice(0, PREVIEW * 4).replace(/\s+/g, " ").trim();
  return text.length > PREVIEW ? `${text.slice(0, PREVIEW)}…` : text || "(only white space)";
}

// Rounded down: only a full window is called 100 %.
const percent = (part, whole) => `${(Math.floor((1000 * part) / whole) / 10).toFixed(1)} %`;

function scoreText(score) {
  if (score === null) return "–";
  return typeof score === "number" ? score.toFixed(3) : score.replace("Infinity", "∞");
}

const REASON_NAMES = {
  BudgetExceeded: "no room",
  PinnedOverride: "displaced by a pinned item",
  Deduplicated: "duplicate",
  NegativeTokens: "no valid token count",
  CountCapExceeded: "enough of its kind",
};

const reasonName = (reason) => REASON_NAMES[reason] ?? reason.replace(/(?<=[a-z])(?=[A-Z])/g, " ").toLowerCase();

function quote(item) {
  const text = preview(item);
  return `“${text.length > 48 ? `${text.slice(0, 48)}…` : text}”`;
}

function why(row, items) {
  const tokens = items[row.position].tokens;
  switch (row.reason) {
    case "BudgetExceeded":
      if (row.available_tokens < 0) return `Needs ${number(tokens)}; the window was already ${number(-row.available_tokens)} over.`;
      if (row.available_tokens >= tokens) return `${number(row.available_tokens)} tokens stayed free, but this policy did not spend them on it.`;
      return `Needs ${number(tokens)}; ${number(row.available_tokens)} left.`;
    case "PinnedOverride":
      return row.by === null ? "Displaced by the pinned items." : `Would fit without the pinned ${quote(items[row.by])}.`;
    case "Deduplicated":
      return row.by === null ? "The same text is already a candidate." : `Same text as item ${row.by + 1}, which scored higher or came first.`;
    case "NegativeTokens":
      return `Its token count is ${number(tokens)}; a count below zero cannot be budgeted.`;
    case "CountCapExceeded":
      return `${number(row.count)} of kind ${row.kind} are in; the policy allows ${number(row.cap)}.`;
    default:
      return row.words ?? `Reason: ${reasonName(row.reason)}.`;
  }
}

// What would have let an item in, as far as something other than the budget decides it.
function remedy(row) {
  switch (row.reason) {
    case "Deduplicated":
      return "Turn deduplication off to keep both copies.";
    case "NegativeTokens":
      return "Give it a token count of zero or more.";
    case "CountCapExceeded":
      return `Raise the cap for ${row.kind} above ${number(row.cap)}.`;
    default:
      return null;
  }
}
