// Tables sort by a click on a column's head. Without this script the page reads the same.
document.querySelectorAll("table.sorts").forEach((table) => {
  table.querySelectorAll("thead th").forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
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
