// Sets the chosen theme before anything is painted. Without a choice, the system decides.
"use strict";
try {
  const chosen = localStorage.getItem("theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
} catch { /* storage is off: the system decides */ }
