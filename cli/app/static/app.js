// The page works without this script. With it, progress moves, the slider slides, and commands can be copied.
"use strict";

const job = document.querySelector("[data-job]");
if (job) {
  const bar = job.querySelector("progress"), time = job.querySelector(".time"), phases = [...job.querySelectorAll("[data-phase]")];
  const words = (seconds) => seconds < 90 ? job.dataset.seconds.replace("{}", seconds) : job.dataset.minutes.replace("{}", Math.round(seconds / 60));
  const ask = async () => {
    try {
      const facts = await (await fetch(job.dataset.job)).json();
      if (!facts.running) { sessionStorage.setItem("ended", location.pathname); location.reload(); return; }
      if (facts.total) { bar.max = facts.total; bar.value = facts.done; } else { bar.removeAttribute("value"); }
      const now = phases.findIndex((phase) => facts.phase.startsWith(phase.dataset.phase));
      phases.forEach((phase, k) => {
        phase.className = k < now ? "done" : "";
        if (k === now) phase.setAttribute("aria-current", "step"); else phase.removeAttribute("aria-current");
      });
      time.textContent = facts.seconds === null ? "" : words(facts.seconds) + (!facts.left ? "" : " · " + job.dataset.left.replace("{}", words(facts.left)));
      let left = facts.releases;
      for (const row of document.querySelectorAll(".ledger tbody tr")) {
        if (left >= Number(row.dataset.times)) row.querySelector(".state").textContent = row.closest("table").dataset.measured;
        left -= Number(row.dataset.times);
      }
    } catch (error) { /* The server has stopped, or will answer the next time. */ }
    setTimeout(ask, 700);
  };
  ask();
}

// After a form was sent, or a task has ended, the focus goes to what has changed.
const ended = sessionStorage.getItem("ended") === location.pathname || location.hash === "#now";
sessionStorage.removeItem("ended");
const changed = document.querySelector("main > [role=alert]") || (ended && document.getElementById("now"));
if (changed) changed.focus();

const slider = document.querySelector(".slider");
if (slider) {
  const typed = document.querySelector("[name=epsilon]"), german = document.documentElement.lang === "de";
  const place = () => { slider.value = Math.log(Number(typed.value.replace(",", "."))); slider.setAttribute("aria-valuetext", typed.value); };
  slider.hidden = false;
  place();
  slider.addEventListener("input", () => {
    const text = String(Number(Math.exp(slider.value).toPrecision(2)));
    typed.value = german ? text.replace(".", ",") : text;
    slider.setAttribute("aria-valuetext", typed.value);
  });
  typed.addEventListener("input", place);
}

for (const kind of document.querySelectorAll(".kind"))
  kind.addEventListener("change", () => {
    const column = kind.closest(".column");
    column.dataset.kind = kind.value;
    column.querySelector(".kind-name").textContent = kind.selectedOptions[0].textContent;
  });

// A column that was changed is checked when it is left.
for (const column of document.querySelectorAll(".column")) {
  let changed = false;
  column.addEventListener("input", () => { changed = true; });
  column.addEventListener("focusout", async (event) => {
    if (!changed || column.contains(event.relatedTarget)) return;
    changed = false;
    const answer = await fetch(column.closest("form").dataset.faults, { method: "POST", body: new URLSearchParams(new FormData(column.closest("form"))) });
    const faults = answer.ok ? (await answer.json())[column.id.slice(1)] || [] : [];
    column.querySelector(".problem").replaceChildren(...faults.map((text) => Object.assign(document.createElement("li"), { textContent: text })));
  });
}

const opened = () => { const column = document.querySelector(location.hash.match(/^#c\d+$/) ? location.hash : "none"); if (column) { column.open = true; column.querySelector("summary").focus(); } };
addEventListener("hashchange", opened);
opened();

for (const button of document.querySelectorAll(".copy"))
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.previousElementSibling.textContent);
    button.textContent = button.dataset.done;
  });

const plots = document.querySelector("[data-plots]");
if (plots) fetch(plots.dataset.plots).then(async (answer) => { if (answer.ok) plots.innerHTML = await answer.text(); });
