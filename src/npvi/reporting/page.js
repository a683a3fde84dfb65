"use strict";
// What a page of a report does: it embeds Bokeh's plots, shows what the controls say, and draws neighbourhoods. Text is
// set as text, never as markup.
(async () => {
  const parsed = (id) => JSON.parse(document.getElementById(id).textContent);
  for (const [place, item] of Object.entries(parsed("plots"))) await Bokeh.embed.embed_item(item, place);
  const model = (id) => {
    for (const page of Bokeh.documents) {
      const found = page.get_model_by_id(id);
      if (found) return found;
    }
    throw new Error(`the page has no ${id}`);
  };

  // controls: what one of them shows is visible where any that is checked shows it
  const controls = [...document.querySelectorAll("input[data-shows]")];
  const update = () => {
    const wanted = new Map();
    for (const control of controls)
      for (const id of control.dataset.shows.split(" ").filter(Boolean))
        wanted.set(id, wanted.get(id) || control.checked);
    for (const [id, visible] of wanted) if (model(id).visible !== visible) model(id).visible = visible;
    for (const line of document.querySelectorAll("[data-with]"))
      line.hidden = !document.getElementById(line.dataset.with).checked;
  };
  for (const control of controls) control.addEventListener("change", update);
  update(); // a browser may remember what was checked before

  // on a small screen as many marks as on a large one
  const all = parsed("facts");
  if (window.innerWidth < 640)
    for (const id of all.smaller ?? []) {
      const { glyph } = model(id);
      glyph.size = { value: 0.55 * glyph.size.value };
      glyph.line_width = { value: 0.6 * glyph.line_width.value };
    }

  // neighbourhoods: which observation, its parents and their weights
  const facts = all.neighbourhood;
  if (facts) {
    const select = document.getElementById("neighbourhood-choice");
    const rows = document.getElementById("neighbourhood-rows");
    const candidates = model(facts.candidates);
    const show = (number) => {
      const one = facts.observations[number];
      select.value = String(number);
      const largest = Math.max(1e-12, ...one.weights.map(Math.abs));
      const each = (values) => one.x.map(values);
      model(facts.links).data = {
        x0: each(() => one.own[0]),
        y0: each(() => one.own[1]),
        x1: one.x,
        y1: one.y,
        width: one.weights.map((w) => 1 + (6 * Math.abs(w)) / largest),
        colour: one.weights.map((w) => (w < 0 ? facts.negative : facts.positive)),
        weight: one.weights,
        row: one.rows,
      };
      model(facts.chosen).data = { x: [one.own[0]], y: [one.own[1]], row: [one.row] };
      rows.replaceChildren(
        ...one.rows.map((row, place) => {
          const line = document.createElement("tr");
          for (const value of [row.toLocaleString("en"), one.weights[place].toFixed(3)]) {
            const cell = document.createElement("td");
            cell.className = "number";
            cell.textContent = value;
            line.append(cell);
          }
          return line;
        }),
      );
    };
    const step = (by) => show((Number(select.value) + by + facts.observations.length) % facts.observations.length);
    select.addEventListener("change", () => show(Number(select.value)));
    document.getElementById("neighbourhood-before").addEventListener("click", () => step(-1));
    document.getElementById("neighbourhood-after").addEventListener("click", () => step(1));
    candidates.selected.properties.indices.change.connect(() => {
      const [first] = candidates.selected.indices;
      if (first !== undefined) show(first);
    });
    show(facts.first);
  }
  document.body.dataset.ready = "yes";
})();
