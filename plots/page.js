// Tooltips of the charts' marks: under the pointer, and with the arrow keys in a chart that has the focus.
"use strict";
(() => {
  const tooltip = document.createElement("div");
  tooltip.id = "tooltip";
  tooltip.setAttribute("role", "status");
  tooltip.hidden = true;
  document.body.append(tooltip);
  let chosen = null;

  const hide = () => {
    tooltip.hidden = true;
    if (chosen) chosen.classList.remove("chosen");
    chosen = null;
  };
  const show = (text, x, y) => {
    tooltip.textContent = text;
    tooltip.hidden = false;
    const box = tooltip.getBoundingClientRect();
    tooltip.style.left = Math.max(4, Math.min(x + 12, innerWidth - box.width - 4)) + "px";
    tooltip.style.top = (y + 16 + box.height > innerHeight ? Math.max(4, y - box.height - 8) : y + 16) + "px";
  };
  const marks = (drawing) => [...drawing.querySelectorAll('[role="graphics-symbol"][aria-label]')]
    .filter((mark) => mark.getAttribute("aria-roledescription") !== "axis" && !mark.querySelector("[aria-label]"));

  for (const drawing of document.querySelectorAll(".drawing")) {
    const all = new Set(marks(drawing));
    drawing.addEventListener("pointermove", (event) => {
      const mark = event.target.closest('[role="graphics-symbol"]');
      if (mark && all.has(mark)) show(mark.getAttribute("aria-label"), event.clientX, event.clientY);
      else hide();
    });
    drawing.addEventListener("pointerleave", hide);
    drawing.addEventListener("blur", hide);
    drawing.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === "Escape") hide();
      const list = [...all];
      if (!step || !list.length) return;
      event.preventDefault();
      const next = list[(list.indexOf(chosen) + step + list.length + (chosen ? 0 : step < 0 ? 1 : 0)) % list.length];
      hide();
      chosen = next;
      next.classList.add("chosen");
      next.scrollIntoView({ block: "nearest" });
      const box = next.getBoundingClientRect();
      show(next.getAttribute("aria-label"), box.left + Math.min(box.width, 200), box.top + box.height / 2);
    });
  }
  // A link to what is folded opens it.
  const unfold = () => {
    const aim = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let at = aim; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    if (aim) aim.scrollIntoView();
  };
  addEventListener("hashchange", unfold);
  unfold();
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((d) => (d.open = true)));
})();
