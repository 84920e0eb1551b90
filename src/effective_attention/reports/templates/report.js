"use strict";
(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const remember = (value) => { try { localStorage.setItem("theme", value); } catch { /* a file may have no storage */ } };
  const recall = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const show = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", isDark() ? "Switch to light colours" : "Switch to dark colours");
  };
  const stored = recall();
  if (stored === "dark" || stored === "light") root.dataset.theme = stored;
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    remember(root.dataset.theme);
    show();
  });
  dark.addEventListener("change", show);
  show();

  const contents = document.getElementById("contents");
  const here = document.getElementById("here");
  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const link of links.values()) link.removeAttribute("aria-current");
      const link = links.get(entry.target.id); // none: the head of the page
      link?.setAttribute("aria-current", "true");
      here.textContent = link ? `: ${link.textContent}` : "";
    }
  }, { rootMargin: "-20% 0px -70% 0px" });
  for (const part of document.querySelectorAll("main > header, main section")) observer.observe(part);

  // the list stands open at the side where there is room, else it opens on demand and closes behind a choice
  const wide = window.matchMedia("(min-width: 76rem)");
  const fold = () => { contents.open = wide.matches; };
  wide.addEventListener("change", fold);
  for (const link of links.values()) link.addEventListener("click", fold);
  fold();

  // the edge behind which a box goes on fades
  const mark = (box) => {
    const rest = box.scrollWidth - box.clientWidth - box.scrollLeft;
    box.classList.toggle("more-left", box.scrollLeft > 1);
    box.classList.toggle("more-right", rest > 1);
  };
  const sizes = new ResizeObserver((entries) => { for (const entry of entries) mark(entry.target); });
  for (const box of document.querySelectorAll(".box")) {
    sizes.observe(box);
    box.addEventListener("scroll", () => mark(box), { passive: true });
  }
})();
