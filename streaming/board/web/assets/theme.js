// Runs before anything is painted: the theme that was chosen here last, or the system's.
(function () {
  "use strict";
  var chosen = null;
  try { chosen = window.localStorage.getItem("balancewatch-theme"); } catch (refused) { chosen = null; }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
