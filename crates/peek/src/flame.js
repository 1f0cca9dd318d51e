"use strict";
(function () {
  // Widths are the server's, out of `WIDTH`; a zoom stretches what lies above one frame over all of it.
  const WIDTH = 1180, LEFT = 10, LETTER = 6.6;
  const status = document.getElementById("status"), count = document.getElementById("count");
  const frames = Array.from(document.querySelectorAll("g.f"), function (group) {
    const rect = group.querySelector("rect");
    return {
      group: group, rect: rect, text: group.querySelector("text"), title: group.querySelector("title").textContent,
      name: group.dataset.n, x: +rect.getAttribute("x") - LEFT, width: +rect.getAttribute("width"),
      y: +rect.getAttribute("y")
    };
  });
  function fit(frame, x, width) {
    const letters = Math.floor((width - 6) / LETTER);
    frame.rect.setAttribute("x", LEFT + x);
    frame.rect.setAttribute("width", Math.max(width - 0.3, 0.1));
    frame.text.setAttribute("x", LEFT + Math.max(x, 0) + 3);
    frame.text.textContent = letters < 3 ? "" :
      frame.name.length <= letters ? frame.name : frame.name.slice(0, letters - 1) + "\u2026";
  }
  function zoom(to) {
    const factor = WIDTH / to.width, slack = 1e-6;
    for (const frame of frames) {
      const below = frame.y > to.y, end = frame.x + frame.width;
      const around = frame.x <= to.x + slack && end >= to.x + to.width - slack;
      const inside = frame.x >= to.x - slack && end <= to.x + to.width + slack;
      const shown = below ? around : inside;
      frame.group.style.display = shown ? "" : "none";
      frame.group.style.opacity = below && to !== root ? 0.5 : 1;
      if (shown) fit(frame, below ? 0 : (frame.x - to.x) * factor, below ? WIDTH : frame.width * factor);
    }
  }
  function search(words) {
    const wanted = words.toLowerCase(), found = [];
    for (const frame of frames) {
      const hit = wanted !== "" && frame.name.toLowerCase().includes(wanted);
      frame.group.classList.toggle("hit", hit);
      // One inside another of them is the same time.
      if (hit && !found.some(function (f) { return f.y > frame.y && frame.x >= f.x && frame.x < f.x + f.width; }))
        found.push(frame);
    }
    const sum = found.reduce(function (sum, frame) { return sum + frame.width; }, 0);
    count.textContent = wanted === "" ? "" : (100 * sum / WIDTH).toFixed(1) + " % has \u201c" + words + "\u201d";
  }
  frames.sort(function (a, b) { return b.y - a.y; });
  const root = frames[0];
  for (const frame of frames) {
    frame.group.addEventListener("click", function () { zoom(frame); });
    frame.group.addEventListener("mouseover", function () { status.textContent = frame.title; });
    frame.group.addEventListener("mouseout", function () { status.textContent = ""; });
  }
  document.getElementById("find").addEventListener("click", function () {
    const words = window.prompt("Search names for:", "");
    if (words !== null) search(words);
  });
})();
