// What pages can do beyond links and forms: follow a run that goes on, and move between turns by keyboard.
"use strict";

(() => {
  const head = document.getElementById("head");
  const list = document.getElementById("list");
  const status = document.getElementById("status");

  function follow(address, after) {
    let seen = "";
    const source = new EventSource(address + "?after=" + encodeURIComponent(after));
    source.addEventListener("head", (event) => {
      if (head.contains(document.activeElement)) {
        if (event.lastEventId === seen) return; // only the clock has moved on: not worth the reader's place
        document.activeElement.blur();
      }
      seen = event.lastEventId;
      head.innerHTML = event.data; // markup of our own server, escaped there
    });
    source.addEventListener("turn", (event) => {
      const cut = event.data.indexOf("\n");
      const index = event.data.slice(0, cut);
      const known = document.getElementById("i" + index);
      if (known) known.outerHTML = event.data.slice(cut + 1);
      else if (list && list.dataset.more !== "yes") list.insertAdjacentHTML("beforeend", event.data.slice(cut + 1));
      if (status) status.textContent = "turn " + (Number(index) + 1);
    });
    source.addEventListener("end", () => {
      source.close();
      if (status) status.textContent = "the run is over";
      head.dataset.live = "";
    });
  }

  if (head && head.dataset.live && "EventSource" in window) follow(head.dataset.live, head.dataset.after);

  // j and k go to the next and the last turn, / to the search field.
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
    if (event.key === "/") {
      const field = document.querySelector("[role=search] input");
      if (field) { field.focus(); event.preventDefault(); }
      return;
    }
    if (event.key !== "j" && event.key !== "k") return;
    const turns = [...document.querySelectorAll(".turn")];
    const top = (turn) => turn.getBoundingClientRect().top;
    const next = event.key === "j" ? turns.find((turn) => top(turn) > 12) : turns.filter((turn) => top(turn) < -12).pop();
    if (next) {
      next.setAttribute("tabindex", "-1");
      next.focus({ preventScroll: true });
      next.scrollIntoView();
    }
  });
})();
