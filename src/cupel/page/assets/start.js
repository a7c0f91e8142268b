// Begins: the theme, the title, and the view that the address asks for, or the first.

function showView(id) {
  const shown = views.find((view) => view.id === id) ?? views[0];
  for (const view of views) {
    $(`${view.id}-view`).hidden = view !== shown;
    $(`to-${view.id}`).setAttribute("aria-pressed", String(view === shown));
  }
  $("subtitle").textContent = shown.subtitle;
  shown.follow();
}

function startPage() {
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = false;
  theme(system.matches);
  system.addEventListener("change", () => { if (!chosen) theme(system.matches); });
  on("theme", "click", () => { chosen = true; theme(document.documentElement.dataset.theme !== "dark"); });
  writeText($("title"), data.title);
  $("trust").textContent = `Made by ${data.generator}.`;
  $("views").hidden = views.length < 2;
  for (const { id } of views) {
    on(`to-${id}`, "click", () => {
      address.write({ view: id });
      showView(id);
    });
  }
  const follow = () => showView(address.read().get("view"));
  addEventListener("hashchange", follow);
  if (views.length) follow();
}

startPage();
