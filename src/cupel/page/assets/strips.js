// A strip for each strategy: one bar a turn, from below the tokens that the cache serves, those written again, new ones.
// All strips have one scale, and the line is the budget, if there is one.

const SVG = "http://www.w3.org/2000/svg";
const LINE = 56; // pixels up to the budget
const MOST = 3; // budgets after which a bar is cut off

const drawing = (tag, attributes) => {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
};

// The outline of one layer of all bars, as one path.
function layer(turns, from, to) {
  const gap = turns.length > 150 ? 0 : 0.12;
  return turns
    .map((turn, at) => {
      const low = from(turn);
      const high = to(turn);
      return high > low ? `M${at + gap} ${-low}H${at + 1 - gap}V${-high}H${at + gap}Z` : "";
    })
    .join("");
}

function strip(turns, budget) {
  const sizes = turns.map((turn) => turn.sent ?? 0);
  const line = budget ?? Math.max(1, ...sizes);
  const most = Math.max(line * 1.1, ...sizes);
  const top = Math.min(most, MOST * line);
  const clipped = (tokens) => Math.min(tokens, top);
  const sent = turns.map((turn) => (turn.request ? turn : { sent: 0, read: 0, new: 0 }));
  const shape = drawing("svg", { viewBox: `0 ${-top} ${turns.length} ${top}`, preserveAspectRatio: "none", "aria-hidden": "true" });
  shape.style.height = `${Math.round((LINE * top) / line)}px`;
  const layers = [
    ["read", () => 0, (turn) => clipped(turn.read)],
    ["rewritten", (turn) => clipped(turn.read), (turn) => clipped(turn.read + rewrittenOf(turn))],
    ["fresh", (turn) => clipped(turn.read + rewrittenOf(turn)), (turn) => clipped(turn.sent)],
  ];
  const chosen = drawing("rect", { class: "chosen", y: -top, height: top, width: 1 });
  shape.append(...layers.map(([name, from, to]) => drawing("path", { class: name, d: layer(sent, from, to) })));
  if (budget) shape.append(drawing("path", { class: "line", d: `M0 ${-budget}H${turns.length}` }));
  shape.append(chosen);
  return { shape, choose: (turn) => chosen.setAttribute("x", turn), cut: most > top ? top : null };
}
