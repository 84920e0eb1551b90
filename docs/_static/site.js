"use strict";
// Code, tables and figures that are wider than the page scroll inside it: the edge behind which they go on fades.
document.addEventListener("DOMContentLoaded", () => {
  const mark = (box) => {
    const rest = box.scrollWidth - box.clientWidth - box.scrollLeft;
    box.classList.toggle("more-left", box.scrollLeft > 1);
    box.classList.toggle("more-right", rest > 1);
  };
  const sizes = new ResizeObserver((entries) => { for (const entry of entries) mark(entry.target); });
  for (const box of document.querySelectorAll(".content :is(pre, table, .table-wrapper, p:has(> img))")) {
    sizes.observe(box);
    box.addEventListener("scroll", () => mark(box), { passive: true });
  }
});
