// Forms of one thing, groups, requirements and exclusions: in words, with the way to each item that is meant.

const things = new Map();
const groups = new Map();
const exclusives = new Map();
const dependents = new Map();

items.forEach((item, position) => {
  const enter = (index, label) => { if (label !== undefined) index.set(label, [...(index.get(label) ?? []), position]); };
  enter(things, item.thing);
  enter(groups, item.group);
  enter(exclusives, item.exclusive);
  for (const thing of item.requires ?? []) enter(dependents, thing);
});

const formsOf = (position) => things.get(items[position].thing) ?? [position];
const hasForms = [...things.values()].some((positions) => positions.length > 1);
const longest = (position) => Math.max(...formsOf(position).map((other) => items[other].tokens));

// The other things under one label; the forms of one thing are no company to each other.
const company = (index, label, position) => (index.get(label) ?? []).filter((other) => other !== position && (items[other].thing === undefined || items[other].thing !== items[position].thing));

// Whether a thing is in, in some form.
const standsIn = (position) => formsOf(position).some((form) => current.holds(state.policy, form));

// An item's relations in a few words, for its row.
function relationWords(position) {
  const item = items[position];
  const words = [];
  const forms = formsOf(position).length;
  if (forms > 1) words.push(item.tokens < longest(position) ? `short form, ${number(item.tokens)} of ${plural(longest(position), "token")}` : `the longest of ${forms} forms`);
  const beside = company(groups, item.group, position).length;
  if (beside) words.push(`in or out with ${plural(beside, "other")}`);
  if (item.requires) words.push(`needs ${plural(item.requires.length, "other")}`);
  const rivals = company(exclusives, item.exclusive, position).length;
  if (rivals) words.push(`instead of ${plural(rivals, "other")}`);
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

// What an item has to do with others, each with its name, whether it is in, and a way there.
function relationLists(position) {
  const item = items[position];
  const lists = [];
  const forms = formsOf(position).filter((other) => other !== position);
  if (forms.length) lists.push(relatedList(`One of ${forms.length + 1} forms of ${item.thing}: at most one is in`, forms));
  const beside = company(groups, item.group, position);
  if (beside.length) lists.push(relatedList(`In or out together with ${plural(beside.length, "other")} (${item.group})`, beside));
  for (const thing of item.requires ?? []) {
    const inside = standsIn((things.get(thing) ?? [])[0] ?? position) ? "which is in" : "which is not in";
    lists.push(relatedList(`Needs ${thing}, ${inside}`, things.get(thing) ?? []));
  }
  const needed = dependents.get(item.thing) ?? [];
  if (item.thing !== undefined && needed.length) lists.push(relatedList(`Needed by ${plural(needed.length, "other")}`, needed));
  const rivals = company(exclusives, item.exclusive, position);
  if (rivals.length) lists.push(relatedList(`At most one of these and ${plural(rivals.length, "other")} is in (${item.exclusive})`, rivals));
  return lists;
}
