"use strict";
// Fetches the page again and exchanges the sections that have changed; everything in them was escaped by the server.
(() => {
  const sections = ["head", "tiles", "board", "workers", "panels"];
  const period = 1000 * Number(document.documentElement.dataset.refresh || 2);
  const button = document.getElementById("live");
  let live = true, sort = null, timer = 0;

  const say = (text) => { button.textContent = text; };
  const label = () => live ? `Pause (live, every ${period / 1000} s)` : "Go on";

  async function refresh() {
    clearTimeout(timer);
    if (!live) return;
    const began = performance.now();
    if (!document.hidden && getSelection().isCollapsed) {
      try {
        const answer = await fetch(location.href, { cache: "no-store", signal: AbortSignal.timeout(10000) });
        if (!answer.ok) throw new Error(answer.status);
        exchange(new DOMParser().parseFromString(await answer.text(), "text/html"));
        document.body.classList.remove("lost");
        say(label());
      } catch (error) {
        document.body.classList.add("lost");
        say("No answer; still trying");
      }
    }
    // A page that takes long to make is not asked for more often than it can be.
    timer = setTimeout(refresh, Math.max(period, 5 * (performance.now() - began)));
  }

  function exchange(fresh) {
    for (const id of sections) {
      const [mine, theirs] = [document.getElementById(id), fresh.getElementById(id)];
      if (!mine || !theirs) continue;
      const scroll = mine.querySelector(".scroll")?.scrollLeft;
      if (id === "workers") order(theirs);
      if (mine.innerHTML === theirs.innerHTML) continue;
      mine.replaceChildren(...theirs.childNodes);
      if (scroll) mine.querySelector(".scroll").scrollLeft = scroll;
    }
    document.title = fresh.title;
  }

  // Sorts the rows of a workers section by the chosen column.
  function order(section) {
    const table = section?.querySelector("table.sortable");
    if (!table) return;
    table.classList.add("sorts");
    if (!sort) return;
    const value = (row) => {
      const cell = row.cells[sort.column];
      return cell?.dataset.v === undefined ? cell?.textContent ?? "" : Number(cell.dataset.v);
    };
    const compare = (a, b) => typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
    const rows = [...table.tBodies[0].rows].sort((a, b) => sort.way * compare(value(a), value(b)));
    table.tBodies[0].append(...rows);
    table.tHead.rows[0].cells[sort.column].setAttribute("aria-sort", sort.way > 0 ? "ascending" : "descending");
  }

  document.addEventListener("click", (event) => {
    const head = event.target.closest(".sorts thead th");
    if (!head) return;
    const column = head.cellIndex;
    // Numbers from the top first; a second click turns the order round.
    const first = head.classList.contains("n") && column > 0 ? -1 : 1;
    sort = { column, way: sort?.column === column ? -sort.way : first };
    head.parentElement.querySelectorAll("[aria-sort]").forEach((cell) => cell.removeAttribute("aria-sort"));
    order(document.getElementById("workers"));
  });
  button.addEventListener("click", () => { live = !live; say(label()); refresh(); });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });

  button.hidden = false;
  say(label());
  order(document.getElementById("workers"));
  timer = setTimeout(refresh, period);
})();
