// Runs before the first paint: set the stored theme, else the system's.
(function () {
  "use strict";
  var chosen = null;
  try { chosen = window.localStorage.getItem("balancewatch-theme"); } catch (refused) { chosen = null; }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
