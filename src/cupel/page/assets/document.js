// Shared by all views: the data, making elements, the address, themes and the clipboard.

const $ = (id) => document.getElementById(id);
const data = JSON.parse($("payload").textContent);
const PAGE = 40; // rows a list shows before it is asked for more
const views = []; // each { id, subtitle, follow }: `follow` draws what the address asks for

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") element.className = value;
    else if (name === "text") element.textContent = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

// Text of others, in an element of its own.
function written(tag, attributes, text) {
  const element = make(tag, attributes);
  writeText(element, text);
  return element;
}

// A text as it is, with a note if the page carries only a part of its `whole` length.
function textBlock(text, whole) {
  const body = written("pre", { dir: "auto" }, text);
  if (whole) body.append(make("span", { class: "cut", text: ` … ${number(whole - text.length)} more characters` }));
  return body;
}

// Something that unfolds, and is filled when it first does.
function fold(css, summary, fill) {
  const details = make("details", { class: css }, summary);
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) details.append(fill());
  });
  return details;
}

// The first entries of a list, and how many there are besides.
function listed(attributes, entries, draw) {
  const list = make("ul", attributes, ...entries.slice(0, PAGE).map((entry) => make("li", {}, ...draw(entry))));
  if (entries.length > PAGE) list.append(make("li", { class: "why", text: `and ${number(entries.length - PAGE)} more` }));
  return list;
}

// The address says what the page shows. Each view writes its own words and leaves those of the others alone.
const address = {
  words: ["view", "talk", "strategy", "turn", "budget", "policy", "weights", "pins", "show", "item"],

  read: () => new URLSearchParams(location.hash.slice(1)),

  write(own) {
    const before = this.read();
    const parts = new URLSearchParams();
    for (const word of this.words) {
      const value = word in own ? own[word] : before.get(word);
      if (value !== null && value !== undefined) parts.set(word, value);
    }
    const link = `#${parts}`;
    if (link !== location.hash) history.replaceState(null, "", link);
  },
};

const on = (id, event, handler) => $(id).addEventListener(event, handler);

// Whether a key belongs to the field that has the focus.
const isTyping = () => /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName ?? "");

function theme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  $("theme").textContent = dark ? "Light" : "Dark";
  $("theme").setAttribute("aria-label", dark ? "Switch to the light theme" : "Switch to the dark theme");
}

async function copy(button, text, shown) {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(shown);
    button.textContent = "Selected";
  }
  setTimeout(() => { button.textContent = before; }, 1500);
}

// The button that shows more of a list.
function offerMore(button, hidden) {
  button.hidden = hidden <= 0;
  button.textContent = `Show ${number(Math.min(hidden, 5 * PAGE))} more of ${number(Math.max(hidden, 0))}`;
}
