// Cells learn the names of their columns, for narrow screens, where the contents are folded; tables sort by a click on a
// column's arrows; a keyboard reaches what scrolls. Without this script the page reads the same.
const narrow = matchMedia("(max-width: 60rem)");
const fold = () => { document.querySelector("nav details").open = !narrow.matches; };
narrow.addEventListener("change", fold);
fold();
document.querySelectorAll(".tablebox table").forEach((table) => {
  const names = [...table.querySelectorAll("thead th")].map((head) => head.textContent.trim());
  [...table.tBodies].forEach((body) => [...body.rows].forEach((row) => [...row.cells].forEach((cell, k) => {
    cell.dataset.label = names[k] ?? "";
    if (cell.childNodes.length) { const all = document.createElement("div"); all.append(...cell.childNodes); cell.append(all); }
  })));
  table.classList.add("stacked");
});
const reach = () => document.querySelectorAll("figure, .tablebox").forEach((box) => {
  if (box.scrollWidth > box.clientWidth) box.tabIndex = 0; else box.removeAttribute("tabindex");
});
addEventListener("resize", reach);
reach();
document.querySelectorAll("table.sorts").forEach((table) => {
  table.querySelectorAll("thead th").forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.setAttribute("aria-label", `sort by ${head.textContent.trim()}`);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const key = (row) => {
        const cell = row.cells[column];
        const data = cell.querySelector("data");
        return data ? Number(data.value) : cell.textContent.trim().toLowerCase();
      };
      const body = table.tBodies[0];
      [...body.rows]
        .sort((a, b) => {
          const [x, y] = [key(a), key(b)];
          const order = typeof x === typeof y ? (x > y ? 1 : y > x ? -1 : 0) : typeof x === "number" ? -1 : 1;
          return up ? order : -order;
        })
        .forEach((row) => body.append(row));
    });
  });
});
