// The page works without this script. With it, progress moves, the slider slides, and commands can be copied.
"use strict";

const job = document.querySelector("[data-job]");
if (job) {
  const bar = job.querySelector("progress"), phase = job.querySelector(".phase"), time = job.querySelector(".time");
  const words = (seconds) => seconds < 90 ? job.dataset.seconds.replace("{}", seconds) : job.dataset.minutes.replace("{}", Math.round(seconds / 60));
  const ask = async () => {
    try {
      const facts = await (await fetch(job.dataset.job)).json();
      if (!facts.running) { location.replace(location.pathname); return; }
      if (facts.total) { bar.max = facts.total; bar.value = facts.done; }
      if (facts.phase && phase.textContent !== facts.phase) phase.textContent = facts.phase;
      time.textContent = words(facts.seconds) + (facts.left === null ? "" : " · " + job.dataset.left.replace("{}", words(facts.left)));
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

const slider = document.querySelector(".slider");
if (slider) {
  const typed = document.querySelector("[name=epsilon]"), shown = document.querySelector(".epsilon");
  slider.hidden = false;
  slider.value = Math.log(Number(typed.value));
  slider.addEventListener("input", () => { shown.textContent = typed.value = Number(Math.exp(slider.value).toPrecision(2)); });
  typed.addEventListener("input", () => { slider.value = Math.log(Number(typed.value.replace(",", "."))); shown.textContent = typed.value; });
}

for (const kind of document.querySelectorAll(".kind"))
  kind.addEventListener("change", () => { kind.closest(".column").dataset.kind = kind.value; });

for (const button of document.querySelectorAll(".copy"))
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.previousElementSibling.textContent);
    button.textContent = button.dataset.done;
  });

const plots = document.querySelector("[data-plots]");
if (plots) fetch(plots.dataset.plots).then(async (answer) => { if (answer.ok) plots.innerHTML = await answer.text(); });
