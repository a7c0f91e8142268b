// How the page says things: numbers, items as text, reasons in plain words.

const grouped = new Intl.NumberFormat("en-US");
const number = (value) => grouped.format(value);
const capital = (words) => `${words[0].toUpperCase()}${words.slice(1)}`;
const plural = (count, word, words = `${word}s`) => `${number(count)} ${count === 1 ? word : words}`;

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

// A number of the data: one that is not finite is written as text.
const numeric = (value) => (typeof value === "string" ? Number(value) : value);

function scoreText(score) {
  if (score === null) return "–";
  return Number.isFinite(score) ? score.toFixed(3) : String(score).replace("Infinity", "∞");
}

// ---- reasons: the words come with the data, from where the library has its own -------------------------------------

const HOLDS = { "<": (a, b) => a < b, ">=": (a, b) => a >= b };
const SHOWN = 24;

function shownField(value, sign) {
  if (typeof value === "number") return number(sign ? -value : value);
  const line = String(value).slice(0, SHOWN * 4).replace(/\s+/g, " ").trim();
  return line.length > SHOWN ? `${line.slice(0, SHOWN - 1)}…` : line;
}

// A reason's fields as the report has them: the row leaves out those of its item.
function fieldsOf(row, items) {
  const { tokens, spelled } = items[row.position] ?? {};
  return { item_tokens: tokens, tokens, kind: spelled, ...row, ...(row.reason === "QuotaCapExceeded" && { actual: row.actual + tokens }) };
}

// Why an item is out, in the library's words.
function say(row, items, reasons) {
  const fields = fieldsOf(row, items);
  for (const { text, when } of reasons[row.reason]?.templates ?? []) {
    if (when && !HOLDS[when[1]](fields[when[0]], typeof when[2] === "string" ? fields[when[2]] : when[2])) continue;
    return text.replace(/\{(-?)(\w+)\}/g, (_, sign, name) => shownField(fields[name], sign));
  }
  return row.reason;
}

const reasonName = (reason, reasons) => reasons[reason]?.title || reason;
