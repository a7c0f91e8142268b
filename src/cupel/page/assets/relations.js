// Forms of one entity and groups: in words, with a link to each item that is meant.

const entities = new Map();
const groups = new Map();

items.forEach((item, position) => {
  const enter = (index, label) => { if (label !== undefined) index.set(label, [...(index.get(label) ?? []), position]); };
  enter(entities, item.entity);
  enter(groups, item.group);
});

const formsOf = (position) => entities.get(items[position].entity) ?? [position];
const hasForms = [...entities.values()].some((positions) => positions.length > 1);
const longest = (position) => Math.max(...formsOf(position).map((other) => items[other].tokens));

// The other entities under one label; the forms of one entity are no company to each other.
const company = (index, label, position) => (index.get(label) ?? []).filter((other) => other !== position && (items[other].entity === undefined || items[other].entity !== items[position].entity));

// An item's relations in a few words, for its row.
function relationWords(position) {
  const item = items[position];
  const words = [];
  const forms = formsOf(position).length;
  if (forms > 1) words.push(item.tokens < longest(position) ? `short form, ${number(item.tokens)} of ${plural(longest(position), "token")}` : `the longest of ${forms} forms`);
  const beside = company(groups, item.group, position).length;
  if (beside) words.push(`in or out with ${plural(beside, "other")}`);
  if (!words.length) return "";
  return make("span", { class: "relations", text: ` ${capital(words.join(" · "))}` });
}

function openItem(position) {
  state.open.add(position);
  state.forms = true;
  Object.assign(state, { query: "", reason: "", show: state.show === "prompt" ? "both" : state.show });
  $("search").value = "";
  showAsFarAs(position, current.answer(state.policy));
  draw();
  const row = document.querySelector(`#results button.row[data-position="${position}"]`);
  row?.scrollIntoView({ block: "center" });
  row?.focus();
}

function relatedList(title, positions) {
  const list = listed({ class: "forms" }, positions, (other) => {
    const verdict = current.holds(state.policy, other) ? "in" : "out";
    const link = written("button", { type: "button", class: "link", dir: "auto", onclick: () => openItem(other) }, preview(items[other]));
    return [make("b", { text: `${plural(items[other].tokens, "token")}, ${verdict}` }), " ", link];
  });
  return make("details", { class: "related" }, written("summary", {}, title), list);
}

// The other forms and group members of an item, each with its verdict and a link.
function relationLists(position) {
  const item = items[position];
  const lists = [];
  const forms = formsOf(position).filter((other) => other !== position);
  if (forms.length) lists.push(relatedList(`One of ${forms.length + 1} forms of ${item.entity}: at most one is in`, forms));
  const beside = company(groups, item.group, position);
  if (beside.length) lists.push(relatedList(`In or out together with ${plural(beside.length, "other")} (${item.group})`, beside));
  return lists;
}
